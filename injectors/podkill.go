package injectors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
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

// PodKill ends the process of a replica that lives in a pod, in one of four forms. graceful and force_delete delete the pod's
// object, by its UID, and evict has the API server do so if the disruption budgets allow it; crash makes the process itself die: our own workers when they are told to, any other by a command in its
// container.
//
// A delete is not a death. The call, the end of the object and the end of the process are three instants, and Confirm tells all
// three, as far as they were seen. A delete whose object went and whose process nobody saw end is confirmed with an open end: a
// takeover can then be shown to be short enough, never to be too long (docs/judging.md). That holds for graceful ones too: that
// the object of one goes last is a custom of the kubelet, and not so where the node is lost or somebody else forces it.
type PodKill struct {
	Pods Cluster
	// Sample looks at the locks once more, within the bracket of a delete: what is given back after it was surely held when the call
	// began, however quick the victim is. nil = nobody does.
	Sample    func(context.Context) error
	Container string                                             // of the pod, that takes the locks; "" = its first
	Send      func(incarnation string, c protocol.Command) error // nil where the pods are not our workers
	Fault     func(id string) fault.Spec                         // as the experiment declares it
	Await     Await                                              //
	Past      func() []history.Event                             // all that is recorded so far
	Clock     func() int64                                       // ns since the run's origin

	mu     sync.Mutex
	graces map[string]time.Duration // of the victims of shots, by the shot's op
	doubts map[string]error         // of calls that may have been done all the same, by the shot's op
}

// How long the parts of a death are waited for.
const (
	graceSlack   = 10 * time.Second // beyond the grace that a pod declares
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

// Within is how long a shot may take until it is confirmed. Confirm itself knows the victim's grace, and is done sooner.
func (k *PodKill) Within(shot history.Event) time.Duration {
	if ownGrace(shot) {
		return gracesMost + graceSlack
	}
	return callWithin + max(forceWithin, crashWithin) + time.Second
}

// ownGrace reports that the victim has it from being asked to end.
func ownGrace(shot history.Event) bool {
	return shot.Fault.Form == fault.Graceful || shot.Fault.Form == fault.Evict
}

// Prepare finds the victim's pod and checks that it is still that one. There is nothing to write down: a death is not undone.
func (k *PodKill) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	p, err := k.victim(ctx, shot)
	if err != nil {
		return undo.Record{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.graces == nil {
		k.graces = map[string]time.Duration{}
	}
	k.graces[shot.Op] = min(cmp.Or(fault.Of(k.Fault(shot.Fault.ID)).Traits().Grace, p.Grace), gracesMost)
	return undo.Record{}, nil
}

// victim is the victim's pod as it is now.
func (k *PodKill) victim(ctx context.Context, shot history.Event) (kube.Pod, error) {
	p := podOf(k.Past(), shot)
	if p == nil {
		return kube.Pod{}, &voidError{history.NoTarget, shot.Fault.Victim + " is in no pod that is known"}
	}
	now, there, err := k.Pods.Pod(ctx, p.Name, k.Container)
	switch {
	case err != nil:
		return now, fmt.Errorf("look at pod %s: %w", p.Name, err)
	case !there:
		return now, &voidError{history.Moved, fmt.Sprintf("pod %s of %s is gone", p.Name, shot.Fault.Victim)}
	case now.UID != p.UID:
		return now, &voidError{history.Moved, fmt.Sprintf("pod %s is another by now: %s had UID %s, this one %s", p.Name, shot.Fault.Victim, p.UID, now.UID)}
	case now.Container.Restarts != p.Restarts:
		return now, &voidError{history.Moved, fmt.Sprintf("the container of pod %s was started again: %s is over", p.Name, shot.Fault.Victim)}
	case now.Ending:
		return now, &voidError{history.Moved, fmt.Sprintf("pod %s of %s was ending already", p.Name, shot.Fault.Victim)}
	}
	return now, nil
}

// means is how the shot ends the process.
func (k *PodKill) means(shot history.Event) (means string, command []string) {
	if shot.Fault.Form != fault.Crash {
		return meansAPI, nil
	}
	if command := fault.Of(k.Fault(shot.Fault.ID)).Traits().Command; len(command) > 0 {
		return meansExec, command
	}
	return meansWorker, nil
}

// Inject makes the call. Its bracket is the fault's time: what the victim held then is what it is judged by.
func (k *PodKill) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	shot, span := r.Shot, history.At(k.Clock())
	means, command := k.means(shot)
	var err error
	switch means {
	case meansAPI:
		if _, err = k.victim(ctx, shot); err == nil { // somebody else may have told it to end since
			span = history.At(k.Clock())
			k.sample(ctx)
			err = k.delete(ctx, shot)
		}
	case meansExec:
		if _, err = k.victim(ctx, shot); err == nil { // a command in a container has no UID to be held to
			span = history.At(k.Clock())
			err = k.exec(ctx, shot, command)
		}
	case meansWorker:
		err = k.crash(shot)
	}
	span.To = k.Clock()
	return span, err
}

// sample fails unheard: then less is known of when the victim gave its locks back.
func (k *PodKill) sample(ctx context.Context) {
	if k.Sample == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sampleWithin)
	defer cancel()
	_ = k.Sample(ctx)
}

func (k *PodKill) delete(ctx context.Context, shot history.Event) error {
	p := podOf(k.Past(), shot) // victim has found it
	var grace *int64
	if shot.Fault.Form == fault.ForceDelete {
		grace = new(int64)
	} else if own := fault.Of(k.Fault(shot.Fault.ID)).Traits().Grace; own > 0 {
		seconds := int64(own / time.Second)
		grace = &seconds
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var err error
	if shot.Fault.Form == fault.Evict {
		err = k.Pods.Evict(ctx, p.Name, p.UID)
	} else {
		err = k.Pods.DeletePod(ctx, p.Name, p.UID, grace)
	}
	switch {
	case errors.Is(err, kube.ErrBudget):
		return &voidError{history.Budget, err.Error()}
	case errors.Is(err, kube.ErrGone) || errors.Is(err, kube.ErrAnother):
		return &voidError{history.Moved, err.Error()}
	case errors.Is(err, kube.ErrUnanswered): // what is seen decides
		k.doubt(shot, err)
		return nil
	}
	return err
}

// doubt keeps why a call may not have been done, for whoever sees nothing of it.
func (k *PodKill) doubt(shot history.Event, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.doubts == nil {
		k.doubts = map[string]error{}
	}
	k.doubts[shot.Op] = err
}

// exec runs the command. That it ends badly says nothing: it may have died with what it killed. What it prints is not kept.
func (k *PodKill) exec(ctx context.Context, shot history.Event, command []string) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	p := podOf(k.Past(), shot)
	exit, _, err := k.Pods.Exec(ctx, p.Name, k.Container, command)
	if errors.Is(err, kube.ErrNotRun) { // whatever ends it now, we do not
		return &voidError{history.Unconfirmed, err.Error()}
	}
	if err == nil && (exit == 126 || exit == 127) {
		return &voidError{history.Unconfirmed, fmt.Sprintf("pod %s has no command %q that can be run (exit status %d)", p.Name, command[0], exit)}
	}
	if err != nil {
		k.doubt(shot, err)
	}
	return nil
}

func (k *PodKill) crash(shot history.Event) error {
	if k.Send == nil {
		return &voidError{history.Unconfirmed, "only a worker of ours dies when it is told to: give the kill an exec"}
	}
	if err := k.Send(shot.Fault.Victim, protocol.Command{V: protocol.Version, Cmd: protocol.CmdCrash}); err != nil {
		return &voidError{history.Moved, fmt.Sprintf("tell %s to crash: %v", shot.Fault.Victim, err)}
	}
	return nil
}

// Confirm waits for what can be seen of the death, and checks that the victim had not given the lock up before the call.
func (k *PodKill) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	shot := r.Shot
	means, _ := k.means(shot)
	d := &history.Death{Call: applied, Means: means}
	seen := history.Fault{Death: d}
	exit, err := k.await(ctx, r, d)
	window := applied
	for _, s := range []*history.Span{d.Object, d.End} {
		if s != nil {
			window.To = max(window.To, s.To)
		}
	}
	switch {
	case d.End != nil && d.End.To < applied.From:
		return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("%s ended by itself (%s) before the kill", shot.Fault.Victim, exit)}
	case means == meansWorker && exit == endedWell:
		return applied, seen, &voidError{history.Unconfirmed, shot.Fault.Victim + " ended in order and did not crash"}
	case d.End == nil && (means != meansAPI || d.Object == nil):
		return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("the death of %s was not seen%s: %v", shot.Fault.Victim, k.hint(shot, means), err)}
	case means == meansAPI && d.Object == nil && k.doubted(shot) != nil && !k.ending(shot, applied):
		return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("%s ended, and nothing shows that its pod was deleted (%v)", shot.Fault.Victim, k.doubted(shot))}
	}
	if err := movedBefore(k.Past(), shot, applied); err != nil {
		return applied, seen, err
	}
	if seen.Hits = 1; d.End == nil {
		seen.Detail = "the pod's object is gone, and nobody saw its process end"
	}
	return window, seen, nil
}

// doubted is why the call may not have been done; nil = it was.
func (k *PodKill) doubted(shot history.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.doubts[shot.Op]
}

// ending reports that the victim's pod was seen to have been told to end, since the call.
func (k *PodKill) ending(shot history.Event, applied history.Span) bool {
	p := podOf(k.Past(), shot)
	return p != nil && slices.ContainsFunc(k.Past(), func(e history.Event) bool {
		return e.Kind == history.ObjectKind && e.Object.UID == p.UID && e.Object.Ending && e.To >= applied.From
	})
}

func (k *PodKill) hint(shot history.Event, means string) string {
	switch doubt := k.doubted(shot); {
	case doubt != nil:
		return " (" + doubt.Error() + ")"
	case means == meansExec:
		return " (a signal from inside a container does not reach its process 1: let the worker be another)"
	}
	return ""
}

// await fills in d: the end of the object where it was deleted, and the end of the process.
func (k *PodKill) await(ctx context.Context, r undo.Record, d *history.Death) (exit string, err error) {
	shot := r.Shot
	within := crashWithin
	switch shot.Fault.Form {
	case fault.Graceful, fault.Evict:
		k.mu.Lock()
		within = k.graces[shot.Op] + graceSlack
		k.mu.Unlock()
	case fault.ForceDelete:
		within = forceWithin
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if p := podOf(k.Past(), shot); d.Means == meansAPI && p != nil {
		var gone history.Event
		if gone, err = k.Await(ctx, int(shot.N), func(e history.Event) bool {
			return e.Kind == history.ObjectKind && e.Object.Gone && e.Object.UID == p.UID
		}); err == nil {
			d.Object = &history.Span{From: min(max(gone.From, d.Call.From), gone.To), To: gone.To} // it was there when it was deleted
		}
	}
	ended := func(e history.Event) bool {
		return e.Kind == history.ReplicaExit && e.Replica.Incarnation == shot.Fault.Victim
	}
	died, late := k.Await(ctx, int(shot.N), ended)
	if late != nil { // the time is up; it may have come just now
		d.Sign = lastSign(k.Past(), shot.Fault.Victim)
		return "", errors.Join(err, late)
	}
	sign := max(died.From, lastSign(k.Past(), shot.Fault.Victim))
	if d.Means == meansExec && k.doubted(shot) == nil { // it had a container to run the command in
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

// movedBefore reports that the victim surely gave the lock up before the call, or renewed it where the call was to come first. What it does
// after the call is the end that was asked for; what may be either is for the judgement.
func movedBefore(past []history.Event, shot history.Event, applied history.Span) error {
	for _, e := range past {
		if e.Epoch != shot.Epoch || shot.Epoch == "" {
			continue
		}
		gone := e.Kind == history.ReleaseInvoke || e.Kind == history.FenceObserved
		if gone && e.To < applied.From {
			return &voidError{history.Moved, fmt.Sprintf("%s gave the lock up before the kill (%s)", shot.Fault.Victim, e.Kind)}
		}
		if a := shot.Fault.Anchor; a > 0 && e.Kind == history.RenewInvoke && e.From > a && e.From <= applied.To {
			return &voidError{history.Moved, fmt.Sprintf("the kill was meant to come before %s renewed, and came too late", shot.Fault.Victim)}
		}
	}
	return nil
}

// Revert has nothing to undo: whoever made the pod replaces it.
func (k *PodKill) Revert(_ context.Context, r undo.Record) (history.Span, error) {
	return r.Shot.Span, nil
}
