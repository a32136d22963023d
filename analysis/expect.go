package analysis

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// expected judges what each confirmed shot had to bring about: the same measures, on the part of the facts that may be its doing. Whatever is
// not surely there was not provoked: the drill then says nothing about what it is for, which is no failure of the lock.
func (j *judging) expected() []verdict.SLOResult {
	var rows []verdict.SLOResult
	parts := map[facts.Consequence]*judging{}
	for i := range j.expectations {
		l := &j.expectations[i]
		if l.SLO.Alert != nil {
			rows = append(rows, j.alarmed(l))
			continue
		}
		var shots []*facts.Shot
		var did []*answer // by shot
		for _, s := range j.ix.Shots {
			if s.ID != l.SLO.Fault || !s.Valid() {
				continue
			}
			of := facts.Consequence{Shot: s, Lock: l.Lock}
			if parts[of] == nil {
				parts[of] = j.judging(j.ix.BroughtAbout(of))
			}
			shots, did = append(shots, s), append(did, parts[of].answer(l))
		}
		rows = append(rows, j.provoked(l, shots, did))
	}
	return rows
}

// provoked is one row of an expectation: the shot that showed the least of it, or the most of what was to be little.
func (j *judging) provoked(l *experiments.Limit, shots []*facts.Shot, of []*answer) verdict.SLOResult {
	var first *answer // for what was asked
	if len(of) > 0 {
		first = of[0]
	} else {
		first = j.answer(l)
	}
	r := first.rowOf(j)
	r.Fault, r.N, r.Of, r.Verdict = l.SLO.Fault, len(shots), "shot", verdict.Pass
	did, not, worst := 0, "", facts.Dur{}
	var late []verdict.Missing // of the first that did not
	for i, a := range of {
		if a.shows() {
			did++
		} else if not == "" {
			not = shots[i].Op + ": " + cmp.Or(a.unfit, a.sees())
			if late = a.madeLate(); a.unfit == "" && len(late) > 0 {
				not = shots[i].Op + ": " + strings.TrimSuffix(late[0].Why, ".")
			}
			r.Evidence = facts.Cite(append([]int64{shots[i].Applied.N}, a.evidence...)...)
		}
		less := l.Side != experiments.SideMost && a.held.Lo < worst.Lo || l.Side == experiments.SideMost && a.held.Hi > worst.Hi
		if i == 0 || less {
			worst = a.held.Dur
		}
	}
	if r.Lo = first.number(worst.Lo); len(shots) > 0 {
		r.Hi = facts.UnlessOpen(worst.Hi, first.number)
	}
	switch {
	case len(shots) == 0:
		notProvoked(&r, verdict.Lacking(verdict.MissingProvoked, first.bound(), "fault "+l.SLO.Fault+" was never confirmed", "See why under the faults of this run."))
	case did < len(shots):
		next := "Let the fault last longer, or aim it at this lock. If it worked as intended, the lock does not behave as the drill assumes."
		if len(late) > 0 {
			next = late[0].Next
		}
		notProvoked(&r, verdict.Lacking(verdict.MissingProvoked, first.bound(), fmt.Sprintf("%d of %s of fault %s did so (%s)", did, figures.Plural(len(shots), "shot"), l.SLO.Fault, not), next))
		r.Missing = append(r.Missing, late...)
	default:
		r.Why = fmt.Sprintf("Each of %s of fault %s provoked it", figures.Plural(len(shots), "shot"), l.SLO.Fault)
	}
	return r
}

// shows reports that the shot surely brought it about. What is asked to be little must have been looked for.
func (a *answer) shows() bool {
	return a.word == verdict.Pass && a.unfit == "" && (a.l.Side == experiments.SideLeast || len(a.lacks) == 0)
}

// notProvoked makes r a row of something that did not happen.
func notProvoked(r *verdict.SLOResult, m verdict.Missing) {
	r.Verdict, r.Why, r.Next, r.Missing = verdict.Inconclusive, m.Why, m.Next, append(r.Missing, m)
}
