package rehearsal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/advicetest"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// verdicts judges the history once more as if it had been recorded live, against limits that it may meet or not: a Pass must be one by
// what happened and must have been reached, a Fail must be one by what happened.
func (c *comparison) verdicts(h *history.History, seed uint64) {
	live := *h
	live.Header.Mode = history.Live
	e := *c.e
	e.SLOs = slices.Concat(e.SLOs, limits(c.e, rand.New(rand.NewPCG(seed, 6))))
	j := analysis.NewJudger(&e).Judge(&live)
	idle, told := advicetest.Idle(&e, j)
	c.wrong = append(c.wrong, idle...)
	c.tried.count(countAdvice, told)
	for i := range j.SLOs {
		r := &j.SLOs[i]
		what := fmt.Sprintf("row %s of %s, limit %g, measured from %g", r.Measure, r.Lock, r.Limit, r.Lo)
		truth, known := c.truths[r.Lock][r.Measure]
		switch r.Verdict {
		case verdict.Pass:
			c.tried.count(countPassed, 1)
			if known && truth > r.Limit+rounding {
				c.wrong = append(c.wrong, fmt.Sprintf("%s: pass, and it was %g", what, truth))
			}
			if r.Measure == "takeover.max" && !c.tookAtMost(r.Lock, r.Limit) {
				c.wrong = append(c.wrong, what+": pass, and one took longer")
			}
			if why := c.unreached(&e, h, r); why != "" {
				c.wrong = append(c.wrong, fmt.Sprintf("%s: pass, and %s", what, why))
			}
		case verdict.Fail:
			c.tried.count(countFailed, 1)
			if known && truth <= r.Limit-rounding {
				c.wrong = append(c.wrong, fmt.Sprintf("%s: fail, and it was %g", what, truth))
			}
			if r.Measure == "takeover.max" && !c.tookMore(r.Lock, r.Limit) {
				c.wrong = append(c.wrong, what+": fail, and none took longer")
			}
		}
	}
}

// took is the longest takeover of one lock in one series, by what happened.
type took struct {
	least, most float64
	cut         bool // one was censored
}

// tookAtMost reports that no takeover of some series of the lock surely took longer.
func (c *comparison) tookAtMost(lock string, limit float64) bool {
	for _, t := range c.took[lock] {
		if !t.cut && t.least <= limit+rounding {
			return true
		}
	}
	return false
}

// tookMore reports that some takeover of the lock may have taken longer.
func (c *comparison) tookMore(lock string, limit float64) bool {
	for _, t := range c.took[lock] {
		if t.most > limit-rounding {
			return true
		}
	}
	return false
}

// noteTook keeps the true value of a trial for its series.
func (c *comparison) noteTook(k *verdict.Takeover, x int64, start history.Span) {
	if c.took[k.Lock] == nil {
		c.took[k.Lock] = map[string]took{}
	}
	t := c.took[k.Lock][k.Class]
	t.cut = t.cut || k.Censored
	if !k.Censored {
		t.least = max(t.least, seconds(x-start.To))
	}
	t.most = max(t.most, seconds(x-start.From))
	c.took[k.Lock][k.Class] = t
}

// limits asks of each lock what the truth knows.
func limits(e *experiments.Experiment, r *rand.Rand) []experiments.SLO {
	var out []experiments.SLO
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		most := func() *time.Duration { return new(between(r, 0, 2*l.Policy.TTL)) }
		for _, s := range []experiments.SLO{
			{Takeover: experiments.Within(between(r, 0, 6*l.Policy.TTL))},
			{Overlap: &experiments.OverlapLimit{Level: "belief", Time: *experiments.AtMost(*most())}},
			{Overlap: &experiments.OverlapLimit{Level: "work", Time: *experiments.AtMost(*most())}},
			{Overlap: &experiments.OverlapLimit{Level: "effect", Count: *experiments.AtMost(r.IntN(3))}},
			{UnownedWork: experiments.AtMost(*most())},
			{DuplicateTerminalStates: &experiments.CountLimit{Bound: *experiments.AtMost(r.IntN(3))}},
			{Abandonments: &experiments.CountLimit{Bound: *experiments.AtMost(r.IntN(6))}},
			{FenceRegressions: &experiments.CountLimit{Bound: *experiments.AtMost(0)}},
		} {
			s.Lock = l.Name
			out = append(out, s)
		}
	}
	return out
}

// unreached says what measurement.md asks of a Pass and the run did not have; "" = nothing. It goes by the events alone.
func (c *comparison) unreached(e *experiments.Experiment, h *history.History, r *verdict.SLOResult) string {
	for i := range e.Faults {
		f := &e.Faults[i]
		confirmed := 0
		for op, s := range c.shots {
			if strings.HasPrefix(op, f.ID+"#") && s.confirmed {
				confirmed++
			}
		}
		if want := max(1, f.Repeat.Count); confirmed < want {
			return fmt.Sprintf("%d of %d shots of %s were confirmed", confirmed, want, f.ID)
		}
	}
	if r.Measure == "takeover.max" {
		return ""
	}
	if end := c.lastFault() + int64(takeoverLimit(e, r.Lock)); c.final < end {
		return "the horizon was not reached"
	}
	if !slices.Contains([]string{"overlap.belief", "overlap.work", "unowned_work", "abandonment.missed", "abandonment.late"}, r.Measure) {
		return ""
	}
	for i := range h.Events {
		g := &h.Events[i]
		if g.Kind == history.GapKind && g.Coverage.Probe == "lock_keys" && g.Width() > int64(e.Probes.LockKeys.MaxGap) && c.owned(r.Lock, g.Span) {
			return "nobody looked at the keys for " + time.Duration(g.Width()).String()
		}
	}
	return ""
}

// lastFault is when the last fault surely was still to come, or had just been applied.
func (c *comparison) lastFault() (at int64) {
	for _, s := range c.shots {
		at = max(at, s.applied.From)
	}
	return at
}

func takeoverLimit(e *experiments.Experiment, lock string) (d time.Duration) {
	for i := range e.SLOs {
		if s := &e.SLOs[i]; s.Lock == lock && s.Takeover != nil {
			d = max(d, *s.Takeover.Max)
		}
	}
	return d
}

// owned reports that somebody had a key of the lock while s lasted, between the first fault and the final reads.
func (c *comparison) owned(lock string, s history.Span) bool {
	from, to := max(s.From, c.faults), min(s.To, c.final)
	for i := range c.t.Epochs {
		if e := &c.t.Epochs[i]; e.Lock == lock && e.Granted < to && e.Freed > from && from < to {
			return true
		}
	}
	return false
}
