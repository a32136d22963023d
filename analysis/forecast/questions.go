package forecast

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// Question is a promised percentile, and what was seen of it while the number of trials grew.
type Question struct {
	Lock, Measure string // takeover or tick_gap
	Limit
	N             int // trials
	Surely, Maybe int // that surely missed the limit, and that may have, those included
}

// QuestionsOf are the percentiles that f, which repeats until they are answered, is for; none where it repeats otherwise.
func QuestionsOf(e *experiments.Experiment, f *experiments.Fault) []*Question {
	if !f.Repeat.Answered {
		return nil
	}
	var qs []*Question
	for s, l := range limitsOn(e, f.Lock()) {
		if l.P > 0 {
			qs = append(qs, &Question{Lock: s.Lock, Measure: s.Measure(), Limit: l})
		}
	}
	return qs
}

// Note takes a trial that took between lo and hi.
func (q *Question) Note(lo, hi time.Duration) {
	q.N++
	if lo > q.Value {
		q.Surely++
	}
	if hi > q.Value {
		q.Maybe++
	}
}

// Answer is what the trials so far say, however often it was asked before.
func (q *Question) Answer() verdict.Verdict {
	switch {
	case stats.SequentialFail(q.P, q.Surely, q.N):
		return verdict.Fail
	case stats.SequentialPass(q.P, q.Maybe, q.N):
		return verdict.Pass
	}
	return verdict.Inconclusive
}

// More is about how many more trials that keep the limit would be enough.
func (q *Question) More() int { return stats.SequentialTrialsNeeded(q.P, q.Maybe) - q.N }

// Seen says how many trials there were, and how many missed. thing is what one is called: kill.
func (q *Question) Seen(thing string) string {
	missed := figures.Count(q.Maybe) + " may have missed the limit"
	switch {
	case q.Maybe == 0:
		missed = "none missed the limit"
	case q.Surely == q.Maybe:
		missed = figures.Count(q.Maybe) + " missed the limit"
	}
	return figures.Plural(q.N, thing) + " seen, " + missed
}

// Says is Seen and what it comes to.
func (q *Question) Says(thing string) string {
	switch q.Answer() {
	case verdict.Fail:
		return q.Seen(thing) + ": that is too many for a " + q.Name
	case verdict.Pass:
		return q.Seen(thing) + ": enough for a " + q.Name
	}
	return q.Seen(thing) + fmt.Sprintf(": a %s needs about %s more that keep it", q.Name, figures.Count(q.More()))
}

// Answered reports that all of them are, one way or the other.
func Answered(qs []*Question) bool {
	return !slices.ContainsFunc(qs, func(q *Question) bool { return q.Answer() == verdict.Inconclusive })
}

// likelyShots is how many shots of f a run will probably have: of one that repeats until its questions are answered, as many as that takes
// where none misses.
func likelyShots(e *experiments.Experiment, f *experiments.Fault) int {
	need := 0
	for _, q := range QuestionsOf(e, f) {
		need = max(need, stats.SequentialTrialsNeeded(q.P, 0))
	}
	if need == 0 {
		return max(1, f.Repeat.Count)
	}
	return min(need, f.Repeat.Count)
}
