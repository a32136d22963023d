package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// What a row lacks in cases that no recorded history has.
func TestWhatARowSeldomLacks(t *testing.T) {
	cases := map[verdict.MissingCode]func(t *testing.T) verdict.SLOResult{
		verdict.MissingRolls: func(t *testing.T) verdict.SLOResult {
			tp := newTape("a rolling restart that never began")
			tp.start(0.1, "r1.1", "r2.1", "r3.1")
			tp.phase(0.2, history.PhaseSteady)
			tp.lead(1, 12, "r3.1", "l1", 101)
			tp.phase(5, history.PhaseFaults)
			tp.finale(14, 30, "r1.1", "r2.1", "r3.1")
			e, h := recorded(t, rolledDrill, tp)
			return row(t, Judge(e, h), "leader", "rolling.handovers")
		},
		verdict.MissingAlertRoom: func(t *testing.T) verdict.SLOResult {
			rows, _ := alertRowsOf(t, alarms(func(t *tape) {
				t.shot("later#1", "kill", "", "r2.1")
				t.fault(100, 100.1, history.FaultApplied, "later#1", "")
				t.fault(100, 100.2, history.FaultConfirmed, "later#1", "")
			}), "{alert: LockAbandoned, within: 90s}")
			return rows[0]
		},
		verdict.MissingSeries: func(t *testing.T) verdict.SLOResult {
			tp := burst(false)
			tp.schema = 3
			tp.shows("abandoned", "counter", stood(0.5, 1), stood(230.01, 1))
			tp.sample(0.5, -1, &history.Sample{Metric: "abandoned", Target: "beside"})
			tp.sample(230.01, 229, &history.Sample{Metric: "abandoned", Target: "beside", Final: true})
			r, _ := promise(t, tp, func(m *experiments.Metric) { m.Series = "some_total" }, "delta: 2")
			return r
		},
		verdict.MissingMoreRepeats: func(t *testing.T) verdict.SLOResult {
			e, h := recorded(t, strings.Replace(fourKills, "count: 4,", "until: answered, at_most: 40,", 1), killedFourTimes(4))
			return row(t, Judge(e, h), "leader", "takeover.p90")
		},
	}
	for code, ask := range cases {
		t.Run(string(code), func(t *testing.T) {
			if r := ask(t); r.Verdict != verdict.Inconclusive || !has(r.Missing, code) || r.Next == "" {
				t.Errorf("%s: %+v, %q, next %q", r.Verdict, r.Missing, r.Why, r.Next)
			}
		})
	}
}
