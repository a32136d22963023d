package testbed

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// PodsOptions say which pods a fleet is made of, and who is told of them.
type PodsOptions struct {
	Cluster   *kube.Cluster     //
	Selector  map[string]string // labels of the pods
	Owners    map[string]string // their controllers, as in kube.Pod, by the namespace in their names: pods of others are none of the drill's; nil = whoever has the labels
	Container string            // the one whose lives are replicas; "" = each pod's first
	Clock     func() int64      // ns since the run's origin

	// OnEvent gets replica.start, replica.ready, replica.exit, the object events of pods and, from a PodFleet, the claims. It is called
	// one at a time over the whole fleet, and may call Send and nothing else of the fleet.
	OnEvent func(history.Event)
	// OnLine gets each line of a replica's log that is written while it has a slot, once, without its end. The span holds the instant
	// at which it was written, as far as is known. It is called as OnEvent is. nil = nobody asks.
	OnLine func(incarnation string, l follow.Line)
	// OnCut is told of each stretch in which a living replica's log was not followed, and of one within which a container lived that
	// was over when it was first seen: whose says which. nil = nobody asks.
	OnCut func(whose string, gap history.Span)
	// OnPast gets what a replica's log has when it begins to be followed, before any line. Where it is set, each log is asked now and then for
	// its last line: what follows that one was written later. It is called as OnEvent is. nil = nobody asks.
	OnPast func(incarnation string, p Past)
}

// podLives knows every life of a container in the pods of a selector.
//
// A life is over for one of these reasons only, and at the earliest at the instant at which that was seen:
//   - the container's status says terminated, or names another life as the present one (status);
//   - the stream of its log came to its end, and asking again does not show that very life running. Where the pod's object is gone
//     nothing can be asked: there the end counts unless a later sign of life refutes it, or another stream from that node was cut at
//     that time: an API server whose connection to the node was cut ends the stream as if the log had ended (log_stream);
//   - a fleet knows that the next life of the same container has spoken (successor).
//
// The end of the object is no reason, nor is a pod of the same name. What surely lived is known by Sign of a fleet only: neither a status
// nor a line of the log tells when it was true.
type podLives struct {
	o    PodsOptions
	from podSource
	h    lifeHooks
	stop context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex      // held during every callback
	pods  map[string]*pod // by UID
	lives []*podLife      // in the order in which they were seen
	// cuts says when the log of a life that lived on was last cut; one that ends before its status may look so, until its end is known.
	cuts  map[*podLife]int64
	whole bool  // the first list is: what is new began during the drill
	asked int64 // what has changed since the last list was asked for, then; 0 until the first is whole
	next  int64 // before the next list is asked for

	broken error // of the watch, until it stands again
}

// podSource is what is asked of a kube.Cluster.
type podSource interface {
	WatchPods(ctx context.Context, selector map[string]string, container string, on func(kube.Change), heard func(error))
	Pod(ctx context.Context, name, container string) (p kube.Pod, ok bool, err error)
	FollowStamped(ctx context.Context, pod, container string, from kube.LogStart) (io.ReadCloser, error)
	LastStamped(ctx context.Context, pod, container string, n int) ([]byte, error)
}

// lifeHooks are what a fleet wants to know. They are called one at a time, with podLives.mu held.
type lifeHooks struct {
	changed  func(*podLife)                                 // it was first seen, or its pod has changed
	ended    func(*podLife)                                 // its end is known
	line     func(l *podLife, text []byte, at history.Span) // of its log
	sign     func(l *podLife) (at int64)                    // it surely lived then
	assigned func(uid string) string                        // the incarnation in a pod whose life has none; nil = there is none
	quiet    time.Duration                                  // after the end of a log, until a sign of life would have refuted it
	old      bool                                           // logs of lives from before the drill are read from their beginning, too
}

// pod is a pod as last seen.
type pod struct {
	kube.Pod
	gone bool
	said history.Object
	last string // container of the life before the present one
}

// podLife is one life of a container.
type podLife struct {
	name, uid   string // of the pod
	pod         *pod
	id          string        // of the container
	restarts    int32         // before it
	began       history.Span  // it was running by To; From: it may have been so before
	fresh       bool          // it began during the drill
	incarnation string        // the fleet's; "" = it has no slot
	worker      string        // what it calls itself in its log; the fleet's
	kept        int64         // number of the last line that its log shows as acknowledged; the fleet's
	astray      bool          // its log goes on with the container's next life; the fleet's
	ready       bool          // the fleet's: that was told
	tried       bool          // its log is followed, or was once not to be had
	end         *lifeEnd      // nil = it may live
	read        chan struct{} // closed: nothing more is read of its log; nil = nothing ever was
}

type lifeEnd struct {
	history.Span        // From: the last sign of life; To: it was surely over
	by           string // status, log_stream, successor
	state        string // "exit status 137"; "" = nobody says
}

func newLives(o PodsOptions, h lifeHooks) *podLives {
	return &podLives{o: o, from: o.Cluster, h: h, pods: map[string]*pod{}, cuts: map[*podLife]int64{}, next: o.Clock()}
}

// start begins to watch; the caller calls close.
func (p *podLives) start() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.work.Go(func() {
		p.from.WatchPods(ctx, p.o.Selector, p.o.Container, func(c kube.Change) { p.see(ctx, c) }, p.heard)
	})
}

func (p *podLives) close() {
	p.stop()
	p.work.Wait()
}

// heard notes when lists are asked for: what one shows may be as old as the list before it, what comes after it is not older than it.
func (p *podLives) heard(broken error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken = broken; broken != nil {
		p.next = p.o.Clock()
	} else {
		p.asked, p.whole = p.next, true
	}
}

// unseen is what the watch gets that is broken at present; "" = it stands, or has not been tried yet.
func (p *podLives) unseen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken == nil {
		return ""
	}
	return p.broken.Error()
}

// see takes note of a change.
func (p *podLives) see(ctx context.Context, c kube.Change) {
	if in, _ := kube.NamespaceIn(c.Pod.Name); p.o.Owners != nil {
		if owner, known := p.o.Owners[in]; !known || owner != c.Pod.Owner {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Clock()
	seen := p.pods[c.Pod.UID]
	if seen == nil {
		seen = &pod{}
		p.pods[c.Pod.UID] = seen
	}
	seen.Pod, seen.gone = c.Pod, seen.gone || c.Gone
	p.container(ctx, seen, now)
	p.record(seen, now)
	for _, l := range p.lives {
		if l.pod == seen {
			p.h.changed(l)
		}
	}
}

// container draws what the status says of lives.
func (p *podLives) container(ctx context.Context, seen *pod, now int64) {
	k := seen.Container
	if k.LastID != "" && k.LastID != seen.last {
		if seen.last = k.LastID; p.find(seen.UID, k.LastID) == nil {
			p.missed(seen, now)
		}
	}
	if k.ID != "" && (k.Running || k.Terminated) && p.find(seen.UID, k.ID) == nil {
		l := &podLife{
			name: seen.Name, uid: seen.UID, pod: seen, id: k.ID, restarts: k.Restarts, began: history.Span{From: p.asked, To: now}, fresh: p.whole,
		}
		p.lives = append(p.lives, l)
		if !k.Running || seen.gone {
			p.missed(seen, now)
		} else {
			l.read = make(chan struct{})
			p.work.Go(func() {
				defer close(l.read)
				p.follow(ctx, l)
			})
		}
	}
	for _, l := range p.living(seen.UID) {
		if over, state := l.over(k); over {
			p.finish(l, now, history.ByStatus, state)
		}
	}
}

// missed tells of a life whose log nobody reads, since it was over when it was first seen: no line of it is no word. What was over before
// the drill is no matter of it.
func (p *podLives) missed(seen *pod, now int64) {
	if p.o.OnCut != nil && p.whole {
		p.o.OnCut("a container of pod "+seen.Name+" that was over when it was first seen", history.Span{From: p.asked, To: now})
	}
}

// over reads from a status that is not older than the life whether it is over, and how it ended where that is known.
func (l *podLife) over(k kube.Container) (over bool, state string) {
	switch {
	case k.ID == l.id && k.Terminated:
		return true, exitState(k.ExitCode)
	case k.LastID == l.id:
		return true, exitState(k.LastExit)
	}
	return k.ID != "" && k.ID != l.id, ""
}

func exitState(code int32) string { return fmt.Sprintf("exit status %d", code) }

func (p *podLives) find(uid, id string) *podLife {
	for _, l := range p.lives {
		if l.pod.UID == uid && l.id == id {
			return l
		}
	}
	return nil
}

// finish ends a life once. p.mu is held.
func (p *podLives) finish(l *podLife, at int64, by, state string) {
	if l.end != nil {
		return
	}
	from := max(l.began.From, p.h.sign(l))
	delete(p.cuts, l)
	l.end = &lifeEnd{Span: history.Span{From: min(from, at), To: at}, by: by, state: state}
	p.h.ended(l)
}

// record writes down what has changed of the object.
func (p *podLives) record(seen *pod, now int64) {
	o := history.Object{
		Kind: "pod", Name: seen.Name, UID: seen.UID, Phase: seen.Phase, Ready: seen.Ready, Restarts: seen.Container.Restarts,
		Waiting: seen.Waiting, Ending: seen.Ending, Gone: seen.gone,
	}
	if l := p.find(seen.UID, seen.Container.ID); l != nil {
		o.Incarnation = l.incarnation
	}
	if o.Incarnation == "" && p.h.assigned != nil {
		o.Incarnation = p.h.assigned(seen.UID)
	}
	last := seen.said
	last.Incarnation = o.Incarnation // a slot is no state of the object
	if o == last {
		return
	}
	seen.said = o
	p.o.OnEvent(history.Event{Kind: history.ObjectKind, Span: history.Span{From: p.asked, To: now}, Source: "runner", Object: &o})
}

// body is the life's pod as events have it.
func (l *podLife) body() history.Pod {
	b := history.Pod{Name: l.pod.Name, UID: l.pod.UID, Node: l.pod.Node, Restarts: l.restarts, Labels: l.pod.Labels}
	if !l.pod.Created.IsZero() {
		b.Created = l.pod.Created.UTC().Format(time.RFC3339)
	}
	return b
}

// exit is the event of the life's end.
func (l *podLife) exit(r history.Replica) history.Event {
	b := l.body()
	r.Pod, r.By, r.Exit = &b, l.end.by, l.end.state
	if r.Exit == "" {
		r.Exit = "gone"
	}
	return history.Event{Kind: history.ReplicaExit, Span: l.end.Span, Source: "runner", Replica: &r}
}

// living are the lives of a pod that may live, in the order in which they were seen.
func (p *podLives) living(uid string) []*podLife {
	return slices.DeleteFunc(slices.Clone(p.lives), func(l *podLife) bool { return l.pod.UID != uid || l.end != nil })
}
