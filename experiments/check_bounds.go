package experiments

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// part is one figure of a row and what it must be, as checks see it: the figures as numbers of one unit.
type part struct {
	name              string // of the figure within its measure: missed, effective; "" = the measure has one
	max, min, exactly *float64
	atMost, atLeast   *float64
	of                string
	quantiles         []quantile // beside it in the section
	spell             func(float64) string
}

// quantile is the limit of one, by its name in a file.
type quantile struct {
	name  string
	limit float64
}

// partOf is what b says of the figure.
func partOf[T int | float64 | time.Duration](name string, b *Bound[T]) part {
	number := func(v *T) *float64 {
		if v == nil {
			return nil
		}
		x := float64(*v)
		return &x
	}
	p := part{name: name, max: number(b.Max), min: number(b.Min), exactly: number(b.Exactly), atMost: b.AtMost, atLeast: b.AtLeast, of: b.Of,
		spell: func(v float64) string { return fmt.Sprintf("%g", v) }}
	if _, is := any(b).(*Bound[time.Duration]); is {
		p.spell = func(v float64) string { return figures.Spell(time.Duration(v)) }
	}
	return p
}

// parts are the figures of the row that are bounded.
func (s *SLO) parts() []part {
	var ps []part
	for _, d := range []*DurationLimits{s.Takeover, s.TickGap} {
		ps = append(ps, d.parts()...)
	}
	for _, d := range []*ClassLimits{s.Held, s.Wait} {
		if d != nil {
			ps = append(ps, d.DurationLimits.parts()...)
		}
	}
	for _, n := range s.counts() {
		ps = append(ps, partOf("", &n.Bound))
	}
	for _, b := range []*Bound[time.Duration]{s.FenceLag, s.UnownedWork, s.LossToFence, s.Blocked} {
		if b != nil {
			ps = append(ps, partOf("", b))
		}
	}
	switch {
	case s.Overlap != nil && s.Overlap.Level == "effect":
		ps = append(ps, partOf("", &s.Overlap.Count))
	case s.Overlap != nil:
		ps = append(ps, partOf("", &s.Overlap.Time))
	case s.Logs != nil:
		ps = append(ps, partOf("", &s.Logs.Bound))
	case s.Abandonment != nil:
		ps = named(ps, "missed", s.Abandonment.Missed)
		ps = named(ps, "late", s.Abandonment.Late)
		ps = named(ps, "needless", s.Abandonment.Needless)
	case s.Busy != nil:
		ps = named(ps, "count", s.Busy.Count)
		ps = named(ps, "time", s.Busy.Time)
		ps = named(ps, "each", s.Busy.Each)
	case s.LockDebt != nil:
		ps = named(ps, "max", s.LockDebt.Max)
		ps = named(ps, "effective", s.LockDebt.Effective)
		ps = named(ps, "total", s.LockDebt.Total)
		ps = named(ps, "waiter_seconds", s.LockDebt.Waiting)
	case s.Rolling != nil:
		ps = named(ps, "handovers", s.Rolling.Handovers)
		ps = named(ps, "without_leader", s.Rolling.WithoutLeader)
		ps = named(ps, "longest", s.Rolling.Longest)
	case s.NotOwned != nil:
		ps = named(ps, "renew", s.NotOwned.Renew)
		ps = named(ps, "release", s.NotOwned.Release)
	case s.FailedReleases != nil:
		ps = named(ps, "calls", s.FailedReleases.Calls)
		ps = named(ps, "given_up", s.FailedReleases.GivenUp)
	case s.Metric != nil:
		ps = named(ps, "delta", s.Metric.Delta)
		ps = named(ps, "rate", s.Metric.Rate)
		ps = named(ps, "max", s.Metric.Max)
	}
	return ps
}

func named[T int | float64 | time.Duration](ps []part, name string, b *Bound[T]) []part {
	if b == nil {
		return ps
	}
	return append(ps, partOf(name, b))
}

// counts are the counts of the row: one, or none.
func (s *SLO) counts() []*CountLimit {
	var out []*CountLimit
	for _, n := range []*CountLimit{s.DuplicateTerminalStates, s.Abandonments, s.Stranded, s.FenceRegressions, s.ReExecuted, s.OrphanAcquires,
		s.ForeignReleases, s.ForeignRenewals, s.DuplicateEpochs, s.Vanished} {
		if n != nil {
			out = append(out, n)
		}
	}
	return out
}

func (d *DurationLimits) parts() []part {
	if d == nil {
		return nil
	}
	p := partOf("", &d.Bound)
	for _, q := range []struct {
		name  string
		limit *time.Duration
	}{{"p50", d.P50}, {"p90", d.P90}, {"p95", d.P95}, {"p99", d.P99}} {
		if q.limit != nil {
			p.quantiles = append(p.quantiles, quantile{q.name, float64(*q.limit)})
		}
	}
	return []part{p}
}

// asked are the words of what the part is asked to be.
func (p *part) asked() []string {
	var words []string
	for _, x := range []struct {
		word string
		v    *float64
	}{{"max", p.max}, {"min", p.min}, {"exactly", p.exactly}, {"at_most", p.atMost}, {"at_least", p.atLeast}} {
		if x.v != nil {
			words = append(words, x.word)
		}
	}
	return words
}

// said is one limit of a row: what it bounds, and where it stands below the measure. A limit from above or below has a word of ladder;
// its figure is that of the part.
type said struct {
	what, path string
	part       *part
	word       string
	limit      float64
}

// ladder are the limits that one figure may have, each at most the next one.
var ladder = []string{"min", "p50", "p90", "p95", "p99", "max"}

// promised are the limits that the row gives.
func (s *SLO) promised() []said {
	var out []said
	parts := s.parts()
	for i := range parts {
		p := &parts[i]
		at := func(word string) string { return strings.TrimPrefix(p.name+"."+word, ".") }
		for _, word := range p.asked() {
			path := at(word)
			if p.name != "" && word == "max" { // perhaps a bare value
				path = p.name
			}
			switch word {
			case "exactly":
				out = append(out, said{at("max"), path, p, "max", *p.exactly}, said{at("min"), path, p, "min", *p.exactly})
			case "at_most", "at_least":
				out = append(out, said{what: path + " of " + p.of, path: path})
			case "max":
				out = append(out, said{at(word), path, p, word, *p.max})
			case "min":
				out = append(out, said{at(word), path, p, word, *p.min})
			}
		}
		for _, q := range p.quantiles {
			out = append(out, said{at(q.name), at(q.name), p, q.name, q.limit})
		}
	}
	return out
}

// bound refuses a bound that says nothing, contradicts itself, or cannot be held against the figure.
func (c *checker) bound(measure string, s *SLO, p *part) {
	at := measure
	if p.name != "" {
		at += "." + p.name
	}
	asked := p.asked()
	if len(asked) == 0 {
		if len(p.quantiles) == 0 && p.of == "" {
			c.Check(at, "no limit: %s", s.words())
		}
		if p.of != "" {
			c.Check(at+".of", "compares nothing: say at_most or at_least, as a share of what lock %s measured", p.of)
		}
		return
	}
	if p.exactly != nil && (p.max != nil || p.min != nil) {
		c.Check(at+".exactly", "is max and min in one: leave those out")
	}
	if len(p.quantiles) > 0 && (len(asked) > 1 || p.max == nil) {
		c.Check(at, "%s beside %s: it holds for single trials and not for a quantile, so it needs a row of its own", last(asked), p.quantiles[0].name)
	}
	c.figures(at, s, p)
	if p.of == "" && (p.atMost != nil || p.atLeast != nil) {
		c.Check(at+"."+last(asked), "a share of what? Say of: and the name of another lock")
	}
}

// figures refuses limits outside of what the figure can be, and those that every figure keeps.
func (c *checker) figures(at string, s *SLO, p *part) {
	for _, x := range []struct {
		word string
		v    *float64
	}{{"max", p.max}, {"min", p.min}, {"exactly", p.exactly}} {
		place := at + "." + x.word
		if c.Node(place) == nil {
			place = at
		}
		switch {
		case x.v == nil:
		case *x.v < 0 && s.FenceLag == nil:
			c.Check(place, "%s is negative", p.spell(*x.v))
		case *x.v > 1 && (s.NotOwned != nil || s.FailedReleases != nil):
			c.Check(place, "%s is out of range: from 0 up to 1", p.spell(*x.v))
		case x.word == "min" && *x.v == 0 && s.FenceLag == nil:
			c.Check(place, "nothing is less than %s: leave it out, or ask for more", p.spell(0))
		}
	}
}

// reference checks the lock that a row compares its own with.
func (c *checker) reference(measure string, s *SLO, own *Lock) {
	for _, p := range s.parts() {
		at := strings.TrimSuffix(measure+"."+p.name, ".")
		switch {
		case p.of == "":
			continue
		case s.Metric != nil || s.Logs != nil:
			c.Check(at+".of", "%s is of the whole drill, not of one lock: there is nothing to compare", s.Measure())
		case s.FenceLag != nil:
			c.Check(at+".of", "fence_lag may be negative: a share of it says nothing")
		case p.of == own.Name:
			c.Check(at+".of", "is the row's own lock")
		default:
			if other := c.sound(at+".of", p.of); other != nil && other.Loop() != own.Loop() {
				c.Check(at+".of", "one of %s and %s is a leader loop and the other is taken per job: they cannot be compared", own.Name, other.Name)
			}
		}
	}
}

// words are what a bound of the row may be.
func (s *SLO) words() string {
	switch {
	case s.Takeover != nil, s.TickGap != nil, s.Held != nil, s.Wait != nil:
		return "max, min, exactly, p50, p90, p95 or p99"
	}
	return "max, min or exactly"
}

// limits is the section of the row's measure.
func (s *SLO) limits() any {
	switch {
	case s.Abandonment != nil:
		return s.Abandonment
	case s.Busy != nil:
		return s.Busy
	case s.LockDebt != nil:
		return s.LockDebt
	case s.FailedReleases != nil:
		return s.FailedReleases
	case s.Rolling != nil:
		return s.Rolling
	}
	return s.NotOwned
}

func last(words []string) string { return words[len(words)-1] }

// either joins words as alternatives.
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + last(words)
}
