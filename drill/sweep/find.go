package sweep

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Version is the schema version of the document.
const Version = 1

// Outcome is what one step of a sweep came to.
type Outcome string

const (
	Held      Outcome = "held"      // every promise was kept
	Broken    Outcome = "broken"    // a promise was surely broken
	Machine   Outcome = "machine"   // the machine that drills was too slow to tell
	Undecided Outcome = "undecided" // neither: something else was missing
)

// Document is how far one dial of an experiment can be turned before a promise breaks, or before the machine does. Slices are never null.
type Document struct {
	SchemaVersion int     `json:"schemaVersion"`
	Experiment    string  `json:"experiment"`
	Dial          string  `json:"dial"` // rate (jobs a second), replicas, hold (the median, in seconds)
	Lock          string  `json:"lock"` // whose stream of jobs; "" for replicas
	Live          bool    `json:"live"` // false: rehearsed, which says nothing about a live system
	Seeds         int64   `json:"seeds,omitempty"`
	From          float64 `json:"from"`
	To            float64 `json:"to"`
	Steps         []Step  `json:"steps"` // by their values
	// The safe ceiling lies in [Holds, Breaks]. Holds is null where nothing held, Breaks where nothing below To failed to.
	Holds  *float64 `json:"holds"`
	Breaks *float64 `json:"breaks"`
	By     Outcome  `json:"by,omitempty"` // what happened at Breaks: broken, machine or undecided
}

// Step is the drill at one value of the dial.
type Step struct {
	Value   float64 `json:"value"`
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why"`           // of what did not hold
	Run     string  `json:"run,omitempty"` // live: the run's folder
	Rows    []Row   `json:"rows"`
}

// Row is one row of the SLOs at a step.
type Row struct {
	Lock    string          `json:"lock"`
	Measure string          `json:"measure"`
	Unit    string          `json:"unit"`
	Ask     verdict.Ask     `json:"ask,omitempty"`
	Limit   float64         `json:"limit"`
	Lo      *float64        `json:"lo"` // of what was measured; rehearsed: the least of all seeds; null = nothing was
	Hi      *float64        `json:"hi"` // likewise the most; null = its end was not seen
	Verdict verdict.Verdict `json:"verdict"`
}

// Try drills with the dial at v. An error ends the sweep.
type Try func(ctx context.Context, v float64) (Step, error)

// Find climbs the range in that many steps until one does not hold, then tries as many values as finer says between the last that held
// and the first that did not. A step that is undecided does not end the climb: nothing is known there, and what lies above may be.
func (r Range) Find(ctx context.Context, steps, finer int, try Try) (*Document, error) {
	s := &Document{SchemaVersion: Version, Dial: r.Dial, Lock: r.Lock, From: r.From, To: r.To, Steps: []Step{}}
	for _, v := range r.steps(steps) {
		step, err := r.step(ctx, s, v, try)
		if err != nil {
			return s, err
		}
		if step.Outcome == Broken || step.Outcome == Machine {
			break
		}
	}
	for range finer {
		r.conclude(s)
		v, ok := r.between(s)
		if !ok {
			break
		}
		if _, err := r.step(ctx, s, v, try); err != nil {
			return s, err
		}
	}
	r.conclude(s)
	return s, nil
}

func (r Range) step(ctx context.Context, s *Document, v float64, try Try) (Step, error) {
	step, err := try(ctx, v)
	if err != nil {
		return step, err
	}
	step.Value = v
	if step.Rows == nil {
		step.Rows = []Row{}
	}
	s.Steps = append(s.Steps, step)
	slices.SortFunc(s.Steps, func(a, b Step) int { return cmp.Compare(a.Value, b.Value) })
	return step, nil
}

// conclude fixes the ceiling: below the lowest value at which a promise or the machine broke, the highest at which all held. Where
// nothing broke, but the highest values are undecided, these are where knowledge ends.
func (r Range) conclude(s *Document) {
	s.Holds, s.Breaks, s.By = nil, nil, ""
	for i := range s.Steps {
		step := &s.Steps[i]
		switch step.Outcome {
		case Held:
			if s.By == Undecided {
				s.Breaks, s.By = nil, ""
			}
			s.Holds = &step.Value
		case Undecided:
			if s.By == "" {
				s.Breaks, s.By = &step.Value, Undecided
			}
		default:
			s.Breaks, s.By = &step.Value, step.Outcome
			return
		}
	}
}

// between is the next value to try; ok is false where the two ends are as near as the dial can be set, or nothing is to be told apart.
func (r Range) between(s *Document) (v float64, ok bool) {
	if s.Holds == nil || s.Breaks == nil || s.By == Undecided {
		return 0, false
	}
	v = r.tidy(math.Sqrt(*s.Holds * *s.Breaks))
	known := slices.ContainsFunc(s.Steps, func(x Step) bool { return x.Value == v })
	return v, !known && v > *s.Holds && v < *s.Breaks
}

// Judged is a step that was drilled live. What the machine was too slow to see is told apart from what the lock did: a broken promise is
// one whatever else was missing.
func Judged(j *verdict.Judgement) Step {
	step := Step{Outcome: Held, Rows: []Row{}}
	worsen := func(o Outcome, why string) {
		if rank(o) > rank(step.Outcome) {
			step.Outcome, step.Why = o, why
		}
	}
	for _, m := range j.Missing {
		worsen(outcomeOf(m), m.Why)
	}
	for i := range j.SLOs {
		s := &j.SLOs[i]
		lo := s.Lo
		row := Row{Lock: s.Lock, Measure: s.Measure, Unit: s.Unit, Ask: s.Ask, Limit: s.Limit, Lo: &lo, Hi: s.Hi, Verdict: s.Verdict}
		if s.N == 0 && s.Hi == nil {
			row.Lo = nil
		}
		step.Rows = append(step.Rows, row)
		switch s.Verdict {
		case verdict.Fail:
			worsen(Broken, fmt.Sprintf("%s %s: %s", s.Lock, s.Measure, s.Why))
		case verdict.Inconclusive:
			o := Undecided
			for _, m := range s.Missing {
				if outcomeOf(m) == Machine {
					o = Machine
				}
			}
			worsen(o, fmt.Sprintf("%s %s: %s", s.Lock, s.Measure, s.Why))
		}
	}
	if j.Run.Status != verdict.StatusCompleted {
		worsen(Undecided, "the run is "+j.Run.Status)
	}
	return step
}

func outcomeOf(m verdict.Missing) Outcome {
	if m.Code.OfMachine() {
		return Machine
	}
	return Undecided
}

func rank(o Outcome) int {
	return slices.Index([]Outcome{Held, Undecided, Machine, Broken}, o)
}

// Rehearsed is a step that was rehearsed with many seeds: broken where a larger share of them than failAbove surely broke a promise.
func Rehearsed(r *forecast.Rehearsal, failAbove float64) Step {
	step := Step{Outcome: Held, Rows: []Row{}}
	for _, row := range r.Rows {
		out := Row{Lock: row.Lock, Measure: row.Measure, Unit: row.Unit, Ask: row.Ask, Limit: row.Limit, Lo: row.Min, Hi: row.Max, Verdict: verdict.Pass}
		switch {
		case row.Breach > failAbove:
			out.Verdict = verdict.Fail
			if step.Outcome != Broken {
				step.Outcome, step.Why = Broken, fmt.Sprintf("%s %s: broken in %.0f of %d seeds", row.Lock, row.Measure, row.Breach*float64(r.Seeds), r.Seeds)
			}
		case row.Seeds < r.Seeds:
			out.Verdict = verdict.Inconclusive
			if step.Outcome == Held {
				step.Outcome, step.Why = Undecided, fmt.Sprintf("%s %s: measured in %d of %d seeds", row.Lock, row.Measure, row.Seeds, r.Seeds)
			}
		}
		step.Rows = append(step.Rows, out)
	}
	return step
}
