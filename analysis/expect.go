package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// consequence is what one confirmed shot brought about at one lock: the part of the facts that a row of `expect` is about.
type consequence struct {
	shot *shot
	lock string
}

// expected judges what each confirmed shot had to bring about: the same measures, on the part of the facts that may be its doing. Whatever is
// not surely there was not provoked: the drill then says nothing about what it is for, which is no failure of the lock.
func (j *judging) expected() []verdict.SLOResult {
	var rows []verdict.SLOResult
	parts := map[consequence]*judging{}
	for i := range j.expectations {
		l := &j.expectations[i]
		if l.SLO.Alert != nil {
			rows = append(rows, j.alarmed(l))
			continue
		}
		var shots []*shot
		var did []*answer // by shot
		for _, s := range j.ix.shots {
			if s.id != l.SLO.Fault || !s.valid() {
				continue
			}
			of := consequence{s, l.Lock}
			if parts[of] == nil {
				parts[of] = j.ix.broughtAbout(of).judging()
			}
			shots, did = append(shots, s), append(did, parts[of].answer(l))
		}
		rows = append(rows, j.provoked(l, shots, did))
	}
	return rows
}

// provoked is one row of an expectation: the shot that showed the least of it, or the most of what was to be little.
func (j *judging) provoked(l *experiments.Limit, shots []*shot, of []*answer) verdict.SLOResult {
	var first *answer // for what was asked
	if len(of) > 0 {
		first = of[0]
	} else {
		first = j.answer(l)
	}
	r := first.rowOf(j)
	r.Fault, r.N, r.Of, r.Verdict = l.SLO.Fault, len(shots), "shot", verdict.Pass
	did, not, worst := 0, "", dur{}
	var late []verdict.Missing // of the first that did not
	for i, a := range of {
		if a.shows() {
			did++
		} else if not == "" {
			not = shots[i].op + ": " + cmp.Or(a.unfit, a.sees())
			if late = a.madeLate(); a.unfit == "" && len(late) > 0 {
				not = shots[i].op + ": " + strings.TrimSuffix(late[0].Why, ".")
			}
			r.Evidence = cite(append([]int64{shots[i].applied.N}, a.evidence...)...)
		}
		less := l.Side != experiments.SideMost && a.held.lo < worst.lo || l.Side == experiments.SideMost && a.held.hi > worst.hi
		if i == 0 || less {
			worst = a.held.dur
		}
	}
	if r.Lo = first.number(worst.lo); len(shots) > 0 {
		r.Hi = unlessOpen(worst.hi, first.number)
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

// broughtAbout are the facts of one lock that may be due to the shot: of the keys that it struck, from when it was applied until the next
// one strikes them.
func (ix *Facts) broughtAbout(c consequence) *Facts {
	part := *ix
	part.only, part.findings, part.jobOrder = &c, nil, nil
	part.byLock = map[string][]*keyIndex{}
	struck := ix.struckKeys(c.shot)
	for _, k := range ix.keysOf(c.lock) {
		if !struck[k.name] {
			continue
		}
		w := history.Span{From: c.shot.applied.From, To: open}
		for _, o := range ix.shots {
			if o.effective() && o.applied.From > w.From && ix.struckKeys(o)[k.name] {
				w.To = min(w.To, o.applied.From)
			}
		}
		part.byLock[c.lock] = append(part.byLock[c.lock], k.during(w))
		part.jobOrder = append(part.jobOrder, k.jobs...)
	}
	return &part
}

// leavesOut reports a shot that these facts are not about.
func (ix *Facts) leavesOut(s *shot) bool { return ix.only != nil && ix.only.shot != s }

// struckKeys are the keys of which the shot struck an epoch, or an operation.
func (ix *Facts) struckKeys(s *shot) map[string]bool {
	if s.struckKeys == nil {
		s.struckKeys = map[string]bool{}
		for _, h := range s.hits {
			s.struckKeys[h.Key] = true
		}
		for _, e := range s.mayHit(ix) {
			if s.struck(ix, e) {
				s.struckKeys[e.key] = true
			}
		}
	}
	return s.struckKeys
}

// during is what happened at the key in w.
func (k *keyIndex) during(w history.Span) *keyIndex {
	out := *k
	in := func(from, to int64) bool { return to >= w.From && from <= w.To }
	out.epochs, out.attempts, out.waits, out.effects = nil, nil, nil, nil
	for _, e := range k.epochs {
		if in(e.granted.From, max(e.life.end.To, e.stop().To)) {
			out.epochs = append(out.epochs, e)
		}
	}
	for _, c := range k.attempts {
		if in(c.sent.From, c.span.To) {
			out.attempts = append(out.attempts, c)
		}
	}
	for _, x := range k.waits {
		if in(x.begin.From, x.end.To) {
			out.waits = append(out.waits, x)
		}
	}
	for _, f := range k.effects {
		if in(f.span.From, f.span.To) {
			out.effects = append(out.effects, f)
		}
	}
	out.regressions = slices.DeleteFunc(slices.Clone(k.regressions), func(r regression) bool { return !slices.Contains(out.epochs, r.late) })
	return &out
}
