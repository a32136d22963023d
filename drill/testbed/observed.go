package testbed

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// ObservedOptions say which pods are watched.
type ObservedOptions struct {
	Pods   PodsOptions
	Holder *experiments.HolderNames // nil = the name of a holder begins with the pod's name
	// Wanted says whether the run itself ended an incarnation: by a fault, or because the drill is over. nil = it never did.
	Wanted func(incarnation string) bool
}

// ObservedFleet names the lives in somebody's own pods: r1, r2 ... in the order of the pods' names, r1.2 for whoever takes the slot
// after r1.1. A slot is free when its life is over or its pod's object is gone, as for a Deployment. It tells replica.start,
// replica.ready and replica.exit itself. It implements runner.Fleet, and is safe for concurrent use.
type ObservedFleet struct {
	o     ObservedOptions
	lives *podLives

	slots slots[*podLife] // lives.mu guards it

	signing sync.Mutex
	signs   map[string]int64 // by incarnation
}

// NewObservedFleet begins to watch the pods. Its owner calls Stop.
func NewObservedFleet(o ObservedOptions) *ObservedFleet {
	f := newObservedFleet(o)
	f.lives.start()
	return f
}

// newObservedFleet is one that does not watch yet.
func newObservedFleet(o ObservedOptions) *ObservedFleet {
	f := &ObservedFleet{o: o, signs: map[string]int64{}}
	f.lives = newLives(o.Pods, lifeHooks{
		changed: f.changed, ended: f.ended, line: func(*podLife, []byte, history.Span) {},
		sign: f.lastSign, quiet: signQuiet,
	})
	return f
}

// Start implements runner.Fleet: nobody starts these.
func (f *ObservedFleet) Start(context.Context, protocol.Configure) (history.Replica, history.Span, error) {
	return history.Replica{}, history.Span{}, errors.New("the pods are somebody's own: none is started")
}

// Send implements runner.Fleet: nobody tells these anything.
func (f *ObservedFleet) Send(string, protocol.Command) error {
	return errors.New("the pods are somebody's own: they take no commands")
}

// Stop ends the watch. It ends no pod.
func (f *ObservedFleet) Stop(context.Context) error {
	f.lives.close()
	return nil
}

// Unseen implements runner.Finder.
func (f *ObservedFleet) Unseen() string { return f.lives.unseen() }

// changed gives a life that runs a slot, and tells when it is ready.
func (f *ObservedFleet) changed(l *podLife) {
	if l.end != nil {
		return
	}
	now := f.o.Pods.Clock()
	if l.incarnation == "" {
		f.seat(l)
		f.record(history.ReplicaStart, l.began, l)
	}
	if !l.ready && l.tried && l.pod.Ready && l.pod.Container.ID == l.id { // a fault may come from then on: its end shows in a log that was followed before
		l.ready = true
		f.record(history.ReplicaReady, history.Span{From: l.began.From, To: now}, l)
	}
}

func (f *ObservedFleet) record(kind history.Kind, at history.Span, l *podLife) {
	name, _, _ := strings.Cut(l.incarnation, ".")
	r := history.Replica{Name: name, Incarnation: l.incarnation}
	if kind == history.ReplicaStart {
		b := l.body()
		r.Pod = &b
	}
	f.o.Pods.OnEvent(history.Event{Kind: kind, Span: at, Source: "runner", Replica: &r})
}

// seat gives a new life the slot of the same pod, else that of a pod of the same name, else the first free one, else a new one.
func (f *ObservedFleet) seat(l *podLife) {
	vacant := func(last *podLife) bool { return last.end != nil || last.pod.gone }
	_, l.incarnation = f.slots.take(l,
		func(last *podLife) bool { return last.pod == l.pod },
		func(last *podLife) bool { return vacant(last) && last.pod.Name == l.pod.Name },
		vacant)
}

func (f *ObservedFleet) ended(l *podLife) {
	if l.incarnation == "" { // it was over when it was first seen
		return
	}
	name, _, _ := strings.Cut(l.incarnation, ".")
	wanted := f.o.Wanted != nil && f.o.Wanted(l.incarnation)
	f.o.Pods.OnEvent(l.exit(history.Replica{Name: name, Incarnation: l.incarnation, Wanted: wanted}))
}

// Sign notes that a replica surely lived at an instant: a probe has seen what only its process can have done since, an extended lease
// for one. It refutes an end that was seen before, for a moment (signQuiet), and bounds one that is seen later. It may be called at any
// time, by OnEvent too.
func (f *ObservedFleet) Sign(incarnation string, at int64) {
	f.signing.Lock()
	defer f.signing.Unlock()
	f.signs[incarnation] = max(f.signs[incarnation], at)
}

func (f *ObservedFleet) lastSign(l *podLife) int64 {
	f.signing.Lock()
	defer f.signing.Unlock()
	return f.signs[l.incarnation]
}

// HolderOf is the incarnation that a lock means by the name that it gives its holder; "" = no life that is known. Where the name
// fits several pods, it is the one with the longest name; of several lives of one pod, or of pods of one name, the newest.
func (f *ObservedFleet) HolderOf(named string) string {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	var best *podLife
	for _, l := range slices.Backward(f.lives.lives) {
		p := &l.pod.Pod
		if l.incarnation != "" && f.o.Holder.Is(named, kube.Bare(p.Name), p.Labels, p.Annotations) && (best == nil || len(p.Name) > len(best.pod.Name)) {
			best = l
		}
	}
	if best == nil {
		return ""
	}
	return best.incarnation
}

// Replicas are the lives that go on.
func (f *ObservedFleet) Replicas() []Living {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	var all []Living
	for _, l := range f.lives.lives {
		if l.incarnation != "" && l.end == nil {
			r := LivingPod(&l.pod.Pod)
			r.Incarnation, r.Since = l.incarnation, l.began.To
			all = append(all, r)
		}
	}
	return all
}

// LivingPod is a pod as a replica of somebody's own; it has no incarnation yet.
func LivingPod(p *kube.Pod) Living {
	name := kube.Bare(p.Name)
	return Living{Name: p.Name, Known: map[string]string{experiments.KnownName: name, experiments.KnownPod: name, experiments.KnownIP: p.IP}}
}
