package forecast

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Lint is one budget lint of one lock, worked out before anything is measured.
type Lint struct {
	Lock string `json:"lock"`
	lockcore.Sum
	SLO *experiments.SLO `json:"-"` // the promise that it is about; nil = it is about the lock, or the run
}

// Lints works out L1 to L12: those of every lock of e, in order, and L10, which is of the whole run and names no lock; those that do not apply to a lock are left out. Durations are those of
// e: give it unscaled, and the sums are in the numbers of the file. Advice leaves room for warmup.
func Lints(e *experiments.Experiment, warmup time.Duration) []Lint {
	out := []Lint{}
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		sums := slices.Concat(evidenceSums(e, l), keySums(l), jobsSum(e, l.Name))
		var lints []Lint
		if e.Leases() {
			sums = append(sums, lockcore.Lints(l.Policy, factsOf(e, l))...)
			lints = takeoverSums(e, l, warmup)
		}
		for _, s := range sums {
			lints = append(lints, Lint{Lock: l.Name, Sum: s})
		}
		lints = append(lints, aloneSums(e, l.Name)...)
		slices.SortStableFunc(lints, func(a, b Lint) int { return number(a.Rule) - number(b.Rule) })
		out = append(out, lints...)
	}
	return append(out, endSum(e)...)
}

// number of a rule: 10 of L10.
func number(rule string) int {
	n, _ := strconv.Atoi(rule[1:])
	return n
}

// Of is whom the lint speaks of: "lock job", or the run.
func (l Lint) Of() string {
	if l.Lock == "" {
		return "the run"
	}
	return "lock " + l.Lock
}

// factsOf is what an experiment says beside a lock's policy. Those who may ask for one key at once are its replicas.
func factsOf(e *experiments.Experiment, l *experiments.Lock) lockcore.Facts {
	f := lockcore.Facts{Contenders: e.System.Replicas}
	if w := e.WorkUnder(l.Name); w != nil {
		f.WorkP99 = w.Longest()
	}
	return f
}

// takeoverSums is L3: the band, each promised maximum that lies inside it or below it, and each promised quantile below it.
func takeoverSums(e *experiments.Experiment, l *experiments.Lock, warmup time.Duration) []Lint {
	b := declaredBand(e, l, 0)
	out := []Lint{}
	for _, limit := range limitsOn(e, l.Name) {
		promised := time.Duration(limit.At)
		if limit.Measure != takeover || limit.Quantile > 0 && promised >= b.lo { // that some miss a quantile is no mistake
			continue
		}
		sum := lockcore.Sum{Rule: "L3", OK: promised >= b.hi, // the warm-up, which a run measures, comes on top: see PromiseSum
			Text: fmt.Sprintf("takeover %s %s: the lock's timings allow %s", limit.Bound(), lockcore.Seconds(promised), b.sum())}
		if !sum.OK {
			sum.Means = promiseWords(b, promised) + " " + declaredBand(e, l, warmup).advice(&limit, 1)
		}
		out = append(out, Lint{l.Name, sum, limit.SLO})
	}
	if len(out) == 0 {
		out = append(out, Lint{Lock: l.Name, Sum: lockcore.Sum{Rule: "L3", OK: true, Text: "takeover: the lock's timings allow " + b.sum()}})
	}
	return out
}

// aloneSums is L12: promises of takeovers where nobody is there to take over.
func aloneSums(e *experiments.Experiment, lock string) (out []Lint) {
	if e.System.Replicas != 1 {
		return nil
	}
	for i := range e.SLOs {
		if s := &e.SLOs[i]; s.Lock == lock && s.Takeover != nil {
			out = append(out, Lint{lock, lockcore.Sum{Rule: "L12", Text: "takeover: system.replicas is 1, so there is nobody to take over",
				Means: "Only the replica itself can have the lock again, once it has been started anew. Set system.replicas to 2 or more."}, s})
		}
	}
	return out
}

// promiseWords says what a band means for a promise that does not lie above it.
func promiseWords(b band, promised time.Duration) string {
	switch {
	case promised < b.lo:
		return "No fault can meet it."
	case promised >= b.answered():
		return "Met as long as the store answers without delay."
	}
	return "Your timings do not guarantee it."
}

// evidenceSums is L8: each promised quantile against the faults that the file declares of the class that it is judged on.
func evidenceSums(e *experiments.Experiment, l *experiments.Lock) []lockcore.Sum {
	var out []lockcore.Sum
	_, thing, _ := trialsDeclared(e, l.Name)
	for _, q := range quantilesOf(e, l.Name) {
		are := "are"
		if q.Declared == 1 {
			are = "is"
		}
		sum := lockcore.Sum{Rule: "L8", OK: q.Declared >= q.Need, Text: fmt.Sprintf("%s %s: %s %s declared, and an answer needs at least %d", q.Measure, q.Quantile, figures.Plural(q.Declared, thing), are, q.Need)}
		if q.NeedOne > 0 {
			sum.Text = fmt.Sprintf("%s %s: the %ss repeat until it is answered: %d if none misses, %d if one does, %d at most", q.Measure, q.Quantile, thing, q.Need, q.NeedOne, q.Declared)
		}
		if !sum.OK {
			sum.Means = fmt.Sprintf("The percentile stays inconclusive whatever is measured. Repeat the %s %d times, or promise a max.", thing, q.Need)
		}
		out = append(out, sum)
	}
	return out
}

// keySums is L9: a prefix that runs into the job's id. One that does not has no sum.
func keySums(l *experiments.Lock) []lockcore.Sum {
	last, _ := utf8.DecodeLastRuneInString(l.KeyPrefix)
	if l.Loop() || l.KeyPrefix == "" || !unicode.IsLetter(last) && !unicode.IsDigit(last) {
		return nil
	}
	id := l.Name + "-00001"
	return []lockcore.Sum{{
		Rule: "L9", Text: fmt.Sprintf("key_prefix %s + job id %s = %s%s", l.KeyPrefix, id, l.KeyPrefix, id),
		Means: fmt.Sprintf("The id cannot be told from the prefix, and another lock may take the same key. End the prefix with a separator: %s:", l.KeyPrefix),
	}}
}

// trialsDeclared counts the shots of the class that takeovers of the lock are judged on, and says what they are, and whether some repeat
// until they are enough.
func trialsDeclared(e *experiments.Experiment, lock string) (n int, thing string, growing bool) {
	class, aimed := declaredClass(e.Faults, lock)
	for i := range e.Faults {
		f := &e.Faults[i]
		if f.Traits().Class == class && (f.Lock() == lock || !aimed && !f.Traits().Kills) {
			n += max(1, f.Repeat.Count)
		}
		growing = growing || f.Traits().Class == class && f.Repeat.Answered
	}
	if class == verdict.ClassCrash || class == verdict.ClassHandOver {
		return n, "kill", growing
	}
	return n, "fault", growing
}
