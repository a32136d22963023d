package injectors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// noded is a cluster of one node, with the pods w-1 of r1.1 and w-2 of r2.1 on it.
type noded struct {
	Cluster
	node  kube.Node
	busy  int   // so many changes of the node find it changed meanwhile
	block error // of evictions of w-2
	calls []string
}

func (n *noded) Node(context.Context, string) (kube.Node, bool, error) {
	return n.node, n.node.UID != "", nil
}

func (n *noded) Cordon(_ context.Context, _ kube.Node, run string) error {
	if n.busy--; n.busy >= 0 {
		return kube.ErrAnother
	}
	n.calls = append(n.calls, "cordon "+run)
	n.node.Cordoned, n.node.By = run != "", run
	return nil
}

func (n *noded) Pod(_ context.Context, name, _ string) (kube.Pod, bool, error) {
	return kube.Pod{Name: name, UID: "u" + name, Node: "n1"}, true, nil
}

func (n *noded) Evict(_ context.Context, name, _ string) error {
	n.calls = append(n.calls, "evict "+name)
	if name == "w-2" {
		return n.block
	}
	return nil
}

func draining(t *testing.T, c *noded, do fault.NodeDo) (*Hit, error) {
	t.Helper()
	started := func(i int) history.Event {
		return history.Event{Kind: history.ReplicaStart, Span: history.At(1), Replica: &history.Replica{Incarnation: fmt.Sprintf("r%d.1", i), Pod: &history.Pod{Name: fmt.Sprintf("w-%d", i), UID: fmt.Sprintf("uw-%d", i)}}}
	}
	events := recorded{started(1), started(2)}
	for i := 1; i <= 2; i++ {
		events = append(events, history.Event{Kind: history.ObjectKind, Span: history.Span{From: 104, To: 108}, Object: &history.Object{Kind: "pod", UID: fmt.Sprintf("uw-%d", i), Gone: true}},
			history.Event{Kind: history.ReplicaExit, Span: history.Span{From: 105, To: 110}, Replica: &history.Replica{Incarnation: fmt.Sprintf("r%d.1", i)}})
	}
	reach := &Reach{
		Pods: c, Await: events.await, Past: events.past, Clock: func() int64 { return 100 },
		Cluster: func(context.Context, undo.Record) (Network, error) { return &network{Nodes: c}, nil },
		Home:    func(string) undo.Cluster { return undo.Cluster{Run: "run", Namespace: "shop"} },
	}
	shot := history.Event{Op: "d#1", Key: "leader", Epoch: "e1", Fault: &history.Fault{ID: "d", Kind: "node", Form: string(do), Victim: "r1.1"}}
	if do == fault.Drain {
		shot.Fault.Victims = []string{"r1.1", "r2.1"}
	}
	return reach.Prepare(t.Context(), &fault.Node{Do: do}, shot)
}

// The node is cordoned before anybody is evicted, the holder goes last, and each is seen to end; whoever undoes it uncordons it, once.
func TestANodeIsDrainedAndUncordoned(t *testing.T) {
	c := &noded{node: kube.Node{Name: "n1", UID: "n"}, busy: 2}
	n, err := draining(t, c, fault.Drain)
	r := n.Record()
	if err != nil || r.Node == nil || r.Node.Name != "n1" || len(c.calls) > 0 {
		t.Fatalf("prepared %+v, %v, did %q", r.Node, err, c.calls)
	}
	applied, err := n.Inject(t.Context())
	if want := []string{"cordon run", "evict w-2", "evict w-1"}; err != nil || !slices.Equal(c.calls, want) {
		t.Fatalf("did %q, %v, want %q", c.calls, err, want)
	}
	window, seen, err := n.Confirm(t.Context(), applied)
	if err != nil || seen.Hits != 1 || seen.Death == nil || seen.Death.End == nil || window.To != 110 || !strings.Contains(seen.Detail, "2 pods left node n1") {
		t.Errorf("confirmed %v, %+v, %v", window, seen, err)
	}
	undone := (&Reach{Cluster: func(context.Context, undo.Record) (Network, error) { return &network{Nodes: c}, nil }}).Reverters(false)["node"]
	for range 2 {
		if err := undone(t.Context(), r); err != nil || c.node.Cordoned {
			t.Fatalf("undone: %v, %+v", err, c.node)
		}
	}
	if got := strings.Join(c.calls[3:], ", "); got != "cordon " {
		t.Errorf("undone by %q", got)
	}
	c.node.Cordoned, c.node.By = true, "another"
	if err := undone(t.Context(), r); err != nil || !c.node.Cordoned {
		t.Errorf("another's cordon: %v, %+v", err, c.node)
	}
}

func TestWhatKeepsANodeFromBeingDrained(t *testing.T) {
	c := &noded{node: kube.Node{Name: "n1", UID: "n", Cordoned: true}}
	if _, err := draining(t, c, fault.Cordon); voidOf(err) != string(history.NoTarget) {
		t.Errorf("cordoned already: %v", err)
	}
	c = &noded{node: kube.Node{Name: "n1", UID: "n"}, block: fmt.Errorf("evict pod w-2: %w: web", kube.ErrBudget)}
	n, err := draining(t, c, fault.Drain)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Inject(t.Context()); voidOf(err) != string(history.Budget) || slices.Contains(c.calls, "evict w-1") {
		t.Errorf("a budget blocks: %v, did %q", err, c.calls)
	}
	if _, err := n.Revert(t.Context()); err != nil || c.node.Cordoned {
		t.Errorf("reverted: %v, %+v", err, c.node)
	}
	n.fault().Victim = "r3.1"
	if _, err := n.Prepare(t.Context(), n.Spec, n.Rec.Shot); voidOf(err) == "" {
		t.Errorf("a holder that is on no known node: %v", err)
	}
}

// A cordon evicts nobody, and is confirmed by what the node says.
func TestANodeIsCordoned(t *testing.T) {
	c := &noded{node: kube.Node{Name: "n1", UID: "n"}}
	n, err := draining(t, c, fault.Cordon)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := n.Inject(t.Context())
	if err != nil || len(c.calls) != 1 {
		t.Fatalf("did %q, %v", c.calls, err)
	}
	if _, seen, err := n.Confirm(t.Context(), applied); err != nil || seen.Hits != 1 || seen.Death != nil {
		t.Errorf("confirmed %+v, %v", seen, err)
	}
	c.node.Cordoned = false
	if _, _, err := n.Confirm(t.Context(), applied); voidOf(err) != string(history.Unconfirmed) {
		t.Errorf("uncordoned by somebody: %v", err)
	}
}
