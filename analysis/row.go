package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// word holds a range against a limit, which is a range itself where it is a share of what another lock had. Nothing else does.
func word(side experiments.Side, v, limit facts.Dur) verdict.Verdict {
	over, under := v.Lo > limit.Hi, v.Hi < limit.Lo // surely
	failed, passed := over, v.Hi != facts.Open && v.Hi <= limit.Lo
	switch side {
	case experiments.SideLeast:
		failed, passed = under, v.Lo >= limit.Hi
	case experiments.SideExact:
		failed, passed = over || under, v == limit
	}
	switch {
	case failed:
		return verdict.Fail
	case passed:
		return verdict.Pass
	}
	return verdict.Inconclusive
}

// answer is what a limit says of a figure.
type answer struct {
	l *experiments.Limit
	m *measure
	figure
	held    facts.Value // what is held against the limit: all of it, the least of it, or a quantile
	limit   facts.Dur   // in the figure's unit
	against *verdict.Against
	word    verdict.Verdict
	lacks   []verdict.Missing // what keeps a pass from being one, beside what the whole run lacks
}

// answer holds a figure against l.
func (j *judging) answer(l *experiments.Limit) *answer {
	m := j.measureOf(l)
	a := &answer{l: l, m: m, figure: j.figureOf(l, m)}
	a.limit = facts.Dur{Lo: l.At, Hi: l.At}
	if l.Number != 0 {
		at := scaled(a.unit, l.Number)
		a.limit = facts.Dur{Lo: at, Hi: at}
	}
	a.lacks = j.needsOf(l, m, &a.figure)
	if l.Share > 0 {
		a.beside(j)
	}
	a.hold()
	switch {
	case a.broken != "":
		a.word = verdict.Fail
	case a.unfit != "":
		a.word = verdict.Inconclusive
	case a.word == verdict.Inconclusive:
		a.lacks = append(a.lacks, a.undecided(j.advice())...)
	}
	return a
}

// beside makes the limit a share of what another lock had.
func (a *answer) beside(j *judging) {
	of := *a.l
	of.Lock = a.l.Of
	other := j.figureOf(&of, a.m)
	a.limit = facts.Dur{Lo: portion(a.l.Share, other.InTime().Lo), Hi: portion(a.l.Share, other.Hi)}
	a.against = &verdict.Against{Lock: of.Lock, Share: a.l.Share, Lo: a.number(other.Lo), Hi: facts.UnlessOpen(other.Hi, a.number)}
	a.lacks = slices.Concat(a.lacks, j.missingOf(of.Lock), j.needsOf(&of, a.m, &other))
	if other.Lo <= 0 {
		a.lacks = append(a.lacks, verdict.Lacking(verdict.MissingReference, of.Lock))
	}
	if a.unfit == "" {
		a.unfit = other.unfit
	}
}

func portion(share float64, x int64) int64 {
	if x == facts.Open {
		return facts.Open
	}
	return int64(share * float64(x))
}

// hold sets what is held against the limit, and what comes of it. Of several trials a lower bound is for the least.
func (a *answer) hold() {
	a.held = a.Value
	switch {
	case a.l.Quantile > 0:
		claim := a.claim() // that at least this share of all trials keeps the limit
		a.held, a.word = quantile(a.each, a.l.Quantile), claim.Answer()
		return
	case a.l.Share > 0 || a.least == nil:
	case a.l.Side == experiments.SideLeast:
		a.held = *a.least
	case a.l.Side == experiments.SideExact:
		a.held.Lo, a.held.Late = a.least.Lo, max(a.held.Late, a.least.Late)
		a.word = verdict.Worst(word(experiments.SideMost, a.InTime(), a.limit), word(experiments.SideLeast, a.least.InTime(), a.limit))
		return
	}
	a.word = word(a.l.Side, a.held.InTime(), a.limit)
}

// claim is the trials beside the limit.
func (a *answer) claim() verdict.Sample {
	missed := over(a.each, a.limit.Lo)
	return verdict.Sample{Question: a.l, Unit: a.unit, Of: a.of, N: a.n, Surely: missed.Lo, Maybe: missed.Hi, Growing: a.growing}
}

// undecided is what keeps an answer away that lies in the figure itself: a machine that was late, or too few trials.
func (a *answer) undecided(file advice) []verdict.Missing {
	if a.l.Quantile > 0 && (a.n > 0 || a.m.kills) {
		if late := belatedAny(a.each, a.limit.Lo); late != nil {
			return late
		}
		return []verdict.Missing{a.tooFew(file)}
	}
	return a.madeLate()
}

// madeLate is what the figure lacks where it is the machine that keeps it from an answer.
func (a *answer) madeLate() []verdict.Missing {
	v := a.held
	decides := word(a.l.Side, v.Dur, a.limit) != verdict.Inconclusive ||
		a.l.Side == experiments.SideMost && v.Hi != facts.Open && word(a.l.Side, facts.Dur{Lo: v.Lo, Hi: v.Hi - v.Late}, a.limit) == verdict.Pass
	switch {
	case v.Late == 0 || !decides:
		return nil
	case a.unit == verdict.UnitCount:
		return []verdict.Missing{verdict.Lacking(verdict.MissingLateMachine, "It came to "+figures.Count(v.Lo), figures.Count(v.Late), figures.Count(a.sure()))}
	}
	return lateMachine(v.Dur, v.Late, a.sure())
}

// sure is the limit that keeps the promise whatever the other lock really had.
func (a *answer) sure() int64 {
	if a.l.Side == experiments.SideLeast && a.limit.Hi != facts.Open {
		return a.limit.Hi
	}
	return a.limit.Lo
}

// tooLittle reports a figure that is surely below what was asked for.
func (a *answer) tooLittle() bool {
	return a.broken == "" && a.l.Side != experiments.SideMost && a.held.Hi < a.limit.Lo
}

// byAbsence reports a Fail that rests on what was not seen: it stands only where it would have been.
func (a *answer) byAbsence() bool {
	unread := func(l verdict.Missing) bool { return l.Code == verdict.MissingUnread }
	return a.broken == "" && (a.l.Share > 0 || a.tooLittle() || a.m.ends && slices.ContainsFunc(a.lacks, unread))
}

// none reports that nothing was over the limit, or may have been.
func (a *answer) none() bool {
	return a.held.Hi <= a.sure() && (a.unit == verdict.UnitSeconds || a.held.Hi == 0)
}

// row judges one limit. A Pass without the evidence for it is none, and so is a Fail for want of something that was not looked for.
func (j *judging) row(l *experiments.Limit) (verdict.SLOResult, verdict.Sample) {
	a := j.answer(l)
	lacks := slices.Concat(j.missingOf(l.Lock), a.lacks)
	r := a.rowOf(j)
	r.N, r.Of, r.Evidence = a.n, a.of, facts.Cite(a.evidence...)
	r.Lo, r.Hi = a.number(a.held.Lo), facts.UnlessOpen(a.held.Hi, a.number)
	r.Unfit, r.Against, r.Lateness = a.unfit != "", a.against, facts.Seconds(max(a.held.Late, a.shown))
	if a.unit == verdict.UnitCount { // it is shown in seconds
		r.Lateness = 0
	}
	if a.faults > 0 && l.Side != experiments.SideLeast && l.Share == 0 && a.none() {
		b := stats.UpperBound(0, a.faults)
		r.Bound, r.BoundN = &b, a.faults
	}
	r.Verdict = a.word
	switch {
	case a.word == verdict.Fail && a.byAbsence() && unreached(lacks):
		r.Verdict = verdict.Inconclusive
	case a.word == verdict.Fail, a.unfit != "":
		lacks = nil
	case len(lacks) > 0:
		r.Verdict = verdict.Inconclusive
	case a.word == verdict.Inconclusive:
		lacks = a.unsure
	}
	r.Missing = append(r.Missing, lacks...)
	r.Why, r.Next = a.says(&r)
	return r, a.sample(&r)
}

// rowOf is the row with what it asks.
func (a *answer) rowOf(j *judging) verdict.SLOResult {
	r := verdict.SLOResult{Question: a.l, Lock: a.l.Lock, Measure: a.l.Name(), Unit: a.unit, Ask: a.l.Side, Limit: a.number(a.sure()),
		Missing: []verdict.Missing{}, Evidence: []int64{}}
	r.Declared = r.Limit
	if a.unit == verdict.UnitSeconds && a.l.Subject == "" { // what an alert's rules say is not scaled
		r.Declared = facts.Seconds(forecast.Unscaled(a.sure(), j.scale()))
	}
	return r
}

// unreached reports that something is missing beside a live system.
func unreached(missing []verdict.Missing) bool {
	return slices.ContainsFunc(missing, func(l verdict.Missing) bool { return l.Code != verdict.MissingLiveSystem })
}

// number is a quantity in the figure's unit.
func (f *figure) number(x int64) float64 {
	switch x {
	case facts.Open:
		return verdict.Infinite
	case -facts.Open:
		return -verdict.Infinite
	}
	if f.unit == verdict.UnitCount {
		return float64(x)
	}
	return float64(x) / 1e9
}

// belatedAny is what values lack of which each is held against an upper limit, and some of which the machine made late: it names the longest.
func belatedAny(values []facts.Value, limit int64) (missing []verdict.Missing) {
	longest := int64(-1)
	for _, v := range values {
		kept := v.Hi != facts.Open && v.Hi-v.Late <= limit
		if v.Late > 0 && v.Hi > limit && v.InTime().Lo <= limit && (v.Lo > limit || kept) && v.Lo > longest {
			longest, missing = v.Lo, lateMachine(v.Dur, v.Late, limit)
		}
	}
	return missing
}

// lateMachine is what a figure lacks where it is the machine that keeps it from an answer: then nothing is said against the lock, nor for it.
func lateMachine(v facts.Dur, late, limit int64) []verdict.Missing {
	return []verdict.Missing{verdict.Lacking(verdict.MissingLateMachine, "It took "+v.String(), figures.Exact(figures.Up(late)), figures.Exact(limit))}
}
