package analysis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A drill without a fault is a watch: what needs no fault is answered of the whole of it, and passes only where a late breach would have
// shown. A drill whose fault was never fired answers nothing.
func TestADrillWithoutAFaultIsAWatch(t *testing.T) {
	none := &experiments.CountLimit{Bound: *experiments.AtMost(0)}
	rows := []experiments.SLO{{Lock: "job", DuplicateTerminalStates: none}, {Lock: "job", Stranded: none}}
	for _, c := range []struct {
		name     string
		declared bool
		change   func(*experiments.Experiment, *history.History)
		want     verdict.Verdict
	}{
		{"a watch", false, nil, verdict.Pass},
		{"a fault that was not fired", true, nil, verdict.Inconclusive},
		{"ended before a late breach shows", false, func(e *experiments.Experiment, _ *history.History) { e.System.Work[0].Redeliver = time.Hour }, verdict.Inconclusive},
	} {
		e, h := load(t, "good-drill")
		e.SLOs, e.Expect = rows, nil
		if !c.declared {
			e.Faults = nil
		}
		h.Events = slices.DeleteFunc(h.Events, func(ev history.Event) bool { return strings.HasPrefix(string(ev.Kind), "fault.") })
		if c.change != nil {
			c.change(e, h)
		}
		j := Judge(e, h)
		for _, r := range j.SLOs {
			if r.Verdict != c.want {
				t.Errorf("%s: %s is %s: %s", c.name, r.Measure, r.Verdict, r.Why)
			}
		}
	}
}
