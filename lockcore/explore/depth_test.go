package explore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/lockcore"
)

// pair is a model whose states can be counted by hand: two counters, each of which may be counted up, up to a size.
type pair struct{ a, b int }

func pairs(size, depth int, bug func(pair) bool) Search[pair] {
	moves := func(p pair) (to []pair) {
		if p.a+1 < size {
			to = append(to, pair{p.a + 1, p.b})
		}
		if p.b+1 < size {
			to = append(to, pair{p.a, p.b + 1})
		}
		return to
	}
	return Search[pair]{
		Depth: depth,
		Next: func(p pair, yield func(pair, string)) {
			for _, to := range moves(p) {
				broken := ""
				if bug != nil && bug(to) {
					broken = "planted"
				}
				yield(to, broken)
			}
		},
		Key: func(p pair, b []byte) []byte {
			return binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.a)), uint64(p.b))
		},
		Label: func(p pair, nth int) string { return fmt.Sprint(moves(p)[nth]) },
	}
}

// A square of 4 x 4 has 16 states, 2 * 4 * 3 steps between them, and its far corner is 6 steps away.
func TestAllStatesAreVisitedOnce(t *testing.T) {
	if f := pairs(4, 100, nil).Run(); f.States != 16 || f.Transitions != 24 || f.Depth != 6 || !f.Whole {
		t.Errorf("a square of 4 x 4: %+v", f)
	}
}

// Within n steps of a corner there are 1 + 2 + ... + (n+1) states.
func TestTheDepthIsTheNumberOfSteps(t *testing.T) {
	for depth := range 6 {
		if f := pairs(100, depth, nil).Run(); f.States != (depth+1)*(depth+2)/2 || f.Depth != depth || f.Whole {
			t.Errorf("%d steps into a large square: %+v", depth, f)
		}
	}
}

func TestAPlantedBugIsFoundByTheFewestSteps(t *testing.T) {
	bug := func(p pair) bool { return p == pair{2, 1} || p == pair{0, 5} }
	f := pairs(10, 100, bug).Run()
	if f.Broken != "planted" || f.Depth != 3 || len(f.Trace) != 3 || f.Trace[2] != "{2 1}" {
		t.Errorf("planted three steps away: %+v", f)
	}
	if f := pairs(10, 2, bug).Run(); f.Broken != "" {
		t.Errorf("planted three steps away, found within two: %+v", f)
	}
	q := pairs(10, 100, nil)
	q.Check = func(p pair) string {
		if p.b == 4 {
			return "a state by itself"
		}
		return ""
	}
	if f := q.Run(); f.Broken == "" || f.Depth != 4 || len(f.Trace) != 4 {
		t.Errorf("a state that breaks a promise by itself, four steps away: %+v", f)
	}
}

// One contender that tries once. By hand: it has not begun; its acquire is on its way; that has arrived, or is past its deadline; then, of
// the first, its reply has arrived or is past its deadline too, and of the second, it arrives late or is given up. Each leads on to two,
// and only time that passes before anything has begun leads back.
func TestAWorldIsAsCountedByHand(t *testing.T) {
	w := World{Contenders: 1, Attempts: 1, Policy: policy(lockcore.Standard)}
	for depth, want := range []Found{{States: 1}, {States: 2, Transitions: 2}, {States: 4, Transitions: 4}, {States: 8, Transitions: 8}} {
		if f := w.Search(depth).Run(); f.States != want.States || f.Transitions != want.Transitions || f.Broken != "" {
			t.Errorf("%d steps: %+v, by hand %d states and %d steps", depth, f, want.States, want.Transitions)
		}
	}
}

// A counterexample is a way that can be gone again.
func TestATraceLeadsToTheState(t *testing.T) {
	w := World{Contenders: 2, Policy: policy(lockcore.Standard), Pauses: true, Variant: lockcore.Variant{Unfenced: true}}
	q := w.Search(20)
	f := q.Run()
	s, broken := q.Start, ""
	for _, line := range f.Trace {
		labels, next := []string{}, []*state{}
		q.Next(s, func(to *state, b string) {
			labels, next = append(labels, q.Label(s, len(labels))), append(next, to)
			if len(labels)-1 == slices.Index(labels, line) {
				broken = b
			}
		})
		n := slices.Index(labels, line)
		if n < 0 {
			t.Fatalf("%q is none of %q", line, labels)
		}
		s = next[n]
	}
	if broken != f.Broken || broken == "" {
		t.Errorf("the trace leads to %q, not to %q", broken, f.Broken)
	}
}
