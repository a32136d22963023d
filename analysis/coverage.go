package analysis

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// Names of the probes in coverage events.
const (
	probeKeys   = "lock_keys"
	probeLedger = "ledger"
	probeLeases = "leases"
	probeLogs   = "logs"
)

// coverage is how well a probe watched.
type coverage struct {
	good    []history.Span
	windows []window // good, as they were recorded
	gaps    []history.Span
	failed  []*history.Event // gaps in which looks failed
	lost    []history.Span   // gaps in which something was there to be seen and is gone, however short they are
	samples int64
	largest int64
	read    int64 // when the last good look was sent, at the earliest
	final   *history.Span
	finalN  int64
	cost    *verdict.WatchCost // nil = it does not say
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

func (ix *Facts) watch(ev *history.Event) {
	if ev.Coverage.Probe == history.ProbeMonitor {
		ix.monitored(ev)
		return
	}
	c := ix.probes[ev.Coverage.Probe]
	if c == nil {
		c = &coverage{}
		ix.probes[ev.Coverage.Probe] = c
	}
	if ev.Kind == history.GapKind {
		if c.gaps = append(c.gaps, ev.Span); ev.Coverage.Lost {
			c.lost = append(c.lost, ev.Span)
		}
		if ev.Coverage.Failed {
			c.failed = append(c.failed, ev)
		}
		c.largest = max(c.largest, ev.Width())
		return
	}
	c.good = append(c.good, ev.Span)
	sent := ev.From // of a single look
	if ev.Coverage.Largest > 0 {
		sent = max(sent, ev.To-ev.Coverage.Largest)
	}
	c.read = max(c.read, sent)
	c.windows = append(c.windows, window{ev.Span, ev.Coverage.Largest, ev.N})
	c.samples += ev.Coverage.Samples
	c.largest = max(c.largest, ev.Coverage.Largest)
	if ev.Coverage.Final {
		span := ev.Span
		c.final, c.finalN = &span, ev.N
		if ev.Coverage.Observer != nil {
			c.cost = costOf(ev.Coverage.Observer)
		}
	}
}

// monitored adds a window of MONITOR.
func (ix *Facts) monitored(ev *history.Event) {
	if ix.monitor == nil {
		ix.monitor = &verdict.MonitorCost{}
	}
	m := ix.monitor
	m.Windows++
	m.Seconds += float64(ev.Width()) / 1e9
	m.Commands += ev.Coverage.Samples
	if o := ev.Coverage.Observer; o != nil {
		m.Server += float64(o.Server) / 1e9
	}
}

// maxGap is the longest stretch without a look that the experiment tolerates of the probe.
func (ix *Facts) maxGap(probe string) int64 {
	switch {
	case probe == probeKeys:
		return int64(ix.exp.Probes.LockKeys.MaxGap)
	case probe == probeLeases:
		return int64(ix.exp.Probes.Leases.MaxGap)
	case probe == probeLogs && ix.exp.Probes.Logs != nil:
		return int64(ix.exp.Probes.Logs.MaxGap)
	}
	for i := range ix.exp.System.Effects {
		if x := &ix.exp.System.Effects[i]; probe == x.Probe() {
			return int64(x.MaxGap)
		}
	}
	return int64(ix.exp.Probes.Ledger.MaxGap)
}

// failure is why looks failed in g; "" = none did, they only came late.
func (c *coverage) failure(g history.Span) string {
	if c == nil {
		return ""
	}
	for _, ev := range c.failed {
		if ev.From < g.To && ev.To > g.From {
			return ev.Coverage.Why
		}
	}
	return ""
}

// blind finds the first stretch above tolerate within w in which the probe surely did not watch.
func (c *coverage) blind(w history.Span, tolerate int64) (history.Span, bool) {
	all := c.blinds(w, tolerate)
	if len(all) == 0 {
		return history.Span{}, false
	}
	return all[0], true
}

// blinds lists the stretches above tolerate within w in which the probe surely did not watch. Silence is a gap too: what no coverage
// event vouches for was not watched.
func (c *coverage) blinds(w history.Span, tolerate int64) []history.Span {
	if c == nil {
		return []history.Span{w}
	}
	var out []history.Span
	for _, g := range c.gaps {
		if g.Width() > tolerate && g.From < w.To && g.To > w.From {
			out = append(out, g)
		}
	}
	good := slices.Clone(c.good)
	slices.SortFunc(good, func(a, b history.Span) int { return cmp.Compare(a.From, b.From) })
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
	c := ix.probes[probe]
	if c == nil {
		return t
	}
	if isLedger(probe) { // entries stay: whatever was written before the final read is in it
		if at, ok := ix.finalAt(); ok {
			return max(t, at)
		}
	}
	until := max(t, c.read)
	if g, blind := c.blind(history.Span{From: t, To: until}, ix.maxGap(probe)); blind && !isLedger(probe) {
		return max(t, g.From)
	}
	return until
}

// summaries of the probes, in a fixed order.
func (ix *Facts) summaries() []verdict.ProbeSummary {
	out := []verdict.ProbeSummary{}
	watched := []string{probeKeys, probeLedger}
	if ix.exp.Observed() {
		watched = ix.witnesses()
	}
	if ix.exp.Probes.Logs != nil {
		watched = append(watched, probeLogs)
	}
	for _, id := range watched {
		p := verdict.ProbeSummary{ID: id}
		if c := ix.probes[id]; c != nil {
			p.Samples, p.Cost = c.samples, c.cost
			if c.samples > 0 || len(c.gaps) > 0 {
				s := seconds(c.largest)
				p.LargestGap = &s
			}
			for _, g := range c.gaps {
				if g.Width() > ix.maxGap(id) {
					p.Gaps++
				}
			}
		}
		out = append(out, p)
	}
	return out
}
