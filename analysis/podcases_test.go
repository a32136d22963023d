package analysis

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/history"
)

// Recorded histories of replicas in pods: what a kill of one proves, and what it leaves open. The clocks of pods are known within bounds
// only.

const podBounds = 1 * ms

// inPods is a drill of a renewed loop by workers in three pods; r1.1 leads from 1 s on, as often as it may until it dies at lasts.
func inPods(says string, lasts float64) *tape {
	t := newTape(says)
	t.bounds = podBounds
	env := t.events[0].Environment
	env.Fleet, env.Cluster, env.Replicas = "pods", "v1.36.3", 3
	env.Store.Kind, env.Ledger.Kind = "external", "external"
	for i := range 3 {
		t.pod(0.1, fmt.Sprintf("r%d.1", i+1), fmt.Sprintf("worker-%d", i+1), 0)
	}
	t.phase(0.3, history.PhaseSteady)
	t.lead(1, lasts, "r1.1", "l1", 101)
	t.phase(5, history.PhaseFaults)
	return t
}

// lead is a reign: renewed and ticked every 2 s.
func (t *tape) lead(from, to float64, rep, id string, fence int64) {
	t.grant(from, rep, leader, id, fence)
	t.enter(from+2*ms, id, "leader")
	t.write(from+3*ms, id, "leader", history.StateBegin, "")
	t.write(from+4*ms, id, "leader", history.StateTick, "")
	t.exit(from+50*ms, id, "leader", "done")
	for at := from + 2; at < to; at += 2 {
		t.renew(at, id)
		t.tick(at+5*ms, 50*ms, id, "leader")
	}
}

// pod is a life in a pod.
func (t *tape) pod(at float64, inc, pod string, restarts int32) {
	name, _, _ := strings.Cut(inc, ".")
	p := &history.Pod{Name: pod, UID: "uid-" + pod, Node: "node-1", Restarts: restarts, Labels: map[string]string{"app": "worker"}, Created: "2025-01-01T00:00:00Z"}
	t.add(at, at+20*ms, history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: name, Incarnation: inc, Pod: p}})
	t.add(at+50*ms, at+50*ms, history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: name, Incarnation: inc}})
	t.object(at, history.Object{Name: pod, Incarnation: inc, Phase: "Running", Ready: true, Restarts: restarts})
}

func (t *tape) object(at float64, o history.Object) {
	o.Kind, o.UID = "pod", "uid-"+o.Name
	t.add(at-5*ms, at, history.Event{Kind: history.ObjectKind, Object: &o})
}

// podKill is a kill of the pod of the replica that holds the epoch, in three instants; 0 is one that nobody saw.
type podKill struct {
	form, means      string
	at, object       float64
	sign, end        float64
	by               string
	shot, timing, id string
	pod              string
}

func (t *tape) killPod(k podKill) {
	rep := t.epochs[k.id].rep
	name, _, _ := strings.Cut(rep, ".")
	t.shot(k.shot, "kill", k.timing, rep)
	f := t.shots[k.shot]
	f.Form = k.form
	t.shots[k.shot] = f
	t.fault(k.at-6*ms, k.at-2*ms, history.FaultResolve, k.shot, k.id)
	t.fault(k.at-1*ms, k.at-1*ms, history.FaultIntent, k.shot, k.id)
	t.fault(k.at, k.at+6*ms, history.FaultApplied, k.shot, k.id)
	d := history.Death{Call: history.Span{From: ns(k.at), To: ns(k.at + 6*ms)}, Sign: ns(k.sign), By: k.by, Means: k.means}
	seen := k.at + 6*ms
	if k.object > 0 {
		t.object(k.at+4*ms, history.Object{Name: k.pod, Incarnation: rep, Phase: "Running", Ready: true, Ending: true})
		t.object(k.object, history.Object{Name: k.pod, Incarnation: rep, Phase: "Running", Gone: true})
		d.Object = &history.Span{From: ns(k.object - 5*ms), To: ns(k.object)}
		seen = max(seen, k.object)
	}
	if k.end > 0 {
		d.End = &history.Span{From: ns(k.sign), To: ns(k.end)}
		t.add(k.sign, k.end, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: name, Incarnation: rep, Wanted: true, By: k.by,
			Exit: "its process ended", Pod: &history.Pod{Name: k.pod, UID: "uid-" + k.pod}}})
		seen = max(seen, k.end)
	} else {
		f.Detail = "the pod's object is gone, and nobody saw its process end"
	}
	f.Death, f.Hits = &d, 1
	t.shots[k.shot] = f
	t.fault(k.at, seen, history.FaultConfirmed, k.shot, k.id)
	f.Death, f.Hits, f.Detail = nil, 0, ""
	t.shots[k.shot] = f
	t.fault(seen+ms, seen+ms, history.FaultReverted, k.shot, k.id)
	t.fault(seen+ms, seen+2*ms, history.FaultVerified, k.shot, k.id)
}

// poll is a contender that asks every 2 s, and is told that the epoch holds the key.
func (t *tape) poll(from, to float64, rep, id string) {
	for at := from; at < to; at += 2 {
		t.refuse(at, rep, leader, id)
	}
}

// podsForceDelete: the leader's pod is deleted with grace 0 and its process ignores SIGTERM: it works and renews for two seconds after the
// object is gone, beside the pod that replaced it.
func podsForceDelete() *tape {
	t := inPods("a forced delete of a pod that ignores SIGTERM: the object goes 2.1 s before the process", 13.05)
	t.killPod(podKill{form: "force_delete", means: "api", at: 11.010, object: 11.019, sign: 13.060, end: 13.120, by: history.ByLogStream,
		shot: "kill-leader#1", timing: "after_renew", id: "l1", pod: "worker-1"})
	t.pod(11.6, "r1.2", "worker-4", 0)
	t.poll(11.3, 19, "r2.1", "l1")
	t.poll(12.1, 19, "r1.2", "l1")
	t.lead(19.3, 30, "r2.1", "l2", 102)
	t.finale(14, 30, "r1.2", "r2.1", "r3.1")
	return t
}

// podsCrash: the leader is told to die at once; its container is started again in the same pod. The successor comes at next.
func podsCrash(next float64) *tape {
	t := inPods("the leader in a pod dies at once, and its container is started again", 13)
	t.killPod(podKill{form: "crash", means: "worker", at: 11.010, sign: 11.008, end: 11.9, by: history.ByStatus,
		shot: "kill-leader#1", timing: "after_renew", id: "l1", pod: "worker-1"})
	t.events = dropAfter(t.events, "r1.1", 11.012)
	t.pod(12.4, "r1.2", "worker-1", 1)
	t.poll(11.3, 17, "r2.1", "l1")
	t.lead(next, 36, "r2.1", "l2", 102)
	t.finale(14, 36, "r1.2", "r2.1", "r3.1")
	return t
}

// dropAfter takes back what a replica would have said after its death.
func dropAfter(events []history.Event, rep string, at float64) []history.Event {
	var kept []history.Event
	for _, ev := range events {
		later := ev.To > ns(at) && (ev.Source == rep || ev.Entry != nil && ev.Entry.Writer == rep)
		if !later || ev.Replica != nil {
			kept = append(kept, ev)
		}
	}
	return kept
}

// podsGraceful: the leader is asked to stop, gives the lock back 90 ms after the call and ends.
func podsGraceful() *tape {
	t := inPods("a graceful delete of the leader's pod: it hands over", 11)
	t.fence(11.090, "l1", "context", false)
	t.release(11.100, "l1")
	t.killPod(podKill{form: "graceful", means: "api", at: 11.010, object: 11.4, sign: 11.101, end: 11.3, by: history.ByStatus,
		shot: "kill-leader#1", timing: "after_renew", id: "l1", pod: "worker-1"})
	t.pod(11.9, "r1.2", "worker-4", 0)
	t.poll(9.2, 10, "r2.1", "l1")
	t.refuse(11.05, "r3.1", leader, "l1")
	t.lead(11.2, 26, "r2.1", "l2", 102)
	t.finale(12, 26, "r1.2", "r2.1", "r3.1")
	return t
}

// podsGracefulIgnored: it does not listen, works on until its grace is over, and is killed with its lock.
func podsGracefulIgnored() *tape {
	t := inPods("a graceful delete of a pod that does not listen: killed when its grace was over, with its lock", 17.05)
	t.killPod(podKill{form: "graceful", means: "api", at: 11.010, object: 17.4, sign: 17.060, end: 17.1, by: history.ByStatus,
		shot: "kill-leader#1", timing: "after_renew", id: "l1", pod: "worker-1"})
	t.pod(11.9, "r1.2", "worker-4", 0)
	t.poll(11.3, 23, "r2.1", "l1")
	t.lead(23.3, 36, "r2.1", "l2", 102)
	t.finale(18, 36, "r1.2", "r2.1", "r3.1")
	return t
}

// podsEndNotSeen: a forced delete; the object went, and no status and no log stream showed the end of the process.
func podsEndNotSeen() *tape {
	t := inPods("a forced delete of a pod whose end nobody saw", 11.05)
	t.killPod(podKill{form: "force_delete", means: "api", at: 11.010, object: 11.019, sign: 11.056,
		shot: "kill-leader#1", timing: "after_renew", id: "l1", pod: "worker-1"})
	t.pod(11.6, "r1.2", "worker-4", 0)
	t.poll(11.3, 17, "r2.1", "l1")
	t.lead(17.3, 30, "r2.1", "l2", 102)
	t.finale(22, 30, "r1.2", "r2.1", "r3.1")
	return t
}

// onlyWatched is an election on a Lease object of somebody's own, watched every 100 ms.
func onlyWatched(says string) *tape {
	t := newTape(says)
	t.windows = 20
	env := t.events[0].Environment
	env.Fleet, env.Cluster, env.Replicas, env.Store, env.Ledger = "observed", "v1.36.3", 2, history.StoreInfo{Kind: "none"}, history.StoreInfo{Kind: "none"}
	t.pod(0.1, "r1.1", "billing-1", 0)
	t.pod(0.1, "r2.1", "billing-2", 0)
	t.phase(0.2, history.PhaseSteady)
	t.phase(10, history.PhaseFaults)
	return t
}

// held is a reign as looks show it: extended every 2 s.
func (t *tape) held(from, to float64, id, holder string) {
	lease := want{"leader", "billing", 15}
	for at := from; at < to; at += 2 {
		t.lease(at, lease, id, holder)
	}
	t.epochs[id] = &taped{lock: "leader", key: "billing", id: id, rep: holder, ttl: 15}
}

// overObserved ends the run.
func (t *tape) overObserved(end float64) {
	t.phase(22, history.PhaseRevert)
	t.phase(22, history.PhaseSettle)
	t.phase(end, history.PhaseFinal)
	t.cover("leases", end)
	t.add(end+0.3, end+0.3, history.Event{Kind: history.RunCleanup, Note: &history.Note{What: "watches", OK: true}})
	t.add(end+0.4, end+0.4, history.Event{Kind: history.RunEnd, Note: &history.Note{What: "completed", OK: true}})
}

// podsObserved: the leader crashes, and the next is named late by so many seconds.
func podsObserved(late float64) *tape {
	t := onlyWatched("a Lease election of somebody's own, watched only: its leader is killed by a command in its container")
	t.held(1, 21.5, "e1", "r1.1")
	t.killPod(podKill{form: "crash", means: "exec", at: 21.3, sign: 21.0, end: 21.7, by: history.ByStatus,
		shot: "kill-leader#1", timing: "after_renew", id: "e1", pod: "billing-1"})
	t.pod(22.5, "r1.2", "billing-1", 1)
	t.held(36.05+late, 75, "e2", "r2.1")
	t.overObserved(75)
	return t
}

// lease is a look that saw the holder extend its lease, at most 100 ms before.
func (t *tape) lease(at float64, w want, id, holder string) {
	l := history.Look{Present: true, PTTL: ns(w.ttl), Prev: &history.Span{From: ns(at - 0.1), To: ns(at - 0.098)}, Slack: ns(0.1), Named: "billing_" + holder, Holder: holder}
	t.add(at, at+2*ms, history.Event{Kind: history.LookKind, Source: "probe:leases", Lock: w.lock, Key: w.key, Epoch: id, Look: &l})
}
