package injectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// Nodes is what is asked of a cluster to take a node out of service.
type Nodes interface {
	Node(ctx context.Context, name string) (n kube.Node, ok bool, err error)
	Cordon(ctx context.Context, n kube.Node, run string) error
}

// Node cordons the node of the victim, and of a drain evicts from it the pods that are the shot's victims: no other. What a disruption
// budget blocks makes the whole shot void.
type Node struct {
	One   *PodKill                                          // how the victim's death is seen
	Reach func(context.Context, undo.Record) (Nodes, error) // the cluster of a record
	Where undo.Cluster                                      // the drill's
	Clock func() int64
}

// Within is how long a shot may take until it is confirmed.
func (n *Node) Within(shot history.Event) time.Duration {
	if !drains(shot) {
		return 2 * callWithin
	}
	return n.One.Within(evicting(shot, shot.Fault.Victim))
}

func drains(shot history.Event) bool { return shot.Fault.Form == string(fault.Drain) }

// evicting is the shot as the eviction of one of its victims.
func evicting(shot history.Event, victim string) history.Event {
	f := *shot.Fault
	if f.Victim != victim {
		shot.Epoch, shot.Key = "", ""
	}
	f.Form, f.Victim = fault.Evict, victim
	shot.Fault, shot.Op = &f, shot.Op+" "+victim
	return shot
}

// Prepare finds the node. One that is cordoned already is somebody's, and stays as it is.
func (n *Node) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	where := n.Where
	r := undo.Record{Cluster: &where}
	pod, err := n.One.victim(ctx, shot)
	if err != nil {
		return r, err
	}
	if drains(shot) {
		if !slices.Contains(shot.Fault.Victims, shot.Fault.Victim) {
			return r, &voidError{history.Moved, fmt.Sprintf("%s holds the lock by now, and lives on another node", shot.Fault.Victim)}
		}
		for _, v := range shot.Fault.Victims {
			if _, err := n.One.Prepare(ctx, evicting(shot, v)); err != nil {
				return r, err
			}
		}
	}
	c, err := n.Reach(ctx, r)
	if err != nil {
		return r, err
	}
	node, there, err := c.Node(ctx, pod.Node)
	switch {
	case err != nil:
		return r, err
	case !there:
		return r, &voidError{history.Moved, fmt.Sprintf("node %s of %s is gone", pod.Node, shot.Fault.Victim)}
	case node.Cordoned:
		return r, &voidError{history.NoTarget, fmt.Sprintf("node %s of %s is cordoned already", pod.Node, shot.Fault.Victim)}
	}
	r.Node = &undo.Node{Name: node.Name, UID: node.UID}
	return r, nil
}

// Inject cordons the node, and evicts the others before the holder: a budget that blocks then leaves the holder alone.
func (n *Node) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	span, shot := history.At(n.Clock()), r.Shot
	c, err := n.Reach(ctx, r)
	if err == nil {
		err = n.cordon(ctx, c, r)
	}
	if span.To = n.Clock(); err != nil || !drains(shot) {
		return span, err
	}
	order := slices.DeleteFunc(slices.Clone(shot.Fault.Victims), func(v string) bool { return v == shot.Fault.Victim })
	for i, v := range append(order, shot.Fault.Victim) {
		r.Shot = evicting(shot, v)
		call, err := n.One.Inject(ctx, r)
		if err != nil {
			return call, err
		}
		if i == 0 {
			span.From = call.From
		}
		span.To = call.To
	}
	return span, nil
}

// cordonTries bounds how often a node that changes meanwhile is read again: a kubelet writes its status now and then.
const cordonTries = 5

func (n *Node) cordon(ctx context.Context, c Nodes, r undo.Record) error {
	for try := 1; ; try++ {
		node, there, err := c.Node(ctx, r.Node.Name)
		switch {
		case err != nil:
			return err
		case !there || node.UID != r.Node.UID:
			return &voidError{history.Moved, fmt.Sprintf("node %s is gone, or another", r.Node.Name)}
		case node.Cordoned:
			return &voidError{history.NoTarget, fmt.Sprintf("node %s is cordoned already", r.Node.Name)}
		}
		if err = c.Cordon(ctx, node, r.Cluster.Run); !errors.Is(err, kube.ErrAnother) || try == cordonTries {
			return err
		}
	}
}

// Confirm reads the node back, and of a drain sees every victim end.
func (n *Node) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	shot := r.Shot
	seen, window := history.Fault{Hits: 1}, applied
	c, err := n.Reach(ctx, r)
	if err != nil {
		return window, seen, err
	}
	node, there, err := c.Node(ctx, r.Node.Name)
	window.To = n.Clock()
	if err != nil || !there || !node.Cordoned || node.By != r.Cluster.Run {
		return window, history.Fault{}, &voidError{history.Unconfirmed, fmt.Sprintf("node %s does not say that it is cordoned by this run (%v)", r.Node.Name, err)}
	}
	seen.Detail = "node " + node.Name + " takes no pods"
	if !drains(shot) {
		return window, seen, nil
	}
	var holder history.Fault
	for _, v := range shot.Fault.Victims {
		r.Shot = evicting(shot, v)
		at, death, err := n.One.Confirm(ctx, r, applied)
		if err != nil {
			return applied, death, err
		}
		if window.To = max(window.To, at.To); v == shot.Fault.Victim {
			holder = death
		}
	}
	holder.Detail = strings.TrimPrefix(holder.Detail+fmt.Sprintf("; %s left node %s, which takes no pods", figures.Plural(len(shot.Fault.Victims), "pod"), node.Name), "; ")
	return window, holder, nil
}

// Revert uncordons the node if it still bears the run's mark, and reads that back.
func (n *Node) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(n.Clock())
	if r.Node == nil || r.Cluster == nil || r.Cluster.Run == "" {
		return span, errors.New("uncordon the node: the record names none")
	}
	c, err := n.Reach(ctx, r)
	if err != nil {
		return span, err
	}
	return untilGone(ctx, n.Clock, fmt.Sprintf("node %s is still cordoned", r.Node.Name), func() (left bool, err error) {
		node, there, err := c.Node(ctx, r.Node.Name)
		if err != nil || !there || node.UID != r.Node.UID || node.By != r.Cluster.Run {
			return false, err
		}
		return true, c.Cordon(ctx, node, "")
	})
}
