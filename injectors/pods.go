package injectors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// Cluster is what is asked of one to end a pod.
type Cluster interface {
	Pod(ctx context.Context, name, container string) (p kube.Pod, ok bool, err error)
	DeletePod(ctx context.Context, name, uid string, grace *int64) error
	Evict(ctx context.Context, name, uid string) error
	Exec(ctx context.Context, pod, container string, command []string) (exit int, output string, err error)
	Workloads
}

// Workloads is what is asked of a cluster to have the owner of pods restart them.
type Workloads interface {
	Restart(ctx context.Context, owner string, at time.Time) error
	Workload(ctx context.Context, owner string) (kube.Workload, error)
}

// A process in a pod ends in one of four ways. graceful and force_delete delete the pod's object, by its UID, and evict has the API server
// do so if the disruption budgets allow it; crash makes the process itself die: our own workers when they are told to, any other by a
// command in its container.
//
// A delete is not a death. The call, the end of the object and the end of the process are three instants, and all three are told, as far as
// they were seen. A delete whose object went and whose process nobody saw end is confirmed with an open end: a takeover can then be shown
// to be short enough, never to be too long (docs/judging.md). That holds for graceful ones too: that the object of one goes last is a
// custom of the kubelet, and not so where the node is lost or somebody else forces it.
var (
	deleted   = Row{Needs: pods, Find: victimsPod, Do: inTurn(samePod, witnessed(deletePod)), See: deathBy(meansAPI), Takes: (*Hit).dying}
	execed    = Row{Needs: func(h *Hit) bool { return pods(h) && len(h.command()) > 0 }, Find: victimsPod, Do: inTurn(samePod, runInPod), See: deathBy(meansExec), Takes: (*Hit).dying}
	crashed   = Row{Needs: pods, Find: victimsPod, Do: crash, See: deathBy(meansWorker), Takes: (*Hit).dying}
	rolledOut = Row{Needs: pods, Find: ownersPods, Do: restartAll, See: allReplaced, End: nothing, Takes: func(h *Hit) time.Duration {
		return time.Duration(len(h.fault().Victims)) * h.Spec.(fault.Rolling).Rolls().Within
	}}
)

func pods(h *Hit) bool { return h.Pods != nil }

// How long the parts of a death are waited for.
const (
	forceWithin  = 10 * time.Second // force_delete: a kubelet grants 2 s whatever it was asked for
	crashWithin  = 10 * time.Second
	gracesMost   = 10 * time.Minute // no pod is waited for longer
	callWithin   = 5 * time.Second  // the rest is for seeing what came of it
	sampleWithin = time.Second      // a kill need not wait for a witness
)

// endedWell is how a container's status tells of a process that was not killed.
const endedWell = "exit status 0"

// Words of history.Death.Means.
const (
	meansAPI    = "api"
	meansWorker = "worker"
	meansExec   = "exec"
)

// dying is how long a shot may take until it is confirmed. What sees it knows the victim's grace, and is done sooner.
func (h *Hit) dying() time.Duration {
	if h.ownGrace() {
		return gracesMost + graceSlack
	}
	return callWithin + max(forceWithin, crashWithin) + time.Second
}

// ownGrace reports that the victim has it from being asked to end.
func (h *Hit) ownGrace() bool {
	form := h.fault().Form
	return form == fault.Graceful || form == fault.Evict
}

func (h *Hit) command() []string { return fault.Of(h.Spec).Traits().Command }

// pod is the victim's, as it was seen to start; nil where that is not known.
func (h *Hit) pod() *history.Pod {
	if h.Victim == nil {
		return nil
	}
	return h.Victim.Pod
}

// victimsPod checks that the victim's pod is still that one. There is nothing to write down: a death is not undone.
func victimsPod(ctx context.Context, h *Hit) error {
	now, err := h.podNow(ctx)
	h.podGrace = min(cmp.Or(fault.Of(h.Spec).Traits().Grace, now.Grace), gracesMost)
	return err
}

// samePod looks again, before the bracket of the call begins: somebody else may have told it to end since.
func samePod(ctx context.Context, h *Hit) error {
	_, err := h.podNow(ctx)
	h.Applied = history.At(h.now())
	return err
}

// podNow is the victim's pod as it is now.
func (h *Hit) podNow(ctx context.Context) (kube.Pod, error) {
	p, who := h.pod(), h.fault().Victim
	if p == nil {
		return kube.Pod{}, void(history.NoTarget, "%s is in no pod that is known", who)
	}
	now, there, err := h.Pods.Pod(ctx, p.Name, h.Container)
	switch {
	case err != nil:
		return now, fmt.Errorf("look at pod %s: %w", p.Name, err)
	case !there:
		return now, void(history.Moved, "pod %s of %s is gone", p.Name, who)
	case now.UID != p.UID:
		return now, void(history.Moved, "pod %s is another by now: %s had UID %s, this one %s", p.Name, who, p.UID, now.UID)
	case now.Container.Restarts != p.Restarts:
		return now, void(history.Moved, "the container of pod %s was started again: %s is over", p.Name, who)
	case now.Ending:
		return now, void(history.Moved, "pod %s of %s was ending already", p.Name, who)
	}
	return now, nil
}

// deletePod deletes or evicts it. What was not answered is decided by what is seen.
func deletePod(ctx context.Context, h *Hit) error {
	p := h.pod()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var err error
	switch own := fault.Of(h.Spec).Traits().Grace; {
	case h.fault().Form == fault.Evict:
		err = h.Pods.Evict(ctx, p.Name, p.UID)
	case h.fault().Form == fault.ForceDelete:
		err = h.Pods.DeletePod(ctx, p.Name, p.UID, new(int64))
	case own > 0:
		seconds := int64(own / time.Second)
		err = h.Pods.DeletePod(ctx, p.Name, p.UID, &seconds)
	default:
		err = h.Pods.DeletePod(ctx, p.Name, p.UID, nil)
	}
	switch {
	case errors.Is(err, kube.ErrBudget):
		return void(history.Budget, "%v", err)
	case isAnother(err):
		return void(history.Moved, "%v", err)
	case errors.Is(err, kube.ErrUnanswered):
		h.doubt = err
		return nil
	}
	return err
}

// isAnother: what was meant is gone, or another has its name.
func isAnother(err error) bool {
	return errors.Is(err, kube.ErrGone) || errors.Is(err, kube.ErrAnother)
}

// runInPod runs the command, which has no UID to be held to. That it ends badly says nothing: it may have died with what it killed. What it
// prints is not kept.
func runInPod(ctx context.Context, h *Hit) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	p, command := h.pod(), h.command()
	exit, _, err := h.Pods.Exec(ctx, p.Name, h.Container, command)
	if errors.Is(err, kube.ErrNotRun) { // whatever ends it now, we do not
		return void(history.Unconfirmed, "%v", err)
	}
	if err == nil && (exit == 126 || exit == 127) {
		return void(history.Unconfirmed, "pod %s has no command %q that can be run (exit status %d)", p.Name, command[0], exit)
	}
	h.doubt = err
	return nil
}

func crash(_ context.Context, h *Hit) error {
	if h.Send == nil {
		return void(history.Unconfirmed, "only a worker of ours dies when it is told to: give the kill an exec")
	}
	if err := h.Send(h.fault().Victim, protocol.Command{V: protocol.Version, Cmd: protocol.CmdCrash}); err != nil {
		return void(history.Moved, "tell %s to crash: %v", h.fault().Victim, err)
	}
	return nil
}

// deathBy waits for what can be seen of the death, and checks that the victim had not given the lock up before the call.
func deathBy(means string) step {
	return func(ctx context.Context, h *Hit) error {
		who, d := h.fault().Victim, &history.Death{Call: h.Applied, Means: means}
		h.Saw.Death = d
		exit, err := h.awaitDeath(ctx, d)
		switch {
		case d.End != nil && d.End.To < h.Applied.From:
			return void(history.Unconfirmed, "%s ended by itself (%s) before the kill", who, exit)
		case means == meansWorker && exit == endedWell:
			return void(history.Unconfirmed, "%s ended in order and did not crash", who)
		case d.End == nil && (means != meansAPI || d.Object == nil):
			return void(history.Unconfirmed, "the death of %s was not seen%s: %v", who, h.hint(means), err)
		case means == meansAPI && d.Object == nil && h.doubt != nil && !h.toldToEnd():
			return void(history.Unconfirmed, "%s ended, and nothing shows that its pod was deleted (%v)", who, h.doubt)
		}
		if err := h.heldUntil(h.Applied.From-1, false, ""); err != nil {
			return err
		}
		for _, s := range []*history.Span{d.Object, d.End} {
			if s != nil {
				h.Window.To = max(h.Window.To, s.To)
			}
		}
		if h.Saw.Hits = 1; d.End == nil {
			h.Saw.Detail = "the pod's object is gone, and nobody saw its process end"
		}
		return nil
	}
}

// toldToEnd reports that the victim's pod was seen to have been, since the call.
func (h *Hit) toldToEnd() bool {
	p := h.pod()
	return p != nil && slices.ContainsFunc(h.Past(), func(e history.Event) bool {
		return e.Kind == history.ObjectKind && e.Object.UID == p.UID && e.Object.Ending && e.To >= h.Applied.From
	})
}

func (h *Hit) hint(means string) string {
	switch {
	case h.doubt != nil:
		return " (" + h.doubt.Error() + ")"
	case means == meansExec:
		return " (a signal from inside a container does not reach its process 1: let the worker be another)"
	}
	return ""
}

// awaitDeath fills in d: the end of the object where it was deleted, and the end of the process.
func (h *Hit) awaitDeath(ctx context.Context, d *history.Death) (exit string, err error) {
	within, who := crashWithin, h.fault().Victim
	switch {
	case h.ownGrace():
		within = h.podGrace + graceSlack
	case h.fault().Form == fault.ForceDelete:
		within = forceWithin
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if p := h.pod(); d.Means == meansAPI && p != nil {
		var gone history.Event
		if gone, err = h.Await(ctx, int(h.Rec.Shot.N), func(e history.Event) bool {
			return e.Kind == history.ObjectKind && e.Object.Gone && e.Object.UID == p.UID
		}); err == nil {
			d.Object = &history.Span{From: min(max(gone.From, d.Call.From), gone.To), To: gone.To} // it was there when it was deleted
		}
	}
	died, late := h.Await(ctx, int(h.Rec.Shot.N), func(e history.Event) bool {
		return e.Kind == history.ReplicaExit && e.Replica.Incarnation == who
	})
	sign := lastSign(h.Past(), who)
	if late != nil { // the time is up; it may have come just now
		d.Sign = sign
		return "", errors.Join(err, late)
	}
	sign = max(died.From, sign)
	if d.Means == meansExec && h.doubt == nil { // it had a container to run the command in
		sign = max(sign, d.Call.From)
	}
	d.By, d.Sign = died.Replica.By, min(sign, died.To)
	d.End = &history.Span{From: d.Sign, To: died.To}
	return died.Replica.Exit, nil
}

// lastSign is the last instant at which the incarnation surely lived: its last line, or the last grant or extension of a lock that names
// it, which came after the look that did not show it. That a lock names it may be known some looks later.
func lastSign(past []history.Event, victim string) int64 {
	var at int64
	ends, alone := history.Ends{}, succeeded(past, victim)
	written := map[string]history.Event{} // by key: the look that first showed its last grant or extension
	for _, e := range past {
		if e.Source == victim && e.Kind != history.LogMatch {
			at = max(at, e.From)
		}
		if e.Kind != history.LookKind {
			continue
		}
		granted := e.Epoch != "" && e.Epoch != written[e.Key].Epoch && e.Look.PTTL > 0
		if ends.Extended(e) || granted {
			written[e.Key] = e
		}
		if w := written[e.Key]; e.Look.Holder == victim && e.To < alone && w.Look != nil && w.Epoch == e.Epoch && w.Look.Prev != nil {
			at = max(at, w.Look.Prev.From)
		}
	}
	return at
}

// succeeded is from when on another life may extend a lock under the victim's name: a container that was started again and a pod of the
// same name may well call themselves the same.
func succeeded(past []history.Event, victim string) int64 {
	pod := ""
	for _, e := range past {
		switch {
		case e.Kind != history.ReplicaStart || e.Replica.Pod == nil:
		case e.Replica.Incarnation == victim:
			pod = e.Replica.Pod.Name
		case e.Replica.Pod.Name == pod:
			return e.From
		}
	}
	return math.MaxInt64
}

// A rollout has what owns the pods replace all of them. Which pod ends when is up to the owner. It is over when the owner says that all are new
// and available, and every pod that was to go is seen to be gone. Pods stay restarted, and so does the annotation, as kubectl leaves it.

const rolloutLook = 200 * time.Millisecond

func (h *Hit) owner() string { return fault.Of(h.Spec).Traits().Owner }

func ownersPods(ctx context.Context, h *Hit) error {
	_, err := h.Pods.Workload(ctx, h.owner())
	return err
}

// restartAll asks for the restart, as kubectl rollout restart does.
func restartAll(ctx context.Context, h *Hit) error { return h.Pods.Restart(ctx, h.owner(), time.Now()) }

// allReplaced watches the owner until it has rolled out, and the pods that were there until they are gone.
func allReplaced(ctx context.Context, h *Hit) error {
	h.Saw.Want = int64(len(h.fault().Victims))
	said := ""
	for range poll.Every(ctx, rolloutLook) {
		w, err := h.Pods.Workload(ctx, h.owner())
		h.Saw.Hits = int64(h.gone())
		if err == nil && w.RolledOut() && h.Saw.Hits == h.Saw.Want {
			h.Window.To = h.now()
			return nil
		}
		if said = fmt.Sprintf("%d of %d pods are new and available", w.Available, w.Wanted); err != nil {
			said = err.Error()
		}
	}
	return void(history.NotReturned, "the rollout did not end within %s: %s, %d of %d old pods are gone", h.Within(), said, h.Saw.Hits, h.Saw.Want)
}

// gone counts the victims of which the pod, or the process, is seen to have ended.
func (h *Hit) gone() int {
	lives, over := map[string]string{}, map[string]bool{} // lives by pod
	for _, e := range h.Past() {
		switch {
		case e.Kind == history.ReplicaStart && e.Replica.Pod != nil:
			lives[e.Replica.Pod.UID] = e.Replica.Incarnation
		case e.Kind == history.ReplicaExit:
			over[e.Replica.Incarnation] = true
		case e.Kind == history.ObjectKind && e.Object.Gone:
			over[lives[e.Object.UID]] = true
		}
	}
	return len(slices.DeleteFunc(slices.Clone(h.fault().Victims), func(v string) bool { return !over[v] }))
}
