package injectors

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// network is a cluster with one pod.
type network struct {
	pod    kube.Pod
	policy string // its name; "" = there is none
	run    string // of the policy
	calls  []string
	exits  []int    // of commands in the pod, one after the other; then the last
	asked  []string // in which namespaces
	Nodes
	Objects
}

func (n *network) Pod(context.Context, string, string) (kube.Pod, bool, error) {
	return n.pod, n.pod.UID != "", nil
}

func (n *network) SetCut(_ context.Context, _, uid, value string) error {
	if uid != n.pod.UID {
		return kube.ErrAnother
	}
	n.calls = append(n.calls, "label "+value)
	n.pod.Labels = map[string]string{kube.CutLabel: value}
	return nil
}

func (n *network) Exec(context.Context, string, string, []string) (int, string, error) {
	exit := n.exits[0]
	if len(n.exits) > 1 {
		n.exits = n.exits[1:]
	}
	return exit, "", nil
}

func (n *network) Find(_ context.Context, _, _, name string) (kube.Found, bool, error) {
	return kube.Found{UID: "u", Run: n.run}, name == n.policy, nil
}

func (n *network) Apply(_ context.Context, o kube.Object) error {
	n.calls = append(n.calls, "apply")
	n.policy, n.run = o.GetName(), o.GetLabels()[kube.RunLabel]
	return nil
}

func (n *network) Remove(context.Context, string, string, string, string) error {
	n.calls = append(n.calls, "remove")
	n.policy = ""
	return nil
}

// cutting is a fault at a pod that holds the leader's lease, and the looks after it.
func cutting(t *testing.T, c *network, f *fault.NetworkPolicy, after ...history.Event) (*Hit, error) {
	t.Helper()
	pod := &history.Pod{Name: c.pod.Name, UID: c.pod.UID}
	before := recorded{
		{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", Pod: pod}},
		look(50, "r1.1", "e1", 100*time.Millisecond),
	}
	log := append(before[:len(before):len(before)], after...)
	reach := &Reach{
		Cluster: func(_ context.Context, r undo.Record) (Network, error) {
			c.asked = append(c.asked, r.Cluster.Namespace)
			return c, nil
		},
		Home:  func(in string) undo.Cluster { return undo.Cluster{Run: "run", Namespace: cmp.Or(in, "shop")} },
		Await: log.await, Past: before.past, Clock: func() int64 { return 100 },
	}
	shot := history.Event{Op: "cut#1", Key: "leader", Epoch: "e1", Fault: &history.Fault{Victim: "r1.1", Declared: int64(time.Minute)}}
	h, err := reach.Prepare(t.Context(), f, shot)
	reach.Past = log.past
	return h, err
}

func look(at int64, holder, epoch string, left time.Duration) history.Event {
	return history.Event{Kind: history.LookKind, Key: "leader", Epoch: epoch, Span: history.At(at), Look: &history.Look{Present: epoch != "", Holder: holder, PTTL: int64(left)}}
}

// The policy is there before the pod has the label by which it means it; both are gone afterwards, whoever undoes it, and another's policy
// of the same name is left alone.
func TestAPodIsCutOffByAPolicyOfTheRunsOwn(t *testing.T) {
	c := &network{pod: kube.Pod{Name: "web-1", UID: "p1"}}
	n, err := cutting(t, c, &fault.NetworkPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	r := n.Record()
	if len(c.calls) > 0 || r.Cut.Pod != "web-1" || r.Cut.UID != "p1" || r.Cluster.Run != "run" {
		t.Errorf("prepared: %v, %+v", c.calls, r.Cut)
	}
	if _, err := n.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.calls, ", "); got != "apply, label "+r.Cut.Policy || c.policy != r.Cut.Policy || c.run != "run" {
		t.Errorf("did %s; policy %q of %q", got, c.policy, c.run)
	}
	undone := (&Reach{Cluster: n.Cluster}).Reverters(false)["network_policy"]
	for range 2 {
		if err := undone(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if c.policy != "" || c.pod.Labels[kube.CutLabel] != "" {
		t.Errorf("left: policy %q, label %q", c.policy, c.pod.Labels)
	}
	c.calls, c.policy, c.run = nil, r.Cut.Policy, "another"
	c.pod = kube.Pod{Name: "web-1", UID: "p2", Labels: map[string]string{kube.CutLabel: r.Cut.Policy}}
	if err := undone(t.Context(), r); err != nil || len(c.calls) > 0 {
		t.Errorf("of another's: %v, %v", c.calls, err)
	}
	c.pod.UID = "p3"
	if _, err := n.Inject(t.Context()); voidOf(err) != "moved" {
		t.Errorf("another pod of that name: %v", err)
	}
}

// A policy means pods of its own namespace alone: it is made where the pod is.
func TestAPodOfAFurtherNamespaceIsCutOffThere(t *testing.T) {
	c := &network{pod: kube.Pod{Name: "jobs/web-1", UID: "p1"}}
	h, err := cutting(t, c, &fault.NetworkPolicy{})
	if err == nil {
		_, err = h.Inject(t.Context())
	}
	if r := h.Record(); err != nil || r.Cluster.Namespace != "jobs" || len(c.asked) < 2 || slices.ContainsFunc(c.asked, func(in string) bool { return in != "jobs" }) {
		t.Errorf("%v, the record is of %q, asked in %q", err, r.Cluster.Namespace, c.asked)
	}
}

// What the pod no longer reaches shows the cut as well, whatever its lease does; a network that enforces nothing makes the shot void.
func TestACutIsConfirmedByWhatThePodNoLongerReaches(t *testing.T) {
	for name, c := range map[string]struct {
		exits []int
		want  string
	}{
		"it reaches nothing any more": {[]int{0, 0, 1}, ""},
		"it goes on reaching":         {[]int{0}, "unconfirmed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c0 := &network{pod: kube.Pod{Name: "web-1", UID: "p1"}, exits: c.exits}
			n, err := cutting(t, c0, &fault.NetworkPolicy{Reach: []string{"wget"}})
			if err != nil {
				t.Fatal(err)
			}
			_, seen, err := n.Confirm(t.Context(), history.Span{From: 100, To: 102})
			if voidOf(err) != c.want || c.want == "" && (err != nil || seen.Hits != 1) || c.want != "" && !strings.Contains(err.Error(), "goes on reaching") {
				t.Errorf("%s: %v, %+v, want %q", name, err, seen, c.want)
			}
		})
	}
	c := &network{pod: kube.Pod{Name: "web-1", UID: "p1"}, exits: []int{127}}
	if _, err := cutting(t, c, &fault.NetworkPolicy{Reach: []string{"wget"}}); voidOf(err) != "unconfirmed" {
		t.Errorf("it never reached anything: %v", err)
	}
}

// Whether a policy is enforced only the victim's lease shows.
func TestACutIsConfirmedByTheLeaseThatRunsOut(t *testing.T) {
	late := int64(300 * time.Millisecond)
	for name, c := range map[string]struct {
		after []history.Event
		want  string
	}{
		"it runs out":         {[]history.Event{look(late, "", "", 0)}, ""},
		"another has it":      {[]history.Event{look(late, "r2.1", "e2", time.Second)}, ""},
		"it stays, run out":   {[]history.Event{look(late, "r1.1", "e1", 0)}, ""},
		"it is extended":      {[]history.Event{look(late, "r1.1", "e1", time.Second)}, "unconfirmed"},
		"nobody looks":        {nil, "unconfirmed"},
		"given back":          {[]history.Event{look(late, "r1.1", "e1", time.Second), look(2*late, "", "", 0)}, "moved"},
		"before it was cut":   {[]history.Event{look(101, "r1.1", "e1", time.Second)}, "unconfirmed"},
		"another key ran out": {[]history.Event{{Kind: history.LookKind, Key: "other", Span: history.At(late), Look: &history.Look{}}}, "unconfirmed"},
	} {
		n, err := cutting(t, &network{pod: kube.Pod{Name: "web-1", UID: "p1"}}, &fault.NetworkPolicy{}, c.after...)
		if err != nil {
			t.Fatal(err)
		}
		_, seen, err := n.Confirm(t.Context(), history.Span{From: 100, To: 102})
		if voidOf(err) != c.want || (err == nil) != (c.want == "") || err == nil && seen.Hits != 1 {
			t.Errorf("%s: %v, %+v, want %q", name, err, seen, c.want)
		}
	}
}
