package experiments

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Side says on which side of its limit a figure must stay.
type Side string

const (
	SideMost  Side = "" // the figure's upper end counts
	SideLeast Side = "at_least"
	SideExact Side = "exactly"
)

// Limit is one question that a promise asks, as values: each has one row in the verdict. Whoever needs a row's measure, side or quantile
// has it here, and reads no name.
type Limit struct {
	SLO *SLO `json:"-"` // the promise that it is of

	Lock    string
	Measure string // as the file calls it: takeover, lock_debt, metric
	Part    string `json:",omitempty"` // of the measure: max of lock_debt, belief of overlap, delta of a metric, fires of an alert; "" = it has none
	Subject string `json:",omitempty"` // what it is about beside the lock: the metric, the pattern of lines, or the alert with its labels
	Class   string `json:",omitempty"` // of jobs; "" = all of the lock

	Side     Side    `json:",omitempty"`
	At       int64   `json:",omitempty"` // the limit in nanoseconds, or a count
	Number   float64 `json:",omitempty"` // the limit of a share, 0 to 1, or of a metric in its own unit
	Trials   bool    `json:",omitempty"` // it bounds a set of values: the worst of them, the least, or a quantile
	Quantile float64 `json:",omitempty"` // 0.95; 0 = of none
	Share    float64 `json:",omitempty"` // the limit is this share of what lock Of had; 0 = it stands in the file
	Of       string  `json:",omitempty"`
	MinJobs  int     `json:",omitempty"` // fewer finished jobs than this leave it unanswered
}

// Figure names what is measured, whatever is asked of it: takeover, lock_debt.max, overlap.belief.
func (l *Limit) Figure() string { return dotted(l.Measure, l.Part) }

// Name is the row's measure in verdict.json: takeover.p95, held[batch].max, lock_debt.total, metric.errors.delta.
func (l *Limit) Name() string {
	name := dotted(l.Measure, l.Subject)
	if l.Class != "" {
		name += "[" + l.Class + "]"
	}
	if name = dotted(name, l.Part); !l.Trials {
		return name
	}
	return name + "." + l.Bound()
}

func dotted(name, part string) string {
	if part == "" {
		return name
	}
	return name + "." + part
}

// Bound names what of a set of values is bounded: max, p95, min, exactly. Against another lock it is the worst of both, max.
func (l *Limit) Bound() string {
	switch {
	case l.Quantile > 0:
		return fmt.Sprintf("p%g", l.Quantile*100)
	case l.Share == 0 && l.Side == SideLeast:
		return "min"
	case l.Share == 0 && l.Side == SideExact:
		return "exactly"
	}
	return "max"
}

// LiveOnly reports a question that only a live run can answer: in virtual time nobody serves metrics or writes logs, and 0 would be no answer.
func (l *Limit) LiveOnly() bool { return l.Subject != "" }

// Limits are the questions of a promise, in the order of its rows.
func (s *SLO) Limits() []Limit {
	if s.Alert != nil {
		return s.alertLimits()
	}
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && !f.IsNil() {
			return Limit{SLO: s, Lock: s.Lock, Measure: vocab.FieldName(v.Type().Field(i))}.under(f.Elem())
		}
	}
	return nil
}

// alertLimits ask when an alert fires and when it goes away, or that none fires.
func (s *SLO) alertLimits() []Limit {
	of := Limit{SLO: s, Lock: s.Lock, Measure: "alert", Subject: s.alertName()}
	if s.Silent {
		of.Part = "fired"
		return []Limit{of}
	}
	fires, ends := of, of
	fires.Part, fires.At = "fires", int64(s.Within)
	ends.Part, ends.At = "goes_away", int64(s.ResolvesWithin)
	return []Limit{fires, ends}
}

// alertName is the alert, or the expression for its name, with the labels that are asked for.
func (s *SLO) alertName() string {
	var labels []string
	for _, l := range slices.Sorted(maps.Keys(s.Labels)) {
		labels = append(labels, l+"="+s.Labels[l])
	}
	if len(labels) == 0 {
		return *s.Alert
	}
	return *s.Alert + "{" + strings.Join(labels, ",") + "}"
}

// under are the questions of the limits of a measure, or of one of its parts.
func (l Limit) under(limits reflect.Value) (all []Limit) {
	switch of := limits.Addr().Interface().(type) {
	case *Bound[int]:
		return sidesOf(l, of)
	case *Bound[float64]:
		return sidesOf(l, of)
	case *Bound[time.Duration]:
		return sidesOf(l, of)
	case *CountLimit:
		l.MinJobs = of.MinJobs
		return sidesOf(l, &of.Bound)
	case *OverlapLimit:
		if l.Part = of.Level; of.Level == "effect" {
			return sidesOf(l, &of.Count)
		}
		return sidesOf(l, &of.Time)
	case *ClassLimits:
		l.Class = of.Class
		return l.trials(&of.DurationLimits)
	case *DurationLimits:
		return l.trials(of)
	case *LogLimit:
		l.Subject = of.Pattern
		return sidesOf(l, &of.Bound)
	case *MetricLimit:
		l.Subject = of.Name
		word, bound := of.Limit()
		l.Part = word
		return sidesOf(l, bound)
	}
	for i := range limits.NumField() { // parts, each with limits of its own
		if f := limits.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			part := l
			part.Part = vocab.FieldName(limits.Type().Field(i))
			all = append(all, part.under(f.Elem())...)
		}
	}
	return all
}

// trials are the questions about a set of values: its worst, its quantiles, and what else its bounds ask.
func (l Limit) trials(d *DurationLimits) (all []Limit) {
	l.Trials = true
	rest := sidesOf(l, &d.Bound)
	if d.Max != nil {
		all, rest = rest[:1:1], rest[1:]
	}
	for _, q := range []struct {
		p     float64
		limit *time.Duration
	}{{0.5, d.P50}, {0.9, d.P90}, {0.95, d.P95}, {0.99, d.P99}} {
		if q.limit != nil {
			of := l
			of.Quantile, of.At = q.p, int64(*q.limit)
			all = append(all, of)
		}
	}
	return append(all, rest...)
}

// sidesOf are the questions of one bound.
func sidesOf[T int | float64 | time.Duration](l Limit, b *Bound[T]) (all []Limit) {
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
		all = append(all, of)
	}
	return all
}

// Rows are the questions of all promises, in the order of their rows.
func (e *Experiment) Rows() []Limit { return limitsOf(e.SLOs) }

// Expectations are the questions of what faults must bring about, likewise.
func (e *Experiment) Expectations() []Limit { return limitsOf(e.Expect) }

func limitsOf(slos []SLO) (all []Limit) {
	for i := range slos {
		all = append(all, slos[i].Limits()...)
	}
	return slices.Clip(all)
}
