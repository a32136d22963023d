package drill

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

const (
	eventWithin = 5 * time.Second // for one
	eventsKept  = 64              // that wait for the API server; more are dropped: a drill waits for none
)

// announcer leaves Events in the namespace for whoever looks at a pod that was struck, or at the namespace. It changes nothing of the
// drill: what it cannot write is said once.
type announcer struct {
	cluster *kube.Cluster
	notify  func(string)
	who     string // which run, by whom, and how to stop it
	queue   chan kube.Note
	done    sync.WaitGroup

	pods map[string]history.Pod // by incarnation; only observe touches it, one event at a time
}

// announce begins where the file asks for it; nil = it does not. The caller calls close.
func (d *Drill) announce() *announcer {
	if d.e.Kubernetes == nil || !d.e.Kubernetes.Events {
		return nil
	}
	host, _ := os.Hostname() // a label
	stop := fmt.Sprintf("to stop it, interrupt process %d on %s", os.Getpid(), host)
	if path := d.e.Limits.KillSwitch; path != "" {
		stop += ", or make " + path + " there"
	}
	a := &announcer{
		cluster: d.cluster, notify: d.o.Notify, who: fmt.Sprintf("lockdrill run %s: %s", d.run, stop),
		queue: make(chan kube.Note, eventsKept), pods: map[string]history.Pod{},
	}
	a.done.Go(a.write)
	a.sayEverywhere(kube.Note{Reason: "LockdrillBegins", Text: "A drill of locks begins, and will strike pods: " + a.who})
	return a
}

func (a *announcer) write() {
	failed := false
	for n := range a.queue {
		ctx, cancel := context.WithTimeout(context.Background(), eventWithin)
		err := a.cluster.WriteNote(ctx, n)
		cancel()
		if err != nil && !failed {
			failed = true
			a.notify("lockdrill: kubernetes.events: " + err.Error() + "; the drill goes on")
		}
	}
}

func (a *announcer) say(n kube.Note) {
	select {
	case a.queue <- n:
	default:
	}
}

// sayEverywhere says it of each namespace.
func (a *announcer) sayEverywhere(n kube.Note) {
	for _, one := range a.cluster.Each() {
		n.Namespace = one.Namespace
		a.say(n)
	}
}

// observe takes an event of the history.
func (a *announcer) observe(e history.Event) {
	switch {
	case a == nil:
	case e.Kind == history.ReplicaStart && e.Replica.Pod != nil:
		a.pods[e.Replica.Incarnation] = *e.Replica.Pod
	case e.Kind == history.FaultApplied:
		for _, victim := range append([]string{e.Fault.Victim}, e.Fault.Victims...) {
			if p, ok := a.pods[victim]; ok {
				what := e.Fault.Kind
				if e.Fault.Form != "" {
					what += " (" + e.Fault.Form + ")"
				}
				a.say(kube.Note{Pod: p.Name, UID: p.UID, Reason: "LockdrillStruck", Text: fmt.Sprintf("Fault %s, %s, struck this pod. %s", e.Fault.ID, what, a.who)})
			}
		}
	}
}

// close says that the drill is over, and waits for what is to be written. It is called once no event comes any more.
func (a *announcer) close() {
	if a == nil {
		return
	}
	a.sayEverywhere(kube.Note{Reason: "LockdrillEnds", Text: "The drill is over: " + a.who})
	close(a.queue)
	a.done.Wait()
}
