package testbed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/linestream"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// PodFleetOptions say how workers in pods are led.
type PodFleetOptions struct {
	Pods  PodsOptions
	Redis *redis.Options // of the ledger's store, which carries commands and events
	Fleet string         // the workers' --fleet: the run's id where the run applies them, else the experiment's name; see linestream.CheckFleet
	// Replicas are r1, r2 ... In pods of a StatefulSet r1 is the one that ends in -0, also when it has come back.
	Replicas int
	// Wanted says whether the run itself ended an incarnation: by a fault, or because the drill is over. nil = it never did.
	Wanted func(incarnation string) bool
}

// PodFleet runs replicas on workers in pods, which somebody else starts: a Deployment of this run's, or one that is there. It
// implements runner.Fleet, and is safe for concurrent use.
//
// A worker is a process that has said hello to the fleet from one of the pods. Which life of a container it is, its log says: there its
// hello is the first line. Where logs are not to be had, the only life of its pod at that time is taken for it.
type PodFleet struct {
	o     PodFleetOptions
	line  lines
	lives *podLives
	ends  sync.WaitGroup // of those who wait for a worker's last lines

	// podLives.mu guards what follows; mu as well, where it is changed.
	workers []*podWorker // in the order of their hellos
	asked   []protocol.Configure
	stopped bool
	changed chan struct{} // closed and made anew when a worker has ended

	mu       sync.Mutex
	assigned map[string]string // life by incarnation
}

// lines is what the fleet needs of a linestream.Hub.
type lines interface {
	Send(life string, text []byte) error
	Sign(life string) (at int64, ok bool)
	Settle(ctx context.Context, life string) error
	Forget(life string)
	Close(ctx context.Context) error
}

const (
	signQuiet  = 800 * time.Millisecond // four syncs: a worker that is not heard for so long after the end of its log will not be
	lastLines  = 2 * time.Second        // after a worker's end, for what it has said before
	closeLimit = 5 * time.Second        // of what stands beside the replicas
	leaveLimit = 3 * time.Second        // after it was told to stop: a worker that has said goodbye, or whose pod is gone, is not waited for longer
)

// NewPodFleet begins to watch the pods and to listen to their workers. Its owner calls Stop. It panics where the fleet's name is not
// usable.
func NewPodFleet(o PodFleetOptions) *PodFleet {
	f := newPodFleet(o)
	f.lives.mu.Lock() // what the hub tells waits until the hub is known here
	defer f.lives.mu.Unlock()
	f.line = linestream.Open(linestream.Options{
		Redis: o.Redis, Fleet: o.Fleet, Clock: o.Pods.Clock, OnHello: f.hello, OnLine: f.hear, OnEnd: f.left,
	})
	f.lives.start()
	return f
}

// newPodFleet is one that neither watches nor listens yet.
func newPodFleet(o PodFleetOptions) *PodFleet {
	f := &PodFleet{o: o, changed: make(chan struct{}), assigned: map[string]string{}}
	f.lives = newLives(o.Pods, lifeHooks{
		changed: func(*podLife) { f.assign() }, ended: f.lifeEnded, line: f.logged, sign: f.sign, assigned: f.inPod, quiet: signQuiet, old: true,
	})
	return f
}

// Start assigns the next worker that has said hello, or the next that will: it does not wait. The replica that it returns has no
// incarnation: the fleet itself tells replica.start, as soon as the worker is there and before it is told who it is.
func (f *PodFleet) Start(ctx context.Context, c protocol.Configure) (history.Replica, history.Span, error) {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	var none history.Replica
	switch {
	case ctx.Err() != nil:
		return none, history.Span{}, fmt.Errorf("start replica %s: %w", c.Incarnation, ctx.Err())
	case f.stopped:
		return none, history.Span{}, fmt.Errorf("start replica %s: the fleet is stopped", c.Incarnation)
	}
	f.asked = append(f.asked, c)
	f.assign()
	return none, history.Span{}, nil
}

// assign gives those who are asked for to workers that are free. A pod that is to end is no place for one, and one with an ordinal is the
// place of its own replica only.
func (f *PodFleet) assign() {
	for at := 0; at < len(f.asked) && !f.stopped; {
		c := f.asked[at]
		i := slices.IndexFunc(f.workers, func(w *podWorker) bool {
			p := f.lives.pods[w.hello.UID]
			if w.replica.Incarnation != "" || w.over != nil || w.left || p == nil || p.gone || p.Ending {
				return false
			}
			n, ordered := p.Ordinal()
			return !ordered || n >= f.o.Replicas || c.Name == fmt.Sprintf("r%d", n+1)
		})
		if i < 0 {
			at++
			continue
		}
		f.asked = slices.Delete(f.asked, at, at+1)
		f.place(f.workers[i], c)
	}
}

// place makes a worker a replica.
func (f *PodFleet) place(w *podWorker, c protocol.Configure) {
	now := f.o.Pods.Clock()
	b := f.body(w)
	w.started = history.Span{From: now, To: now}
	w.replica = history.Replica{Name: c.Name, Incarnation: c.Incarnation}
	if w.life != nil {
		w.life.incarnation = c.Incarnation
	}
	f.mu.Lock()
	f.assigned[c.Incarnation] = w.hello.Life
	f.mu.Unlock()
	start := w.replica
	start.Pod = &b
	f.o.Pods.OnEvent(history.Event{Kind: history.ReplicaStart, Span: w.started, Source: "runner", Replica: &start})
	if err := f.Send(c.Incarnation, protocol.Command{Cmd: protocol.CmdConfigure, Configure: &c}); err != nil {
		w.bad(nil, fmt.Errorf("it was not told who it is: %w", err)) // it does not get ready, and its end tells why
	}
}

// body is the pod that a worker is in. A hello may come before the status that shows its life: the container has then been started once
// more than the last life that is another's.
func (f *PodFleet) body(w *podWorker) history.Pod {
	if w.life != nil {
		return w.life.body()
	}
	p := f.lives.pods[w.hello.UID]
	if p == nil {
		return history.Pod{Name: w.hello.Pod, UID: w.hello.UID}
	}
	b := (&podLife{pod: p, restarts: p.Container.Restarts}).body()
	for _, l := range f.lives.lives {
		if others := l.worker != "" && l.worker != w.hello.Life; others && l.pod == p {
			b.Restarts = max(b.Restarts, l.restarts+1)
		}
	}
	return b
}

// inPod is the replica that is in a pod, where no log says in which life.
func (f *PodFleet) inPod(uid string) string {
	for _, w := range slices.Backward(f.workers) {
		if w.hello.UID == uid && w.over == nil && w.life == nil {
			return w.replica.Incarnation
		}
	}
	return ""
}

// Send queues a command for a replica. It never waits: ErrBacklog, ErrDead as of a Fleet.
func (f *PodFleet) Send(incarnation string, c protocol.Command) error {
	f.mu.Lock()
	life, ok := f.assigned[incarnation]
	f.mu.Unlock()
	if !ok {
		return fmt.Errorf("send %s to replica %s: %w", c.Cmd, incarnation, ErrDead)
	}
	line, err := encode(c)
	if err != nil {
		return err
	}
	err = f.line.Send(life, line[:len(line)-1])
	switch {
	case errors.Is(err, linestream.ErrBacklog):
		err = ErrBacklog
	case errors.Is(err, linestream.ErrUnknown):
		err = ErrDead
	}
	if err != nil {
		return fmt.Errorf("send %s to replica %s: %w", c.Cmd, incarnation, err)
	}
	return nil
}

// Stop tells every replica to finish and waits until each life is seen to be over, or ctx ends; then it ends the watch and removes what
// the fleet has in the ledger's store. The pods stay: their containers live on to the next drill, until their Deployment goes. An error
// names the replicas whose end nobody has seen. It may be called again.
func (f *PodFleet) Stop(ctx context.Context) error {
	f.lives.mu.Lock()
	again := f.stopped
	f.stopped, f.asked = true, nil
	f.lives.mu.Unlock()
	if again {
		return nil
	}
	for _, w := range f.working() {
		_ = f.Send(w, protocol.Command{Cmd: protocol.CmdStop}) // a dead one needs no word, and a deaf one is named below
	}
	left := f.await(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	err := f.line.Close(closing)
	f.lives.close()
	f.ends.Wait()
	if len(left) > 0 {
		err = errors.Join(fmt.Errorf("stop fleet: nobody has seen the end of %s", strings.Join(left, ", ")), err)
	}
	return err
}

// working are the replicas whose end is not seen.
func (f *PodFleet) working() []string {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	var all []string
	for _, w := range f.workers {
		if w.replica.Incarnation != "" && !w.told {
			all = append(all, w.replica.Incarnation)
		}
	}
	return all
}

// await waits for the ends of all; it returns those that were not seen.
func (f *PodFleet) await(ctx context.Context) (left []string) {
	limit := time.NewTimer(leaveLimit)
	defer limit.Stop()
	patient := true
	for {
		f.lives.mu.Lock()
		changed, waiting := f.changed, 0
		left = nil
		for _, w := range f.workers {
			if w.replica.Incarnation == "" || w.told {
				continue
			}
			waiting++
			if p := f.lives.pods[w.hello.UID]; !w.left && p != nil && !p.gone {
				left = append(left, w.replica.Incarnation)
			}
		}
		f.lives.mu.Unlock()
		if waiting == 0 || !patient && len(left) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-limit.C:
			patient = false
		case <-ctx.Done():
			return left
		}
	}
}
