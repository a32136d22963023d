package injectors

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/poll"
)

// Workloads is what is asked of a cluster to have the owner of pods restart them.
type Workloads interface {
	Restart(ctx context.Context, owner string, at time.Time) error
	Workload(ctx context.Context, owner string) (kube.Workload, error)
}

// Rollout has what owns the pods replace all of them; a rolling restart of another form it leaves to One. Which pod ends when is up to the
// owner. It is over when the owner says that all are new and available, and every pod that was to go is seen to be gone.
type Rollout struct {
	One interface {
		Injector
		Within(history.Event) time.Duration
	}
	Owners Workloads
	Fault  func(id string) fault.Spec
	Past   func() []history.Event
	Clock  func() int64
}

func (r *Rollout) others(shot history.Event) bool { return shot.Fault.Form != fault.RolledOut }

const rolloutLook = 200 * time.Millisecond

// Within is how long the rollout may take: for each of the pods as long as it may take to be ready again.
func (r *Rollout) Within(shot history.Event) time.Duration {
	if r.others(shot) {
		return r.One.Within(shot)
	}
	return time.Duration(len(shot.Fault.Victims)) * r.Fault(shot.Fault.ID).(fault.Rolling).Rolls().Within
}

// Prepare finds the owner. There is nothing to write down: pods stay restarted.
func (r *Rollout) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	if r.others(shot) {
		return r.One.Prepare(ctx, shot)
	}
	_, err := r.Owners.Workload(ctx, r.owner(shot))
	return undo.Record{}, err
}

func (r *Rollout) owner(shot history.Event) string {
	return fault.Of(r.Fault(shot.Fault.ID)).Traits().Owner
}

// Inject asks for the restart, as kubectl rollout restart does.
func (r *Rollout) Inject(ctx context.Context, rec undo.Record) (history.Span, error) {
	if r.others(rec.Shot) {
		return r.One.Inject(ctx, rec)
	}
	span := history.At(r.Clock())
	err := r.Owners.Restart(ctx, r.owner(rec.Shot), time.Now())
	span.To = r.Clock()
	return span, err
}

// Confirm watches the owner until it has rolled out, and the pods that were there until they are gone.
func (r *Rollout) Confirm(ctx context.Context, rec undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	shot := rec.Shot
	if r.others(shot) {
		return r.One.Confirm(ctx, rec, applied)
	}
	seen, said := history.Fault{Want: int64(len(shot.Fault.Victims))}, ""
	for range poll.Every(ctx, rolloutLook) {
		w, err := r.Owners.Workload(ctx, r.owner(shot))
		seen.Hits = int64(r.gone(shot))
		if err == nil && w.RolledOut() && seen.Hits == seen.Want {
			return history.Span{From: applied.From, To: r.Clock()}, seen, nil
		}
		if said = fmt.Sprintf("%d of %d pods are new and available", w.Available, w.Wanted); err != nil {
			said = err.Error()
		}
	}
	return applied, seen, &voidError{history.NotReturned, fmt.Sprintf("the rollout did not end within %s: %s, %d of %d old pods are gone",
		r.Within(shot), said, seen.Hits, seen.Want)}
}

// gone counts the victims of which the pod, or the process, is seen to have ended.
func (r *Rollout) gone(shot history.Event) int {
	pods, over := map[string]string{}, map[string]bool{} // lives by pod
	for _, e := range r.Past() {
		switch {
		case e.Kind == history.ReplicaStart && e.Replica.Pod != nil:
			pods[e.Replica.Pod.UID] = e.Replica.Incarnation
		case e.Kind == history.ReplicaExit:
			over[e.Replica.Incarnation] = true
		case e.Kind == history.ObjectKind && e.Object.Gone:
			over[pods[e.Object.UID]] = true
		}
	}
	return len(slices.DeleteFunc(slices.Clone(shot.Fault.Victims), func(v string) bool { return !over[v] }))
}

// Revert has nothing to undo: the pods stay restarted, and so does the annotation, as kubectl leaves it.
func (r *Rollout) Revert(ctx context.Context, rec undo.Record) (history.Span, error) {
	if r.others(rec.Shot) {
		return r.One.Revert(ctx, rec)
	}
	return history.At(r.Clock()), nil
}
