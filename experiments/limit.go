package experiments

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
func (s *SLO) Limits() (all []Limit) {
	if s.Alert != nil {
		return s.alertLimits()
	}
	for _, f := range s.figures() {
		all = append(all, f.limits...)
	}
	return all
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
