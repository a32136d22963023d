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
	*experiments.Limit
	N             int // trials
	Surely, Maybe int // that surely missed the limit, and that may have, those included
}

// QuestionsOf are the percentiles that f, which repeats until they are answered, is for; none where it repeats otherwise.
func QuestionsOf(e *experiments.Experiment, f *experiments.Fault) []*Question {
	if !f.Repeat.Answered {
		return nil
	}
	var qs []*Question
	for _, l := range limitsOn(e, f.Lock()) {
		if l.Quantile > 0 {
			qs = append(qs, &Question{Limit: &l})
		}
	}
	return qs
}

// Note takes a trial that took between lo and hi.
func (q *Question) Note(lo, hi time.Duration) {
	q.N++
	if int64(lo) > q.At {
		q.Surely++
	}
	if int64(hi) > q.At {
		q.Maybe++
	}
}

// Answer is what the trials so far say, however often it was asked before.
func (q *Question) Answer() verdict.Verdict {
	switch {
	case stats.SequentialFail(q.Quantile, q.Surely, q.N):
		return verdict.Fail
	case stats.SequentialPass(q.Quantile, q.Maybe, q.N):
		return verdict.Pass
	}
	return verdict.Inconclusive
}

// More is about how many more trials that keep the limit would be enough.
func (q *Question) More() int { return stats.SequentialTrialsNeeded(q.Quantile, q.Maybe) - q.N }

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
		return q.Seen(thing) + ": that is too many for a " + q.Bound()
	case verdict.Pass:
		return q.Seen(thing) + ": enough for a " + q.Bound()
	}
	return q.Seen(thing) + fmt.Sprintf(": a %s needs about %s more that keep it", q.Bound(), figures.Count(q.More()))
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
		need = max(need, stats.SequentialTrialsNeeded(q.Quantile, 0))
	}
	if need == 0 {
		return max(1, f.Repeat.Count)
	}
	return min(need, f.Repeat.Count)
}
