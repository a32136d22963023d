package analysis

import (
	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Rows of observed systems that what replicas say of themselves answers, and what looks at keys show of leases.

// asksBelief reports a lock of somebody's own whose replicas are asked whether they hold it.
func (j *judging) asksBelief(lock string) bool {
	l := j.ix.Exp.Lock(lock)
	return l != nil && l.Belief != nil
}

// unasked says that a replica could not be asked for too long whether it holds the lock, that what was read is not whole, or that what is asked
// never said yes.
func (j *judging) unasked(lock string) []verdict.Missing {
	if !j.asksBelief(lock) {
		return nil
	}
	probe, w := history.BeliefProbe(lock), j.window()
	ls := append(j.illegible(probe), j.linesBlind(probe, w)...)
	who, why, dark, is := j.ix.BlindBelief(lock, w)
	if is {
		if why != "" {
			why = ": " + why
		}
		ls = append(ls, verdict.Lacking(verdict.MissingBelief, lock, who, figures.Short(min(dark.To, j.ix.Last)-dark.From), figures.Clock(dark.From), figures.Exact(j.ix.MaxGap(probe)), why))
	}
	if !j.ix.EverSaid(lock) {
		if !is { // else who could not be asked is named
			ls = append(ls, verdict.Lacking(verdict.MissingBelievers, lock, "No replica ever said that it holds lock "+lock))
		}
	} else if who, held, is := j.ix.SilentHolder(lock); is {
		ls = append(ls, verdict.Lacking(verdict.MissingBelievers, lock, who+" held lock "+lock+" for "+figures.Short(held)+", and never said so"))
	}
	return ls
}

// leasesOverlapped is for how long a key had been granted anew while the lease before it had not ended.
func leasesOverlapped(j *judging, l *experiments.Limit) figure {
	o := j.ix.LeaseOverlap(l.Lock)
	f := figure{Value: facts.Value{Dur: o.Dur}, n: o.N, evidence: o.Evidence, lacks: j.unsucceeded(l.Lock), hints: hints{why: o.Who}}
	if o.Undecided > 0 {
		f.closer = "Let the holder's acts be seen: " + figures.Plural(o.Undecided, "key") + " may have been given back before its lease was over. Say belief of the lock, or map.token of its effects."
	}
	return f
}

// noticed is how long holders said that they held what they had lost.
func noticed(j *judging, l *experiments.Limit) figure {
	if !j.ix.Exp.Observed() {
		return longest((*facts.Facts).LossToFence)(j, l)
	}
	o := j.ix.LossToBelief(l.Lock)
	return figure{Value: facts.Value{Dur: o.Dur}, n: o.N, of: "loss", evidence: o.Evidence, hints: hints{why: o.Why}}
}

// leaderless is for how long nobody led.
func leaderless(j *judging, l *experiments.Limit) figure {
	d, n, evidence := j.ix.Leaderless(l.Lock, j.window())
	return figure{Value: facts.Value{Dur: d}, n: n, evidence: evidence}
}
