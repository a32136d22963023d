package facts

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Names of the probes in coverage events.
const (
	probeKeys   = experiments.ProbeKeys
	ProbeLedger = "ledger"
	probeLeases = experiments.ProbeLeases
	ProbeLogs   = "logs"
)

// Coverage is how well a probe watched.
type Coverage struct {
	windows []window // in which it watched, as they were recorded
	Gaps    []history.Span
	failed  []failedLooks
	Partial []failedLooks  // gaps in which answers came, and said that they lack something
	Lost    []history.Span // gaps in which something was there to be seen and is gone, however short they are
	samples int64
	largest int64
	Read    int64 // when the last good look was sent, at the earliest
	Final   *history.Span
	cost    *verdict.WatchCost // nil = it does not say
}

// failedLooks is a gap in which looks failed, and why. (The event itself shares its memory with the next one.)
type failedLooks struct {
	history.Span
	Why string
}

// costOf is what a probe says that it cost, as shares of a core.
func costOf(o *history.Observer) *verdict.WatchCost {
	c := &verdict.WatchCost{Way: o.Way, Why: o.Why, Commands: o.Commands, Events: o.Events}
	if o.Server > 0 && o.Window > 0 {
		ours, all := float64(o.Ours)/float64(o.Window), float64(o.Server)/float64(o.Window)
		c.Core, c.Store = &ours, &all
	}
	return c
}

// probeOf is what a probe watched, to be added to.
func (ix *Facts) probeOf(name string) *Coverage {
	c := ix.Probes[name]
	if c == nil {
		c = &Coverage{}
		ix.Probes[name] = c
	}
	return c
}

func (ix *Facts) Watch(ev *history.Event) {
	if ev.Coverage.Probe == history.ProbeMonitor {
		ix.monitored(ev)
		return
	}
	c := ix.probeOf(ev.Coverage.Probe)
	if ev.Kind == history.GapKind && ev.Coverage.Partial {
		c.Partial = append(c.Partial, failedLooks{ev.Span, ev.Coverage.Why})
		return
	}
	if ev.Kind == history.GapKind {
		if c.Gaps = append(c.Gaps, ev.Span); ev.Coverage.Lost {
			c.Lost = append(c.Lost, ev.Span)
		}
		if ev.Coverage.Failed {
			c.failed = append(c.failed, failedLooks{ev.Span, ev.Coverage.Why})
		}
		c.largest = max(c.largest, ev.Width())
		return
	}
	sent := ev.From // of a single look
	if ev.Coverage.Largest > 0 {
		sent = max(sent, ev.To-ev.Coverage.Largest)
	}
	c.Read = max(c.Read, sent)
	c.windows = append(c.windows, window{ev.Span, ev.Coverage.Largest, ev.N})
	c.samples += ev.Coverage.Samples
	c.largest = max(c.largest, ev.Coverage.Largest)
	if ev.Coverage.Final {
		span := ev.Span
		c.Final = &span
		if ev.Coverage.Observer != nil {
			c.cost = costOf(ev.Coverage.Observer)
		}
	}
}

// monitored adds a window of MONITOR.
func (ix *Facts) monitored(ev *history.Event) {
	if ix.Monitor == nil {
		ix.Monitor = &verdict.MonitorCost{}
	}
	m := ix.Monitor
	m.Windows++
	m.Seconds += float64(ev.Width()) / 1e9
	m.Commands += ev.Coverage.Samples
	if o := ev.Coverage.Observer; o != nil {
		m.Server += float64(o.Server) / 1e9
	}
}

// MaxGap is the longest stretch without a look that the experiment tolerates of the probe.
func (ix *Facts) MaxGap(probe string) int64 {
	p := &ix.Exp.Probes
	switch i := ix.sourceOf(probe); {
	case probe == probeKeys:
		return int64(p.LockKeys.MaxGap)
	case probe == probeLeases:
		return int64(p.Leases.MaxGap)
	case probe == ProbeLogs && p.Logs != nil:
		return int64(p.Logs.MaxGap)
	case i >= 0:
		return int64(ix.Exp.System.Effects[i].MaxGap)
	}
	if l := ix.believedIn(probe); l >= 0 {
		return int64(ix.Exp.System.Locks[l].Belief.MaxGap)
	}
	return int64(p.Ledger.MaxGap)
}

// GapField is where the experiment says MaxGap.
func (ix *Facts) GapField(probe string) string {
	if i := ix.sourceOf(probe); i >= 0 {
		return fmt.Sprintf("system.effects[%d].max_gap", i)
	}
	if l := ix.believedIn(probe); l >= 0 {
		return fmt.Sprintf("system.locks[%d].belief.max_gap", l)
	}
	return "probes." + probe + ".max_gap"
}

// sourceOf is the place of the source of effects that the probe reads; -1 where it reads none.
func (ix *Facts) sourceOf(probe string) int {
	return slices.IndexFunc(ix.Exp.System.Effects, func(x experiments.Effects) bool { return probe == x.Probe() })
}

// believedIn is the place of the lock whose belief the probe reads; -1 where it reads none.
func (ix *Facts) believedIn(probe string) int {
	return slices.IndexFunc(ix.Exp.System.Locks, func(l experiments.Lock) bool { return l.Belief != nil && probe == history.BeliefProbe(l.Name) })
}

// Since is when the probe began to watch.
func (c *Coverage) Since() int64 {
	if len(c.windows) == 0 {
		return Open
	}
	return c.windows[0].From
}

// NeverLooked reports a probe none of whose looks came to anything, and of which one says why: what it did not see may have been there.
func (c *Coverage) NeverLooked() bool { return c != nil && c.samples == 0 && len(c.failed) > 0 }

// Failure is why looks failed in g; "" = none did, they only came late.
func (c *Coverage) Failure(g history.Span) string {
	if c == nil {
		return ""
	}
	for _, f := range c.failed {
		if f.From < g.To && f.To > g.From {
			return f.Why
		}
	}
	return ""
}

// Blind finds the first stretch above tolerate within w in which the probe surely did not watch.
func (c *Coverage) Blind(w history.Span, tolerate int64) (history.Span, bool) {
	all := c.Blinds(w, tolerate)
	if len(all) == 0 {
		return history.Span{}, false
	}
	return all[0], true
}

// Blinds lists the stretches above tolerate within w in which the probe surely did not watch. Silence is a gap too: what no coverage
// event vouches for was not watched.
func (c *Coverage) Blinds(w history.Span, tolerate int64) []history.Span {
	if c == nil {
		return []history.Span{w}
	}
	out := only(c.Gaps, func(g history.Span) bool { return g.Width() > tolerate && g.From < w.To && g.To > w.From })
	good := slices.Clone(c.windows)
	slices.SortFunc(good, func(a, b window) int { return cmp.Compare(a.From, b.From) })
	at := w.From
	for _, s := range good {
		if s.From > w.To {
			break
		}
		if s.From-at > tolerate && s.To >= at {
			out = append(out, history.Span{From: at, To: s.From})
		}
		at = max(at, s.To)
	}
	if w.To-at > tolerate {
		out = append(out, history.Span{From: at, To: w.To})
	}
	return out
}

// watched is until when absence is attested, looking from t on: the start of the final read, else the first stretch that
// the probe did not watch, else its last look.
func (ix *Facts) watched(probe string, t int64) int64 {
	c := ix.Probes[probe]
	if c == nil {
		return t
	}
	if IsLedger(probe) { // entries stay: whatever was written before the final read is in it
		if at, ok := ix.FinalAt(); ok {
			return max(t, at)
		}
	}
	until := max(t, c.Read)
	if g, blind := c.Blind(history.Span{From: t, To: until}, ix.MaxGap(probe)); blind && !IsLedger(probe) {
		return max(t, g.From)
	}
	return until
}

// Summaries of the probes, in a fixed order.
func (ix *Facts) Summaries() []verdict.ProbeSummary {
	out := []verdict.ProbeSummary{}
	watched := []string{probeKeys, ProbeLedger}
	if ix.Exp.Observed() {
		watched = ix.witnesses()
	}
	if ix.Exp.Probes.Logs != nil {
		watched = append(watched, ProbeLogs)
	}
	for _, id := range watched {
		p := verdict.ProbeSummary{ID: id}
		if c := ix.Probes[id]; c != nil {
			p.Samples, p.Cost = c.samples, c.cost
			if c.samples > 0 || len(c.Gaps) > 0 {
				s := Seconds(c.largest)
				p.LargestGap = &s
			}
			for _, f := range c.failed {
				p.Failed, p.Why = p.Failed+1, f.Why
			}
			for _, g := range c.Gaps {
				if g.Width() > ix.MaxGap(id) {
					p.Gaps++
				}
			}
		}
		out = append(out, p)
	}
	return out
}
