package forecast

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// QuestionsOf are the percentiles that f, which repeats until they are answered, is for; none where it repeats otherwise.
func QuestionsOf(e *experiments.Experiment, f *experiments.Fault) []*verdict.Sample {
	if !f.Repeat.Answered {
		return nil
	}
	var qs []*verdict.Sample
	for _, l := range limitsOn(e, f.Lock()) {
		if l.Quantile > 0 {
			qs = append(qs, &verdict.Sample{Question: &l, Of: f.Traits().Noun, Growing: true})
		}
	}
	return qs
}

// Answered reports that all of them are, one way or the other.
func Answered(qs []*verdict.Sample) bool {
	return !slices.ContainsFunc(qs, func(q *verdict.Sample) bool { return q.Answer() == verdict.Inconclusive })
}

// likelyShots is how many shots of f a run will probably have: of one that repeats until its questions are answered, as many as that takes
// where none misses.
func likelyShots(e *experiments.Experiment, f *experiments.Fault) int {
	need := 0
	for _, q := range QuestionsOf(e, f) {
		need = max(need, q.Needed())
	}
	if need == 0 {
		return max(1, f.Repeat.Count)
	}
	return min(need, f.Repeat.Count)
}
