package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mathext"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// enough is the evidence at which a sequential test decides: at the least favourable rate it is reached, ever, with a chance of risk.
const enough = 1 / risk

// SequentialPass reports that at least the share p of trials keeps the limit, when missed of the n so far do not, at 95 % confidence
// however often somebody looked before. UpperBound asks for less and is right for a number of trials that was fixed beforehand.
//
// Source: the beta-binomial mixture martingale, truncated to the side that is claimed (Robbins 1970; Howard, Ramdas, McAuliffe, Sekhon,
// Ann. Stat. 49 (2021) 1055). The present value decides, not the largest so far.
func SequentialPass(p float64, missed, n int) bool { return evidence(p, missed, n, true) >= enough }

// SequentialFail reports, as SequentialPass does, that more than the share 1 - p of trials misses the limit.
func SequentialFail(p float64, missed, n int) bool { return evidence(p, missed, n, false) >= enough }

// evidence is the e-value of k misses of n against the claim that the rate of misses is on the other side of 1 - p.
func evidence(p float64, k, n int, below bool) float64 {
	q, a, b := 1-p, 0.5, p/(2*(1-p))
	after, before := mathext.RegIncBeta(a+float64(k), b+float64(n-k), q), mathext.RegIncBeta(a, b, q)
	if !below {
		after, before = 1-after, 1-before
	}
	likelihood := float64(k)*math.Log(q) + float64(n-k)*math.Log1p(-q)
	return math.Exp(mathext.Lbeta(a+float64(k), b+float64(n-k)) + math.Log(after) - mathext.Lbeta(a, b) - math.Log(before) - likelihood)
}

// SequentialTrialsNeeded is how many trials SequentialPass takes where missed of them miss the limit: 36 / 72 / 367 for p90 / p95 / p99
// where none does.
func SequentialTrialsNeeded(p float64, missed int) int {
	return least(missed+1, func(n int) bool { return SequentialPass(p, missed, n) })
}

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
	case SequentialFail(q.P, q.Surely, q.N):
		return verdict.Fail
	case SequentialPass(q.P, q.Maybe, q.N):
		return verdict.Pass
	}
	return verdict.Inconclusive
}

// More is about how many more trials that keep the limit would be enough.
func (q *Question) More() int { return SequentialTrialsNeeded(q.P, q.Maybe) - q.N }

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
		need = max(need, SequentialTrialsNeeded(q.P, 0))
	}
	if need == 0 {
		return max(1, f.Repeat.Count)
	}
	return min(need, f.Repeat.Count)
}
