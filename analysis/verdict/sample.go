package verdict

import "github.com/lockdrill/lockdrill/experiments"

// Sample is what a row stands on, for those who hold rows of several runs beside one another: pools, comparisons, archives. It can be
// written down as JSON.
type Sample struct {
	Question      *experiments.Limit
	Unit          string  // as in verdict.json
	Of            string  // what one value is of: kill (or burst, pause ...), else run
	Limit         float64 // in the unit
	Values        []Range `json:",omitempty"` // one a trial, else the run's; none where the question was not reached
	N             int     `json:",omitempty"` // trials, else what the row counts: jobs, epochs ...
	Surely, Maybe int     `json:",omitempty"` // that surely missed the limit, and that may have, those included
	Open          string  `json:",omitempty"` // why every one of them may have; "" = the evidence was whole
	Broken        bool    `json:",omitempty"` // a breach that no number of trials makes right
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
