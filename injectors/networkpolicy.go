package injectors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/poll"
)

// Network is what is asked of a cluster to cut a pod off, or a node.
type Network interface {
	Nodes
	Pod(ctx context.Context, name, container string) (p kube.Pod, ok bool, err error)
	SetCut(ctx context.Context, name, uid, value string) error
	Find(ctx context.Context, apiVersion, kind, name string) (f kube.Found, ok bool, err error)
	Apply(ctx context.Context, o kube.Object) error
	Remove(ctx context.Context, apiVersion, kind, name, uid string) error
	Exec(ctx context.Context, pod, container string, command []string) (exit int, output string, err error)
}

// NetworkPolicy cuts a pod off by a policy of the run's own. Whether a policy is enforced is up to the cluster's network: the fault is
// confirmed by the victim's lease, which runs out, or by a command in its container that no longer reaches what it reached.
type NetworkPolicy struct {
	Reach func(context.Context, undo.Record) (Network, error) // the cluster of a record
	Where func(namespace string) undo.Cluster
	Fault func(id string) fault.Spec
	// Container of the pod in which the command is run; "" = its first.
	Container string
	Await     Await
	Past      func() []history.Event
	Clock     func() int64
}

// Prepare names the policy, and the pod that it will mean.
func (n *NetworkPolicy) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	where := n.Where("")
	sum := sha256.Sum256([]byte(where.Run + " " + shot.Op))
	r := undo.Record{Cluster: &where, Cut: &undo.Cut{Policy: "lockdrill-cut-" + hex.EncodeToString(sum[:6])}}
	pod := podOf(n.Past(), shot)
	if pod == nil {
		return r, &voidError{history.NoTarget, shot.Fault.Victim + " is in no pod that is known"}
	}
	r.Cut.Pod, r.Cut.UID = pod.Name, pod.UID
	if in, _ := kube.NamespaceIn(r.Cut.Pod); in != "" {
		where = n.Where(in)
	}
	reach := n.reach(shot)
	if len(reach) == 0 && len(n.held(shot)) == 0 {
		return r, &voidError{history.NoTarget, shot.Fault.Victim + " holds no lock: nothing would show the cut"}
	}
	c, err := n.Reach(ctx, r)
	if err != nil {
		return r, err
	}
	switch p, there, err := c.Pod(ctx, r.Cut.Pod, ""); {
	case err != nil:
		return r, fmt.Errorf("look at pod %s: %w", r.Cut.Pod, err)
	case !there || p.UID != r.Cut.UID || p.Ending:
		return r, &voidError{history.Moved, fmt.Sprintf("pod %s of %s is gone, or ending", r.Cut.Pod, shot.Fault.Victim)}
	}
	if len(reach) == 0 {
		return r, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if exit, _, err := c.Exec(ctx, r.Cut.Pod, n.Container, reach); err != nil || exit != 0 {
		return r, &voidError{history.Unconfirmed, fmt.Sprintf("pod %s does not reach it before the cut either: %s ends with status %d (%v)", r.Cut.Pod, reach[0], exit, err)}
	}
	return r, nil
}

// reachWithin bounds one try of the command.
const reachWithin = 4 * time.Second

// reach is the command that shows what the victim reaches; none = its lease shows it.
func (n *NetworkPolicy) reach(shot history.Event) []string {
	if n.Fault == nil {
		return nil
	}
	return fault.Of(n.Fault(shot.Fault.ID)).Traits().Command
}

// unreached tries the command until it fails. That it cannot be run, or does not end, shows nothing of the pod's network.
func (n *NetworkPolicy) unreached(ctx context.Context, r undo.Record, applied history.Span, command []string) (history.Span, history.Fault, error) {
	window := applied
	c, err := n.Reach(ctx, r)
	if err != nil {
		return window, history.Fault{}, err
	}
	said := "it goes on reaching: is it that the cluster's network does not enforce NetworkPolicy?"
	for range poll.Every(ctx, askAgain) {
		try, cancel := context.WithTimeout(ctx, reachWithin)
		exit, _, err := c.Exec(try, r.Cut.Pod, n.Container, command)
		cancel()
		window.To = n.Clock()
		switch {
		case err == nil && exit != 0:
			return window, history.Fault{Hits: 1, Observed: max(0, window.To-applied.From), Detail: fmt.Sprintf("%s in pod %s ends with status %d", command[0], r.Cut.Pod, exit)}, nil
		case err != nil && ctx.Err() == nil:
			said = fmt.Sprintf("%s cannot be run there, or does not end within %s: give it a timeout of its own (%v)", command[0], reachWithin, err)
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		said = history.RunEndedFirst
	}
	return window, history.Fault{}, &voidError{history.Unconfirmed, said}
}

// Inject makes the policy, which means no pod yet, and then labels the pod. The bracket is that of the label.
func (n *NetworkPolicy) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(n.Clock())
	c, err := n.Reach(ctx, r)
	if err != nil {
		return span, err
	}
	policy, err := kube.CutPolicy(r.Cut.Policy, r.Cut.Policy, r.Cluster.Run)
	if err == nil {
		err = c.Apply(ctx, policy)
	}
	if err != nil {
		return span, err
	}
	span = history.At(n.Clock())
	err = c.SetCut(ctx, r.Cut.Pod, r.Cut.UID, r.Cut.Policy)
	span.To = n.Clock()
	if errors.Is(err, kube.ErrGone) || errors.Is(err, kube.ErrAnother) {
		return span, &voidError{history.Moved, err.Error()}
	}
	return span, err
}

// held are the epochs of the victim by key, as the locks name their holders.
func (n *NetworkPolicy) held(shot history.Event) map[string]string {
	held := map[string]string{}
	for _, e := range n.Past() {
		switch {
		case e.Kind != history.LookKind:
		case e.Look.Present && e.Look.Holder == shot.Fault.Victim && (shot.Epoch == "" || e.Epoch == shot.Epoch):
			held[e.Key] = e.Epoch
		case held[e.Key] != "" && e.Epoch != held[e.Key]:
			delete(held, e.Key)
		}
	}
	return held
}

// Confirm waits until a lease that the victim held has run out. One that was given back was not cut off.
func (n *NetworkPolicy) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	shot, window := r.Shot, applied
	ctx, cancel := context.WithTimeout(ctx, time.Duration(applied.From+shot.Fault.Declared-n.Clock()))
	defer cancel()
	if reach := n.reach(shot); len(reach) > 0 {
		return n.unreached(ctx, r, applied, reach)
	}
	held, ends := n.heldAt(shot, applied), history.Ends{}
	var over history.Event
	_, err := n.Await(ctx, 0, func(e history.Event) bool {
		if e.Kind != history.LookKind {
			return false
		}
		due := ends[e.Key]
		ends.Extended(e)
		epoch := held[e.Key]
		if epoch == "" || e.From < applied.To || e.Look.Present && e.Epoch == epoch && e.Look.PTTL > 0 {
			return false
		}
		over = e
		if e.Look.Released || !e.Look.Present && e.To < due-int64(leaseSlack) {
			over.Look = &history.Look{Released: true}
		}
		return true
	})
	window.To = n.Clock()
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return window, history.Fault{}, &voidError{history.Unconfirmed, "the run ended first"}
	case err != nil:
		return window, history.Fault{}, &voidError{history.Unconfirmed, fmt.Sprintf("the lease of %s went on: is it that the cluster's network does not enforce NetworkPolicy?", shot.Fault.Victim)}
	case over.Look.Released:
		return window, history.Fault{}, &voidError{history.Moved, shot.Fault.Victim + " gave its lock back"}
	}
	return window, history.Fault{Hits: 1, Observed: max(0, over.To-applied.From), Detail: "the lease of " + over.Key + " was not extended, and ran out"}, nil
}

// leaseSlack is by how much a look may find a lease gone before the look before said that it ends.
const leaseSlack = 100 * time.Millisecond

// heldAt is what the victim held when it was cut off.
func (n *NetworkPolicy) heldAt(shot history.Event, applied history.Span) map[string]string {
	before := *n
	before.Past = func() []history.Event {
		var past []history.Event
		for _, e := range n.Past() {
			if e.To <= applied.To {
				past = append(past, e)
			}
		}
		return past
	}
	return before.held(shot)
}

// Revert removes the policy, if it is the run's, and the label, and reads both back.
func (n *NetworkPolicy) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(n.Clock())
	if r.Cut == nil || r.Cluster == nil || r.Cluster.Run == "" {
		return span, errors.New("remove the policy: the record names none")
	}
	c, err := n.Reach(ctx, r)
	if err != nil {
		return span, err
	}
	return untilGone(ctx, n.Clock, fmt.Sprintf("policy %s, or its label on pod %s, is still there", r.Cut.Policy, r.Cut.Pod), func() (bool, error) { return endCut(ctx, c, r) })
}

// untilGone ends what is left of a fault in a cluster until a look finds nothing left of it.
func untilGone(ctx context.Context, clock func() int64, left string, end func() (left bool, err error)) (history.Span, error) {
	span := history.At(clock())
	var last error
	for range poll.Every(ctx, askAgain) {
		there, err := end()
		if span.To = clock(); err == nil && !there {
			return span, nil
		}
		last = err
	}
	return span, fmt.Errorf("%s for all that is known: %w", left, errors.Join(last, ctx.Err()))
}

// endCut takes both away, and says whether one was still there.
func endCut(ctx context.Context, c Network, r undo.Record) (left bool, err error) {
	found, there, err := c.Find(ctx, kube.PolicyVersion, kube.PolicyKind, r.Cut.Policy)
	if err != nil {
		return true, err
	}
	if there && found.Run == r.Cluster.Run {
		left = true
		if err := c.Remove(ctx, kube.PolicyVersion, kube.PolicyKind, r.Cut.Policy, found.UID); err != nil && !errors.Is(err, kube.ErrGone) && !errors.Is(err, kube.ErrAnother) {
			return true, err
		}
	}
	p, there, err := c.Pod(ctx, r.Cut.Pod, "")
	if err != nil || !there || p.UID != r.Cut.UID || p.Labels[kube.CutLabel] != r.Cut.Policy {
		return left || err != nil, err
	}
	err = c.SetCut(ctx, r.Cut.Pod, r.Cut.UID, "")
	if errors.Is(err, kube.ErrGone) || errors.Is(err, kube.ErrAnother) {
		err = nil
	}
	return true, err // read again
}
