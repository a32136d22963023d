package analysis

import (
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// RowValues is what a run measured of one row: of takeover and tick_gap, whose measures stand without their quantiles, one value a kill,
// of everything else at most one, namely what verdict.json says of it.
type RowValues struct {
	Lock, Measure, Unit, Of string // as in verdict.json; Of is what one value is of: kill (or burst, pause ...), else run
	Values                  []verdict.Range
}

// Measure is Judge with the values that its rows stand on, each row once however many limits it is held against.
func (ix *Facts) Measure() (*verdict.Judgement, []RowValues) {
	j := ix.judging()
	told := j.judgement()
	return told, j.rowValues(told)
}

func (j *judging) rowValues(told *verdict.Judgement) []RowValues {
	out, trials := []RowValues{}, map[string]func(*trial) (trialValue, bool){"takeover": takeoverValue, "tick_gap": tickValue}
	for i := range told.SLOs {
		row := &told.SLOs[i]
		s := RowValues{Lock: row.Lock, Measure: row.Measure, Unit: row.Unit, Of: "run"}
		name, _, _ := strings.Cut(row.Measure, ".")
		value := trials[name]
		if value != nil {
			s.Measure = name
		}
		known := slices.ContainsFunc(out, func(x RowValues) bool { return x.Lock == s.Lock && x.Measure == s.Measure })
		if known { // another limit on the same
			continue
		}
		switch {
		case value != nil:
			series := j.ix.seriesOf(row.Lock, value)
			s.Of = series.thing
			for _, d := range series.ranges() {
				s.Values = append(s.Values, d.Range())
			}
		case row.N == 0 && row.Hi == nil: // nothing was measured
		case name != measureHeld && name != measureWait && len(row.Missing) > 0: // not reached; a quantile may only be too few to claim
		case row.Unfit: // a pause lets any two believe; a series that nobody has shown is not 0
		default:
			s.Values = []verdict.Range{{Lo: row.Lo, Hi: row.Hi}}
		}
		out = append(out, s)
	}
	return out
}
