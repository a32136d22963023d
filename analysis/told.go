package analysis

import (
	"fmt"
	"math"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// bySignal marks the row of a measure of an observed lock whose owner says what counts it.
const bySignal = ", by a signal"

// teller is the signal that tells what l is about; nil = none does.
func (j *judging) teller(l *experiments.Limit) *experiments.ToldBy {
	lock := j.ix.Exp.Lock(l.Lock)
	if lock == nil {
		return nil
	}
	return lock.Teller(rowFor(j.measures, l))
}

// counted is how often a signal counted.
func (j *judging) counted(by experiments.Signal) figure {
	f := figure{}
	if by.Log != "" {
		f = j.matches(by.Log)
	} else {
		f = j.metric(countedBy(by.Metric))
	}
	if f.unit != verdict.UnitCount && f.unfit == "" {
		f.unfit, f.Lo, f.Hi = by.Metric+" is no counter: its values are not whole numbers.", 0, facts.Open
	}
	f.unit = verdict.UnitCount
	return f
}

// toldCount is a count that a signal keeps.
func toldCount(j *judging, l *experiments.Limit) figure {
	by := j.teller(l)
	return j.counted(experiments.Signal{Metric: by.Metric, Log: by.Log})
}

// toldShare is the share of a count in another. Where nobody counts that one, at least one is more than none, and at most all.
func toldShare(j *judging, l *experiments.Limit) figure {
	by, f := j.teller(l), toldCount(j, l)
	part := f.Value
	f.unit = verdict.UnitRatio
	if by.Of == nil {
		f.Lo, f.Hi = min(part.Lo, 1), min(part.Hi, 1)*1e9
		f.unended = "Say of how many (of: {metric: NAME}), so that the share is known."
		return f
	}
	all := j.counted(*by.Of)
	f.lacks, f.evidence = append(f.lacks, all.lacks...), append(f.evidence, all.evidence...)
	if f.n = int(min(all.Lo, math.MaxInt32)); f.unfit == "" {
		f.unfit, f.next = all.unfit, all.next
	}
	if all.Hi == 0 && part.Hi == 0 {
		f.lacks = append(f.lacks, verdict.Lacking(verdict.MissingAnswers, j.measureOf(l).of, l.Lock))
	}
	f.Lo, f.Hi = 0, 0
	if all.Hi > 0 && all.Hi != facts.Open {
		f.Lo = min(1e9, int64(float64(part.Lo)/float64(all.Hi)*1e9))
	}
	switch {
	case part.Hi == 0:
	case all.Lo == 0 || part.Hi >= all.Lo:
		f.Hi = 1e9
	default:
		f.Hi = int64(math.Ceil(float64(part.Hi) / float64(all.Lo) * 1e9))
	}
	f.saw = fmt.Sprintf("%s of %s", f.saw, figures.Count(int(min(all.Lo, math.MaxInt32))))
	return f
}

// toldWait is the longest wait, by the sum of all and their number: no shorter than their mean, and no longer than all of them together.
func toldWait(j *judging, l *experiments.Limit) figure {
	by := j.teller(l)
	sum, all := j.ask(countedBy(by.Metric)), j.counted(*by.Of)
	f := figure{n: int(min(all.Lo, math.MaxInt32)), evidence: append(sum.evidence, all.evidence...), unfit: sum.unfit}
	f.lacks = append(append(append(f.lacks, sum.disagrees...), sum.missing...), all.lacks...)
	if f.next = sum.next; f.unfit == "" {
		f.unfit, f.next = all.unfit, all.next
	}
	f.Lo, f.Hi = 0, scaled(verdict.UnitSeconds, sum.total.Hi)
	if all.Hi > 0 && all.Hi != facts.Open {
		f.Lo = scaled(verdict.UnitSeconds, sum.total.Lo/float64(all.Hi))
	}
	f.least = &facts.Value{Dur: facts.Dur{Lo: 0, Hi: f.Hi}} // the shortest is no longer than their mean
	if all.Lo > 0 {
		f.least.Hi = min(f.Hi, scaled(verdict.UnitSeconds, sum.total.Hi/float64(all.Lo)))
	}
	f.saw = fmt.Sprintf("%s took %s s in all", figures.Plural(f.n, "wait"), figures.Decimal(sum.total.Lo))
	return f
}
