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

// Try drills with the dial at v. An error ends the sweep.
type Try func(ctx context.Context, v float64) (verdict.SweepStep, error)

// Find climbs the range in that many steps until one does not hold, then tries as many values as finer says between the last that held
// and the first that did not. A step that is undecided does not end the climb: nothing is known there, and what lies above may be.
func (r Range) Find(ctx context.Context, steps, finer int, try Try) (*verdict.Sweep, error) {
	s := &verdict.Sweep{SchemaVersion: verdict.SweepVersion, Dial: r.Dial, Lock: r.Lock, From: r.From, To: r.To, Steps: []verdict.SweepStep{}}
	for _, v := range r.steps(steps) {
		step, err := r.step(ctx, s, v, try)
		if err != nil {
			return s, err
		}
		if step.Outcome == verdict.Broken || step.Outcome == verdict.Machine {
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

func (r Range) step(ctx context.Context, s *verdict.Sweep, v float64, try Try) (verdict.SweepStep, error) {
	step, err := try(ctx, v)
	if err != nil {
		return step, err
	}
	step.Value = v
	if step.Rows == nil {
		step.Rows = []verdict.SweepRow{}
	}
	s.Steps = append(s.Steps, step)
	slices.SortFunc(s.Steps, func(a, b verdict.SweepStep) int { return cmp.Compare(a.Value, b.Value) })
	return step, nil
}

// conclude fixes the ceiling: below the lowest value at which a promise or the machine broke, the highest at which all held. Where
// nothing broke, but the highest values are undecided, these are where knowledge ends.
func (r Range) conclude(s *verdict.Sweep) {
	s.Holds, s.Breaks, s.By = nil, nil, ""
	for i := range s.Steps {
		step := &s.Steps[i]
		switch step.Outcome {
		case verdict.Held:
			if s.By == verdict.Undecided {
				s.Breaks, s.By = nil, ""
			}
			s.Holds = &step.Value
		case verdict.Undecided:
			if s.By == "" {
				s.Breaks, s.By = &step.Value, verdict.Undecided
			}
		default:
			s.Breaks, s.By = &step.Value, step.Outcome
			return
		}
	}
}

// between is the next value to try; ok is false where the two ends are as near as the dial can be set, or nothing is to be told apart.
func (r Range) between(s *verdict.Sweep) (v float64, ok bool) {
	if s.Holds == nil || s.Breaks == nil || s.By == verdict.Undecided {
		return 0, false
	}
	v = r.tidy(math.Sqrt(*s.Holds * *s.Breaks))
	known := slices.ContainsFunc(s.Steps, func(x verdict.SweepStep) bool { return x.Value == v })
	return v, !known && v > *s.Holds && v < *s.Breaks
}

// Judged is a step that was drilled live. What the machine was too slow to see is told apart from what the lock did: a broken promise is
// one whatever else was missing.
func Judged(j *verdict.Judgement) verdict.SweepStep {
	step := verdict.SweepStep{Outcome: verdict.Held, Rows: []verdict.SweepRow{}}
	worsen := func(o verdict.Outcome, why string) {
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
		row := verdict.SweepRow{Lock: s.Lock, Measure: s.Measure, Unit: s.Unit, Ask: s.Ask, Limit: s.Limit, Lo: &lo, Hi: s.Hi, Verdict: s.Verdict}
		if s.N == 0 && s.Hi == nil {
			row.Lo = nil
		}
		step.Rows = append(step.Rows, row)
		switch s.Verdict {
		case verdict.Fail:
			worsen(verdict.Broken, fmt.Sprintf("%s %s: %s", s.Lock, s.Measure, s.Why))
		case verdict.Inconclusive:
			o := verdict.Undecided
			for _, m := range s.Missing {
				if outcomeOf(m) == verdict.Machine {
					o = verdict.Machine
				}
			}
			worsen(o, fmt.Sprintf("%s %s: %s", s.Lock, s.Measure, s.Why))
		}
	}
	if j.Run.Status != verdict.StatusCompleted {
		worsen(verdict.Undecided, "the run is "+j.Run.Status)
	}
	return step
}

func outcomeOf(m verdict.Missing) verdict.Outcome {
	if m.Code.OfMachine() {
		return verdict.Machine
	}
	return verdict.Undecided
}

func rank(o verdict.Outcome) int {
	return slices.Index([]verdict.Outcome{verdict.Held, verdict.Undecided, verdict.Machine, verdict.Broken}, o)
}

// Rehearsed is a step that was rehearsed with many seeds: broken where a larger share of them than failAbove surely broke a promise.
func Rehearsed(r *forecast.Rehearsal, failAbove float64) verdict.SweepStep {
	step := verdict.SweepStep{Outcome: verdict.Held, Rows: []verdict.SweepRow{}}
	for _, row := range r.Rows {
		out := verdict.SweepRow{Lock: row.Lock, Measure: row.Measure, Unit: row.Unit, Ask: row.Ask, Limit: row.Limit, Lo: row.Min, Hi: row.Max, Verdict: verdict.Pass}
		switch {
		case row.Breach > failAbove:
			out.Verdict = verdict.Fail
			if step.Outcome != verdict.Broken {
				step.Outcome, step.Why = verdict.Broken, fmt.Sprintf("%s %s: broken in %.3g%% of %d seeds", row.Lock, row.Measure, 100*row.Breach, r.Seeds)
			}
		case row.Seeds < r.Seeds:
			out.Verdict = verdict.Inconclusive
			if step.Outcome == verdict.Held {
				step.Outcome, step.Why = verdict.Undecided, fmt.Sprintf("%s %s: measured in %d of %d seeds", row.Lock, row.Measure, row.Seeds, r.Seeds)
			}
		}
		step.Rows = append(step.Rows, out)
	}
	return step
}
