package reports

import (
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Who reads the first line of a run that failed by no promise learns what it failed by.
func TestWhatAWorkerBrokeIsNamedFirst(t *testing.T) {
	for _, c := range []struct {
		name  string
		slos  []verdict.SLOResult
		lints []verdict.Lint
		want  string
	}{
		{"a promise", []verdict.SLOResult{{Verdict: verdict.Fail}}, []verdict.Lint{{Code: "no_fence"}}, "1 of 1 promise broke. No fault was fired."},
		{"a rule, by two replicas", nil, []verdict.Lint{{Code: "no_fence", Replica: "r1.1"}, {Code: "no_fence", Replica: "r2.1"}}, "Every answered promise was kept, but the worker broke the worker protocol: no_fence."},
		{"many rules", nil, []verdict.Lint{{Code: "a"}, {Code: "b"}, {Code: "c"}, {Code: "d"}}, "Every answered promise was kept, but the worker broke the worker protocol: a, b, c and 1 more."},
		{"no rule", nil, nil, "Every answered promise was kept, but what the worker said does not hold: see the findings."},
	} {
		if got := brokenText(&verdict.Judgement{Run: verdict.RunInfo{Live: true}, SLOs: c.slos, Lints: c.lints}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
