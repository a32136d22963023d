package verdict

import (
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// Sample is what a row stands on, for those who hold rows of several runs beside one another: pools, comparisons, archives. It can be
// written down as JSON. That of a promised quantile is a claim, which it answers: in a row, over a pool, and while its trials are made.
type Sample struct {
	Question *experiments.Limit
	Unit     string  // as in verdict.json
	Of       string  // what one value is of: kill (or burst, pause ...), else run
	Limit    float64 // in the unit
	Values   []Range `json:",omitempty"` // one a trial, else the run's; none where the question was not reached
	// Parts of takeovers, in the order of PartNames: of the worst key of each trial, as far as they were seen.
	Parts         [][]Range `json:",omitempty"`
	N             int       `json:",omitempty"` // trials, else what the row counts: jobs, epochs ...
	Surely, Maybe int       `json:",omitempty"` // that surely missed the limit, and that may have, those included
	Open          string    `json:",omitempty"` // why every one of them may have; "" = the evidence was whole
	Broken        bool      `json:",omitempty"` // a breach that no number of trials makes right
	Growing       bool      `json:",omitempty"` // the number of trials was decided while it was looked at
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

// Note takes a trial that took between lo and hi.
func (s *Sample) Note(lo, hi time.Duration) {
	s.N++
	if int64(lo) > s.Question.At {
		s.Surely++
	}
	if int64(hi) > s.Question.At {
		s.Maybe++
	}
}

// Answer is what the trials say of the quantile, at 95 % confidence; where they grow, however often it was asked before.
func (s *Sample) Answer() Verdict {
	p := s.Question.Quantile
	switch {
	case s.Growing && stats.SequentialFail(p, s.Surely, s.N), !s.Growing && stats.LowerBound(s.Surely, s.N) > 1-p:
		return Fail
	case s.Growing && stats.SequentialPass(p, s.Maybe, s.N), !s.Growing && stats.UpperBound(s.Maybe, s.N) <= 1-p:
		return Pass
	}
	return Inconclusive
}

// Needed is how many trials are enough where so many of them missed the limit as may have.
func (s *Sample) Needed() int {
	if s.Growing {
		return stats.SequentialTrialsNeeded(s.Question.Quantile, s.Maybe)
	}
	return stats.TrialsNeeded(s.Question.Quantile, s.Maybe)
}

// Says is how many trials there were, how many missed, and what it comes to.
func (s *Sample) Says() string {
	missed := figures.Count(s.Maybe) + " may have missed the limit"
	switch {
	case s.Maybe == 0:
		missed = "none missed the limit"
	case s.Surely == s.Maybe:
		missed = figures.Count(s.Maybe) + " missed the limit"
	}
	seen, bound := figures.Plural(s.N, s.Of)+" seen, "+missed, s.Question.Bound()
	switch s.Answer() {
	case Fail:
		return seen + ": that is too many for a " + bound
	case Pass:
		return seen + ": enough for a " + bound
	}
	return seen + ": a " + bound + " needs about " + figures.Count(s.Needed()-s.N) + " more that keep it"
}
