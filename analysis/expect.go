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

// asked is a bound of a row and the figure that is held against it.
type askedOf struct {
	b bound
	m measured
}

// expected judges what each confirmed shot had to bring about. Whatever is not surely there was not provoked: the drill then says nothing
// about what it is for, which is no failure of the lock.
func (j *judging) expected() []verdict.SLOResult {
	var rows []verdict.SLOResult
	parts := map[consequence]*judging{}
	for i := range j.ix.exp.Expect {
		x := &j.ix.exp.Expect[i]
		if x.Alert != nil {
			rows = append(rows, j.alarmed(x)...)
			continue
		}
		var shots []*shot
		var seen [][]askedOf // by shot
		for _, s := range j.ix.shots {
			if s.id != x.Fault || !s.valid() {
				continue
			}
			of := consequence{s, x.Lock}
			if parts[of] == nil {
				parts[of] = j.ix.broughtAbout(of).judging()
			}
			shots, seen = append(shots, s), append(seen, parts[of].figuresOf(x))
		}
		if len(shots) == 0 {
			seen = [][]askedOf{j.figuresOf(x)} // for what was asked
		}
		for n := range seen[0] {
			rows = append(rows, j.provoked(x, n, shots, seen))
		}
	}
	return rows
}

// figuresOf are the figures that the rows of s would be about, and their bounds.
func (j *judging) figuresOf(s *experiments.SLO) []askedOf {
	var out []askedOf
	j.tap = func(b bound, m measured) { out = append(out, askedOf{b, m}) }
	j.judge(s)
	j.tap = nil
	return out
}

// provoked is the n-th row of an expectation: the shot that showed the least of it, or the most of what was to be little.
func (j *judging) provoked(x *experiments.SLO, n int, shots []*shot, seen [][]askedOf) verdict.SLOResult {
	b, m := seen[0][n].b, seen[0][n].m
	r := verdict.SLOResult{
		Fault: x.Fault, Lock: x.Lock, Measure: m.measure, Unit: m.unit, Ask: b.ask, Limit: m.number(b.sure()), Declared: j.declared(m, b.sure()),
		N: len(shots), Of: "shot", Verdict: verdict.Pass, Missing: []verdict.Missing{}, Evidence: []int64{},
	}
	did, not, worst := 0, "", dur{}
	var late []verdict.Missing // of the first that did not
	for i, s := range shots {
		m := seen[i][n].m
		word, v := b.shows(&m), m.dur
		r.Measure = m.measure
		if word == verdict.Pass {
			did++
		} else if not == "" {
			not = s.op + ": " + cmp.Or(m.unfit, m.saw)
			if late = m.madeLate(b); m.unfit == "" && len(late) > 0 {
				not = s.op + ": " + strings.TrimSuffix(late[0].Why, ".")
			}
			r.Evidence = cite(append([]int64{s.applied.N}, m.evidence...)...)
		}
		less := b.ask != verdict.AtMost && v.lo < worst.lo || b.ask == verdict.AtMost && v.hi > worst.hi
		if i == 0 || less {
			worst = v
		}
	}
	if r.Lo = m.number(worst.lo); len(shots) > 0 {
		r.Hi = unlessOpen(worst.hi, m.number)
	}
	what := fmt.Sprintf("%s of lock %s %s %s", verdict.MeasureWords(r.Measure), x.Lock, b.words(), m.text(b.sure()))
	switch {
	case len(shots) == 0:
		notProvoked(&r, verdict.Lacking(verdict.MissingProvoked, what, "fault "+x.Fault+" was never confirmed", "See why under the faults of this run."))
	case did < len(shots):
		next := "Let the fault last longer, or aim it at this lock. If it worked as intended, the lock does not behave as the drill assumes."
		if len(late) > 0 {
			next = late[0].Next
		}
		notProvoked(&r, verdict.Lacking(verdict.MissingProvoked, what, fmt.Sprintf("%d of %s of fault %s did so (%s)", did, figures.Plural(len(shots), "shot"), x.Fault, not), next))
		r.Missing = append(r.Missing, late...)
	default:
		r.Why = fmt.Sprintf("Each of %s of fault %s provoked it", figures.Plural(len(shots), "shot"), x.Fault)
	}
	return r
}

// shows is word of a figure that one shot brought about. What is asked to be little must have been looked for.
func (b bound) shows(m *measured) verdict.Verdict {
	v := b.word(m.inTime())
	if m.least != nil {
		v = b.ofTrials(m)
	}
	if m.violated || m.unfit != "" || b.ask != verdict.AtLeast && len(m.missing) > 0 {
		return verdict.Inconclusive
	}
	return v
}

// notProvoked makes r a row of something that did not happen.
func notProvoked(r *verdict.SLOResult, m verdict.Missing) {
	r.Verdict, r.Why, r.Next, r.Missing = verdict.Inconclusive, m.Why, m.Next, append(r.Missing, m)
}

// broughtAbout are the facts of one lock that may be due to the shot: of the keys that it struck, from when it was applied until the next
// one strikes them.
func (ix *Facts) broughtAbout(c consequence) *Facts {
	part := *ix
	part.only, part.findings, part.contradictions, part.jobOrder = &c, nil, 0, nil
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
