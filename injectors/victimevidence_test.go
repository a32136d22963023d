package injectors

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// operations are what the claims make of operations that took so long, one after the other.
func operations(f victimEvidence, took []time.Duration) *claims {
	x := &claims{victimEvidence: f, names: []string{"r1"}, open: map[string]history.Event{},
		late: map[string]int{}, prompt: map[string]int{}, quickest: map[string]time.Duration{}}
	for n, took := range took {
		e := history.Event{Kind: history.RenewInvoke, Span: history.At(1), Source: "r1.1", Op: fmt.Sprint(n), Call: &history.Call{}}
		x.see(e)
		e.Kind, e.Outcome, e.Call, e.To = history.RenewReturn, history.OK, &history.Call{Result: history.ResultRenewed}, 1+int64(took)
		x.see(e)
	}
	return x
}

// One operation that a busy machine held up is no sign of a delay that all of them must show, or most: of the first kind, the next is
// quick where the victim goes round its way.
func TestSomeLateOperationsAmongPromptOnes(t *testing.T) {
	const late, prompt = 50 * time.Millisecond, time.Millisecond
	all, most := victimEvidence{least: 40 * time.Millisecond}, victimEvidence{some: 40 * time.Millisecond}
	for _, c := range []struct {
		must       victimEvidence
		took       []time.Duration
		soon, over bool
	}{
		{all, []time.Duration{late}, false, true}, // there may be no other: a renewal every ten seconds
		{all, []time.Duration{late, prompt}, false, true},
		{all, []time.Duration{late, late, late}, true, true},
		{most, nil, false, false},
		{most, []time.Duration{late}, false, true},
		{most, []time.Duration{late, prompt, prompt}, false, false},
		{most, []time.Duration{prompt, prompt, late, prompt}, false, false},
		{most, []time.Duration{late, prompt, late}, false, true},
		{most, []time.Duration{late, prompt, late, late}, true, true},
		{most, []time.Duration{late, prompt, prompt, late, late, prompt, prompt}, false, false},
	} {
		x := operations(c.must, c.took)
		quick := c.must.least > 0 && len(c.took) == 2
		if soon, over := x.all([]string{"r1"}, false), x.all([]string{"r1"}, true); soon != c.soon || over != c.over || (x.quick != "") != quick {
			t.Errorf("%v: felt soon %t, at the end %t, quick %q, want %t and %t", c.took, soon, over, x.quick, c.soon, c.over)
		}
	}
}
