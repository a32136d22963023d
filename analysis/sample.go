package analysis

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// Sample is what a row stands on, for those who hold rows of several runs beside one another: pools, comparisons, archives. It can be
// written down as JSON.
type Sample struct {
	Question      *experiments.Limit
	Unit          string          // as in verdict.json
	Of            string          // what one value is of: kill (or burst, pause ...), else run
	Limit         float64         // in the unit
	Values        []verdict.Range `json:",omitempty"` // one a trial, else the run's; none where the question was not reached
	N             int             `json:",omitempty"` // trials
	Surely, Maybe int             `json:",omitempty"` // that surely missed the limit, and that may have, those included
	Open          string          `json:",omitempty"` // why every one of them may have; "" = the evidence was whole
	Broken        bool            `json:",omitempty"` // a breach that no number of trials makes right
}

// OfRun is Sample.Of where a run has one value.
const OfRun = "run"

// Name tells which samples are of one thing, whatever limit it was held against: trials stand without their quantiles.
func (s *Sample) Name() string {
	if s.Of != OfRun {
		return s.Question.Figure()
	}
	return s.Question.Name()
}

// IsQuantile reports a quantile of trials, which several runs can answer together.
func (s *Sample) IsQuantile() bool { return s.Of != OfRun && s.Question.Quantile > 0 }

// Measure is Judge with the samples that the rows stand on, each beside its row.
func (ix *Facts) Measure() (*verdict.Judgement, []Sample) {
	j := ix.judging()
	told := j.judgement()
	return told, j.samples
}

func (a *answer) sample(r *verdict.SLOResult) Sample {
	s := Sample{Question: a.l, Unit: a.unit, Of: OfRun, Limit: r.Limit, Broken: a.broken != ""}
	switch {
	case a.m.kills:
		missed := over(a.each, a.limit.lo)
		s.Of, s.N, s.Surely, s.Maybe = a.of, a.n, missed.lo, missed.hi
		for _, l := range r.Missing {
			if s.Open == "" && !countsAllTheSame(l.Code) {
				s.Open = l.Why
			}
		}
		for _, v := range a.each {
			s.Values = append(s.Values, v.Range())
		}
	case r.N == 0 && r.Hi == nil: // nothing was measured
	case !a.l.Trials && len(r.Missing) > 0: // not reached; a quantile may only be too few to claim
	case r.Unfit: // a pause lets any two believe; a series that nobody has shown is not 0
	default:
		s.Values = []verdict.Range{{Lo: r.Lo, Hi: r.Hi}}
	}
	return s
}

// countsAllTheSame reports what keeps a row of one run from an answer, and not its kills from being counted.
func countsAllTheSame(c verdict.MissingCode) bool {
	switch c {
	case verdict.MissingCleanTrials, verdict.MissingMoreTrials, verdict.MissingMoreRepeats, verdict.MissingLateMachine, verdict.MissingTrials, verdict.MissingConfirmations,
		verdict.MissingTakeovers, verdict.MissingCompletion, verdict.MissingEnd, verdict.MissingHorizon, verdict.MissingLiveSystem:
		return true
	}
	return false
}
