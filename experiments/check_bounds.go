package experiments

import (
	"reflect"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// limit is one limit of a row: what it bounds, and where it stands: in which row, below which measure. One from above or below has a word of
// ladder; its figure is that of what.
type limit struct {
	row, measure, path string
	what               string
	figure             *figure
	word               string
	value              float64
}

func (l *limit) at() string { return l.row + "." + l.measure + "." + l.path }

// ladder are the limits that one figure may have, each at most the next one.
var ladder = []string{"min", "p50", "p90", "p95", "p99", "max"}

// promised are the limits that the row at a place gives.
func (s *SLO) promised(row string) (out []limit) {
	add := func(f *figure, path, word string, value float64) {
		out = append(out, limit{row, s.Measure(), path, f.at(word), f, word, value})
	}
	for _, f := range s.figures() {
		for i := range f.limits {
			l := &f.limits[i]
			word := l.word()
			path := f.at(word)
			if f.name != "" && word == "max" { // perhaps a bare value
				path = f.name
			}
			switch {
			case l.Share > 0:
				out = append(out, limit{row: row, measure: s.Measure(), path: path, what: path + " of " + f.of})
			case word == "exactly":
				add(&f, path, "max", l.value())
				add(&f, path, "min", l.value())
			default:
				add(&f, path, word, l.value())
			}
		}
	}
	return out
}

// limits checks that the measure's limits are there, and that each can be kept and broken.
func (c *checker) limits(at string, s *SLO) {
	figures := s.figures()
	for i := range figures {
		c.bound(strings.Trim(at+"."+figures[i].name, "."), s, &figures[i])
	}
	if _, section := s.measure(); len(figures) == 0 && s.Metric == nil {
		var names []string
		for _, d := range vocabulary.Fields(section.Type()) {
			names = append(names, d.Name)
		}
		c.Check(at, "no limit: %s", vocab.Either(names))
	}
	c.metricLimit(at, s.Metric)
}

// bound refuses a bound that says nothing, contradicts itself, or cannot be held against the figure.
func (c *checker) bound(at string, s *SLO, f *figure) {
	asked, quantile := f.asked(), f.quantile()
	if len(asked) == 0 {
		c.Refuse(quantile == "" && f.of == "", at, "no limit: %s", s.words())
		c.Refuse(f.of != "", at+".of", "compares nothing: say at_most or at_least, as a share of what lock %s measured", f.of)
		return
	}
	last := asked[len(asked)-1]
	c.Refuse(slices.Contains(asked, "exactly") && (slices.Contains(asked, "max") || slices.Contains(asked, "min")), at+".exactly", "is max and min in one: leave those out")
	c.Refuse(quantile != "" && last != "max", at, "%s beside %s: it holds for single trials and not for a quantile, so it needs a row of its own", last, quantile)
	for i := range f.limits {
		c.reachable(at, s, f, &f.limits[i])
	}
	c.Refuse(f.of == "" && c.sure(at+".of") && strings.HasPrefix(last, "at_"), at+"."+last, "a share of what? Say of: and the name of another lock")
}

// reachable refuses a limit outside of what the figure can be, and one that every figure keeps.
func (c *checker) reachable(at string, s *SLO, f *figure, l *Limit) {
	if l.Share > 0 || l.Quantile > 0 {
		return
	}
	place := at + "." + l.word()
	if c.Node(place) == nil {
		place = at
	}
	v, signed := l.value(), s.asks("signed")
	_ = c.Refuse(v < 0 && !signed, place, "%s is negative", f.spell(v)) ||
		c.Refuse(f.most > 0 && v > f.most, place, "%s is out of range: from 0 up to %g", f.spell(v), f.most) ||
		c.Refuse(l.Side == SideLeast && v == 0 && !signed, place, "nothing is less than %s: leave it out, or ask for more", f.spell(0))
}

// reference checks the lock that a row compares its own with.
func (c *checker) reference(measure string, s *SLO, own *Lock) {
	for _, f := range s.figures() {
		at := measure + "." + f.at("of")
		if f.of == "" || len(f.limits) == 0 || c.Refuse(s.asks("whole"), at, "%s is of the whole drill, not of one lock: there is nothing to compare", s.Measure()) ||
			c.Refuse(s.asks("signed"), at, "%s may be negative: a share of it says nothing", s.Measure()) || c.Refuse(f.of == own.Name, at, "is the row's own lock") {
			continue
		}
		other := c.sound(at, f.of)
		c.Refuse(other != nil && other.Loop() != own.Loop(), at, "one of %s and %s is a leader loop and the other is taken per job: they cannot be compared", own.Name, f.of)
	}
}

// words are what a bound of the row may be.
func (s *SLO) words() string {
	if _, section := s.measure(); section.Type() == reflect.TypeFor[DurationLimits]() || section.Type() == reflect.TypeFor[ClassLimits]() {
		return "max, min, exactly, p50, p90, p95 or p99"
	}
	return "max, min or exactly"
}
