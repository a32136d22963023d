package analysis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// bound is what one figure is held against, in the figure's unit. The limit is a range where it is a share of what another lock
// measured, and else a point.
type bound struct {
	ask     verdict.Ask
	limit   dur
	against *verdict.Against // the other lock
}

// atMost is the bound of a figure from above.
func atMost(limit int64) bound { return bound{limit: dur{limit, limit}} }

// word holds what was measured against the bound: the only place where a limit and a range become a verdict.
func (b bound) word(v dur) verdict.Verdict {
	over, under := v.lo > b.limit.hi, v.hi < b.limit.lo // surely
	failed, passed := over, v.hi != open && v.hi <= b.limit.lo
	switch b.ask {
	case verdict.AtLeast:
		failed, passed = under, v.lo >= b.limit.hi
	case verdict.Exactly:
		failed, passed = over || under, v == b.limit
	}
	switch {
	case failed:
		return verdict.Fail
	case passed:
		return verdict.Pass
	}
	return verdict.Inconclusive
}

// ofTrials is word of a figure that several trials have: a lower bound is for the least of them, and m becomes what the row is about.
func (b bound) ofTrials(m *measured) verdict.Verdict {
	worst, all, isMax := m.inTime(), strings.TrimSuffix(m.measure, ".max"), strings.HasSuffix(m.measure, ".max")
	name := func(word string) {
		if isMax {
			m.measure = all + word
		}
	}
	switch b.ask {
	case verdict.AtLeast:
		m.value = *m.least
		name(".min")
		return b.word(m.inTime())
	case verdict.Exactly:
		m.lo, m.late = m.least.lo, max(m.late, m.least.late)
		name(".exactly")
		return verdict.Worst(atMost(b.limit.lo).word(worst), bound{ask: verdict.AtLeast, limit: b.limit}.word(m.least.inTime()))
	}
	return b.word(worst)
}

// sure is the limit that keeps the bound whatever the other lock really had.
func (b bound) sure() int64 {
	if b.ask == verdict.AtLeast && b.limit.hi != open {
		return b.limit.hi
	}
	return b.limit.lo
}

// tooLittle reports a figure that is surely below what was asked for.
func (b bound) tooLittle(m measured) bool {
	return !m.violated && b.ask != verdict.AtMost && m.hi < b.limit.lo
}

// byAbsence reports a Fail that rests on what was not seen: it stands only where it would have been.
func (b bound) byAbsence(m measured) bool { return !m.violated && (b.against != nil || b.tooLittle(m)) }

// unreached reports that something is missing beside a live system.
func unreached(missing []verdict.Missing) bool {
	return slices.ContainsFunc(missing, func(l verdict.Missing) bool { return l.Code != verdict.MissingLiveSystem })
}

// asked says what was asked of m, where there was less of it.
func (b bound) asked(m measured) string {
	if b.against != nil {
		return fmt.Sprintf("The SLO asks for at least %g of what lock %s had, %s", b.against.Share, b.against.Lock, m.text(b.limit.lo))
	}
	return "The SLO asks for " + map[verdict.Ask]string{verdict.AtLeast: "at least ", verdict.Exactly: "exactly "}[b.ask] + m.text(b.limit.lo)
}

// words say what the bound asks.
func (b bound) words() string {
	return map[verdict.Ask]string{verdict.AtMost: "of at most", verdict.AtLeast: "of at least", verdict.Exactly: "of exactly"}[b.ask]
}

// bounded gives the rows of one figure of a lock: one for each of its bounds, and none where b is nil. A share is of the same figure of
// another lock.
func bounded[T int | float64 | time.Duration](j *judging, lock string, b *experiments.Bound[T], figure func(lock string) measured) []verdict.SLOResult {
	if b == nil {
		return nil
	}
	var rows []verdict.SLOResult
	m := figure(lock)
	for _, x := range []struct {
		ask   verdict.Ask
		limit *T
	}{{verdict.AtMost, b.Max}, {verdict.AtLeast, b.Min}, {verdict.Exactly, b.Exactly}} {
		if x.limit != nil {
			at := inUnit(m.unit, *x.limit)
			rows = append(rows, j.row(lock, bound{ask: x.ask, limit: dur{at, at}}, m))
		}
	}
	for _, x := range []struct {
		ask   verdict.Ask
		share *float64
	}{{verdict.AtMost, b.AtMost}, {verdict.AtLeast, b.AtLeast}} {
		if x.share != nil {
			rows = append(rows, j.compared(lock, m, x.ask, *x.share, b.Of, figure(b.Of)))
		}
	}
	return rows
}

// inUnit is a limit as measured keeps figures.
func inUnit[T int | float64 | time.Duration](unit string, limit T) int64 {
	if share, is := any(limit).(float64); is {
		return scaled(unit, share)
	}
	return int64(limit)
}

// compared holds m against a share of what another lock measured.
func (j *judging) compared(lock string, m measured, ask verdict.Ask, share float64, of string, other measured) verdict.SLOResult {
	part := func(x int64) int64 {
		if x == open {
			return open
		}
		return int64(share * float64(x))
	}
	b := bound{ask: ask, limit: dur{part(other.inTime().lo), part(other.hi)},
		against: &verdict.Against{Lock: of, Share: share, Lo: other.number(other.lo), Hi: unlessOpen(other.hi, other.number)}}
	m.missing = slices.Concat(m.missing, j.missingOf(of), other.missing)
	if other.lo <= 0 {
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingReference, of))
	}
	if m.unfit == "" {
		m.unfit = other.unfit
	}
	return j.row(lock, b, m)
}

// open is the end of a bracket or of a duration that was never seen.
const open = figures.Open

// plus adds d to t and keeps open what is open.
func plus(t, d int64) int64 {
	if t == open || d == open || t > open-d {
		return open
	}
	return t + d
}

// dur is a duration in ns that lies surely in [lo, hi].
type dur struct{ lo, hi int64 }

// between is how long after a the instant b came: [max(0, b- - a+), b+ - a-].
func between(a, b history.Span) dur {
	d := dur{lo: max(0, b.From-a.To), hi: open}
	if b.To != open {
		d.hi = max(0, b.To-a.From)
	}
	return d
}

// Range is d in seconds.
func (d dur) Range() verdict.Range {
	return verdict.Range{Lo: seconds(d.lo), Hi: unlessOpen(d.hi, seconds)}
}

// unlessOpen is an end in the unit of a document; nil where it was not seen.
func unlessOpen(end int64, in func(int64) float64) *float64 {
	if end == open {
		return nil
	}
	v := in(end)
	return &v
}

// windowOf is s in seconds.
func windowOf(s history.Span) *verdict.Window {
	return &verdict.Window{From: seconds(s.From), To: unlessOpen(s.To, seconds)}
}

func (d dur) String() string { return figures.Range(d.lo, d.hi) }

func (d dur) add(o dur) dur { return dur{d.lo + o.lo, plus(d.hi, o.hi)} }

// worst is the range of the larger of the two.
func (d dur) worst(o dur) dur { return dur{max(d.lo, o.lo), max(d.hi, o.hi)} }

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// first is the bracket of the earlier of two instants.
func first(a, b history.Span) history.Span {
	return history.Span{From: min(a.From, b.From), To: min(a.To, b.To)}
}

// length of what s and w have in common, 0 where nothing.
func common(s, w history.Span) int64 {
	c, ok := s.Intersect(w)
	if !ok {
		return 0
	}
	return c.Width()
}
