package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// night is a run with n kills whose p95 is promised, of which some surely missed it; each took about so many seconds.
func night(i, n, missed int, seconds float64) *Observed {
	values := make([]verdict.Range, n)
	for k := range values {
		lo := seconds + float64(k)/100
		hi := lo + 0.001
		values[k] = verdict.Range{Lo: lo, Hi: &hi}
	}
	s := takeovers(values...)
	s.Question.Quantile, s.Limit, s.N, s.Surely, s.Maybe = 0.95, 4, n, missed, missed
	o := observed(fmt.Sprintf("%02d", i), s)
	o.Labels = history.Labels{"release": "1.4"}
	return o
}

func nights(n, kills int) (runs []*Observed) {
	for i := range n {
		runs = append(runs, night(i, kills, 0, 2))
	}
	return runs
}

func TestPool(t *testing.T) {
	for _, c := range []struct {
		name, start string
		change      func([]*Observed) []*Observed
		want        string
		row         verdict.Verdict
		says        string
	}{
		{"twelve clean nights", "label release=1.4", nil, "pass", verdict.Pass, "72 kills seen, none missed the limit: enough for a p95"},
		{"eleven", "label release=1.4", func(o []*Observed) []*Observed { return o[1:] }, "inconclusive", verdict.Inconclusive, "a p95 needs about 6 more"},
		{"chosen by hand", "", nil, "inconclusive", verdict.Inconclusive, "chosen by hand"},
		{"three misses of five", "label release=1.4", func([]*Observed) []*Observed { return []*Observed{night(0, 5, 3, 2)} }, "slo-failed", verdict.Fail, "too many for a p95"},
		{"an aborted night with a kill that nobody answered", "label release=1.4", func(o []*Observed) []*Observed {
			o[3].Run.Used = false
			o[3].Rows[0].Maybe = 1
			return o
		}, "inconclusive", verdict.Inconclusive, "1 may have missed the limit: a p95 needs about 58 more"},
		{"a blind night", "label release=1.4", func(o []*Observed) []*Observed {
			o[3].Rows[0].Open = "no looks at keys for 3s"
			return o
		}, "inconclusive", verdict.Inconclusive, "6 may have missed the limit"},
		{"a duplicate in one night", "label release=1.4", func(o []*Observed) []*Observed {
			dup := Row{Sample: counted("duplicate_terminal_states", 1), Verdict: verdict.Fail, Why: "1 of 40 jobs"}
			o[3].Rows = append(o[3].Rows, dup)
			return o
		}, "slo-failed", verdict.Pass, "run 03: job duplicate terminal states"},
		{"the last nights slower", "label release=1.4", func(o []*Observed) []*Observed {
			for i := 8; i < 12; i++ {
				o[i] = night(i, 6, 0, 3)
			}
			return o
		}, "inconclusive", verdict.Inconclusive, "the last 4 runs are worse than those before"},
		{"another ttl", "label release=1.4", func(o []*Observed) []*Observed {
			o[5].Environment = []experiments.Setting{{Path: "mode", Value: "live"}, {Path: "tool", Value: "v2"}, {Path: "system.locks.job.policy.ttl", Value: "30s"}}
			return o
		}, "refused", "", "ttl: 60s in 00, 30s in 05"},
		{"another limit", "label release=1.4", func(o []*Observed) []*Observed {
			o[5].Rows[0].Limit = 5
			return o
		}, "refused", "", "slos job takeover.p95: 4s in 00, 5s in 05"},
		{"two runs of one id", "label release=1.4", func(o []*Observed) []*Observed {
			o[4].Run.ID, o[4].Bytes, o[5].Bytes = o[5].Run.ID, "a", "b"
			return o
		}, "inconclusive", verdict.Inconclusive, "12 may have missed the limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runs := nights(12, 6)
			if c.change != nil {
				runs = c.change(runs)
			}
			slices.Reverse(runs) // in whatever order they were found
			p := Pool(runs, PoolOptions{CompareOptions: usual, Start: c.start})
			said := strings.Join(p.Reasons, "\n")
			for _, r := range p.Rows {
				said += "\n" + r.Why
				if r.Verdict != c.row {
					t.Errorf("row is %s, want %s", r.Verdict, c.row)
				}
			}
			if p.Verdict != c.want || !strings.Contains(said, c.says) {
				t.Errorf("%s, want %s; says\n%s\nwant %q", p.Verdict, c.want, said, c.says)
			}
			if (c.row == "") != (len(p.Rows) == 0) {
				t.Errorf("%d rows", len(p.Rows))
			}
		})
	}
}

// A profile that has come to mean something else is another environment: the resolved files of before and after say so, and a pool that
// spans them is refused with that reason.
func TestAPoolDoesNotSpanTwoMeaningsOfAProfile(t *testing.T) {
	const file = `apiVersion: lockdrill/v1
kind: Experiment
name: loop
system:
  mode: embedded
  replicas: 3
  locks:
    - {name: job, key: "cordum:wf:delay:poller", profile: cordum/delay-poller%s}
steady_state: {for: 1s, timeout: 30s}
faults:
  - {id: kill, at: 11s, kill: {holder_of: job}}
slos:
  - {lock: job, takeover: {max: 15s}}
`
	before := `, policy: {ttl: 10s, renew_every: 0s, class: standard, op_timeout: 2s, release: {mode: none}, acquire: {mode: try, timeout: 2s}, loop: {poll: 5s, mode: ttl_hold, tick: 500ms}}`
	runs := nights(12, 6)
	for i, r := range runs {
		policy := ""
		if i < 5 {
			policy = before
		}
		e, err := experiments.Parse("loop.yaml", fmt.Appendf(nil, file, policy))
		if err != nil {
			t.Fatal(err)
		}
		r.Environment = nil
		for _, s := range experiments.Settings(e) {
			if !indifferent(s.Path) {
				r.Environment = append(r.Environment, s)
			}
		}
	}
	p := Pool(runs, PoolOptions{CompareOptions: usual, Start: "label release=1.4"})
	said := strings.Join(p.Reasons, "\n")
	for _, want := range []string{
		"system.locks.job.policy.class: standard in 00, legacy_warn in 05",
		"system.locks.job.policy.acquire.undo: (not set) in 00, none in 05",
		"system.locks.job.policy.loop.effect: (not set) in 00, after in 05",
		"system.locks.job.fenced: (not set) in 00, false in 05",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the reasons do not say %q:\n%s", want, said)
		}
	}
	if p.Verdict != "refused" {
		t.Errorf("the pool is %s, not refused", p.Verdict)
	}
}
