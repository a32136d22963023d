package experiments

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// figure is one figure of a promise, and what it must be.
type figure struct {
	name   string  // of the figure within its measure: missed, effective; "" = the measure has one
	limits []Limit // in the order of their rows
	of     string  // the lock that shares are of, even where there is no share
	most   float64 // that the figure can be; 0 = no bound
	time   bool
}

// measure is the line of SLO by which the row is measured, and its section; nothing where the row has none.
func (s *SLO) measure() (line reflect.StructField, section reflect.Value) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			return v.Type().Field(i), f.Elem()
		}
	}
	return line, section
}

// Measure is the YAML name of the measure that the SLO bounds; "" = it has none.
func (s *SLO) Measure() string {
	line, section := s.measure()
	if !section.IsValid() {
		return ""
	}
	return vocab.FieldName(line)
}

// asks reports whether the row's measure says so of itself.
func (s *SLO) asks(what string) bool {
	line, _ := s.measure()
	return line.Tag.Get("asks") == what
}

// figures are those that the row bounds.
func (s *SLO) figures() []figure {
	line, section := s.measure()
	if !section.IsValid() || section.Kind() != reflect.Struct {
		return nil
	}
	return figuresIn(section, figure{}, Limit{SLO: s, Lock: s.Lock, Measure: vocab.FieldName(line)})
}

// figuresIn are the figures that a section bounds: f, or each of several. l is what is known of their limits.
func figuresIn(section reflect.Value, f figure, l Limit) (all []figure) {
	switch of := section.Addr().Interface().(type) {
	case *Bound[int]:
		return []figure{bounded(f, l, of)}
	case *Bound[float64]:
		return []figure{bounded(f, l, of)}
	case *Bound[time.Duration]:
		return []figure{bounded(f, l, of)}
	case *CountLimit:
		l.MinJobs = of.MinJobs
		return []figure{bounded(f, l, &of.Bound)}
	case *OverlapLimit:
		if l.Part = of.Level; of.Level == "effect" {
			return []figure{bounded(f, l, &of.Count)}
		}
		return []figure{bounded(f, l, &of.Time)}
	case *ClassLimits:
		l.Class = of.Class
		return []figure{trials(f, l, &of.DurationLimits)}
	case *DurationLimits:
		return []figure{trials(f, l, of)}
	case *LogLimit:
		l.Subject = of.Pattern
		return []figure{bounded(f, l, &of.Bound)}
	case *MetricLimit:
		l.Subject = of.Name
	}
	for _, d := range vocabulary.Fields(section.Type()) {
		if v := section.FieldByIndex(d.Index); v.Kind() == reflect.Pointer && !v.IsNil() {
			l.Part = d.Name
			all = append(all, figuresIn(v.Elem(), figure{name: d.Name, most: d.Rule.Max}, l)...)
		}
	}
	return all
}

// trials bounds a set of values: its worst, its quantiles, and what else its bounds ask.
func trials(f figure, l Limit, d *DurationLimits) figure {
	l.Trials = true
	f = bounded(f, l, &d.Bound)
	at := 0
	if d.Max != nil {
		at = 1
	}
	for _, q := range []struct {
		p     float64
		limit *time.Duration
	}{{0.5, d.P50}, {0.9, d.P90}, {0.95, d.P95}, {0.99, d.P99}} {
		if q.limit != nil {
			of := l
			of.Quantile, of.At = q.p, int64(*q.limit)
			f.limits = slices.Insert(f.limits, at, of)
			at++
		}
	}
	return f
}

// bounded is the figure with the limits of one bound.
func bounded[T int | float64 | time.Duration](f figure, l Limit, b *Bound[T]) figure {
	f.of = b.Of
	_, f.time = any(b).(*Bound[time.Duration])
	for _, x := range []struct {
		side  Side
		limit *T
		share *float64
	}{{SideMost, b.Max, nil}, {SideLeast, b.Min, nil}, {SideExact, b.Exactly, nil}, {SideMost, nil, b.AtMost}, {SideLeast, nil, b.AtLeast}} {
		of := l
		of.Side = x.side
		switch {
		case x.limit != nil:
			if n, is := any(*x.limit).(float64); is {
				of.Number = n
			} else {
				of.At = int64(*x.limit)
			}
		case x.share != nil:
			of.Share, of.Of = *x.share, b.Of
		default:
			continue
		}
		f.limits = append(f.limits, of)
	}
	return f
}

// word is what the file calls the limit.
func (l *Limit) word() string {
	if l.Share > 0 {
		return map[Side]string{SideMost: "at_most", SideLeast: "at_least"}[l.Side]
	}
	return l.Bound()
}

// value is the limit as a number: nanoseconds, a count, a share.
func (l *Limit) value() float64 { return float64(l.At) + l.Number }

func (f *figure) spell(v float64) string {
	if f.time {
		return figures.Spell(time.Duration(v))
	}
	return fmt.Sprintf("%g", v)
}

// at is the path of something of the figure below its measure.
func (f *figure) at(word string) string { return strings.Trim(f.name+"."+word, ".") }

// quantile is the first word of a quantile that is limited; "" = none is.
func (f *figure) quantile() string {
	for i := range f.limits {
		if f.limits[i].Quantile > 0 {
			return f.limits[i].word()
		}
	}
	return ""
}

// asked are the words of what single values are asked to be.
func (f *figure) asked() (words []string) {
	for i := range f.limits {
		if f.limits[i].Quantile == 0 {
			words = append(words, f.limits[i].word())
		}
	}
	return words
}
