package reports

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Plan writes what a run would do. It never says how it would come out. Of o only Width and Color count.
func Plan(w io.Writer, pl *forecast.Plan, o Options) error {
	p := newPage(o)
	p.line(p.paint(bold, "PLAN") + "  " + pl.Experiment + scaleNote(pl.TimeScale))
	p.flow(2, 2, "This is what a run would do. Nothing was touched, and the result is not predicted.")
	p.part("TIMELINE, from the steady state on, in the times of the file")
	for i := range pl.Timeline {
		p.planned(&pl.Timeline[i])
	}
	p.plannedOverlaps(pl)
	if pl.LockCalls == history.CallsSingle {
		p.part("LOCK OPERATIONS")
		p.flow(2, 2, "Each operation is sent by itself: a proxy makes single ones fail, or the store takes no batches. Other drills on Redis send them in batches. "+
			"Waiters with backoff wake do not stand in line here.")
	}
	p.guards(pl)
	p.plannedPods(pl.Pods)
	p.plannedReplicas(pl.Replicas)
	p.plannedHolders(pl.Holders)
	p.plannedEffects(pl.Effects)
	p.plannedSignals(pl.Signals)
	p.sums(pl)
	p.lockSums(pl.LockSums)
	p.quantiles(pl)
	p.plannedExpectations(pl)
	p.duration(pl)
	return p.to(w, "plan")
}

func scaleNote(scale float64) string {
	if scale == 1 {
		return ""
	}
	return fmt.Sprintf("  time scale %g: 1s of the file takes %s", scale, secs(scale))
}

// secs is a number of seconds as a person writes it.
func secs(s float64) string { return exact(s, verdict.UnitSeconds) }

// about is secs of an estimate.
func about(s float64) string {
	if s > 1 {
		s = math.Round(s*10) / 10
	}
	return secs(s)
}

// planned is one fault of the timeline.
func (p *page) planned(f *forecast.PlannedFault) {
	what := []string{f.Kind}
	for _, s := range []string{f.Form, f.Timing, f.Configured} {
		if s != "" && !strings.Contains(f.Configured, s) || s == f.Configured && s != "" {
			what = append(what, s)
		}
	}
	if f.For > 0 {
		what = append(what, "for "+secs(f.For))
	}
	switch {
	case f.Likely > 0:
		what = append(what, fmt.Sprintf("until answered: %d shots if none misses, %d at most, each when the last has settled", f.Likely, f.Shots))
	case f.Shots > 1 && f.Every > 0:
		what = append(what, fmt.Sprintf("%d shots, one every %s", f.Shots, secs(f.Every)))
	case f.Shots > 1:
		what = append(what, fmt.Sprintf("%d shots, each when the last has settled", f.Shots))
	}
	p.flow(2, 4, fmt.Sprintf("at %s  %s  %s", secs(f.At), p.paint(bold, f.ID), strings.Join(what, ", ")))
	p.item("  strikes", f.Whom)
	for i, now := range f.Now {
		label := "  now"
		if i > 0 {
			label = ""
		}
		p.item(label, now)
	}
	p.item("  does", f.Does)
	p.item("  confirmed", f.Confirmed)
	p.item("  undone", f.Undone)
}

func (p *page) plannedOverlaps(pl *forecast.Plan) {
	if len(pl.Overlaps) == 0 {
		return
	}
	p.part("MAY BE IN EFFECT TOGETHER")
	for _, pair := range pl.Overlaps {
		p.flow(2, 4, pair[0]+" and "+pair[1])
	}
}

func (p *page) guards(pl *forecast.Plan) {
	p.part("GUARDS")
	for _, g := range pl.Guards {
		says := g.Says
		if g.Refuses {
			says = p.paint(red, "REFUSES") + "  " + says
		}
		p.item(g.Name, says)
		for line := range strings.Lines(g.Paste) {
			p.line("    " + strings.TrimRight(line, "\n"))
		}
	}
	c := pl.Caps
	caps := []string{"no kills"}
	if c.MaxKills > 0 {
		caps[0] = "at most " + figures.Plural(c.MaxKills, "kill")
	}
	if c.MaxTargets > 0 {
		caps = append(caps, "at most "+figures.Plural(c.MaxTargets, "replica")+" by other faults")
	}
	p.item("caps", strings.Join(append(caps, "at most "+secs(pl.Duration.MaxRun)+" in all"), ", "))
}

// plannedPods are the pods as they stand: whom a fault strikes among them is resolved when it is fired.
func (p *page) plannedPods(pods []forecast.PlannedPod) {
	if len(pods) == 0 {
		return
	}
	p.part("PODS, as they stand now")
	for _, pod := range pods {
		state := pod.Phase
		if pod.Ready {
			state += ", ready"
		}
		node := "on no node yet"
		if pod.Node != "" {
			node = "on node " + pod.Node
		}
		p.flow(2, 4, fmt.Sprintf("%s  uid %s  %s  %s", p.paint(bold, pod.Name), pod.UID, state, node))
	}
}

// plannedReplicas are the processes as they stand.
func (p *page) plannedReplicas(replicas []forecast.PlannedReplica) {
	if len(replicas) == 0 {
		return
	}
	p.part("REPLICAS, as they stand now")
	for _, r := range replicas {
		p.flow(2, 4, fmt.Sprintf("%s  process %d  since %s", p.paint(bold, cmp.Or(r.Name, "(no name)")), r.PID, r.Since))
	}
}

// plannedHolders are who holds which key.
func (p *page) plannedHolders(all []forecast.PlannedHolder) {
	if len(all) == 0 {
		return
	}
	p.part("HOLDERS, as their sources say now")
	for _, h := range all {
		who := p.paint(yellow, "not known")
		if h.By != "" {
			who = p.paint(bold, h.Name)
			if h.PID != 0 {
				who += fmt.Sprintf(" (process %d)", h.PID)
			}
		}
		p.flow(2, 4, fmt.Sprintf("%s  key %s: %s", h.Lock, h.Key, who))
		if h.Why != "" {
			p.flow(4, 6, h.Why)
		}
		for _, text := range h.Says {
			p.flow(4, 6, text)
		}
	}
}

// plannedEffects are the last effects of each source.
func (p *page) plannedEffects(all []forecast.PlannedEffects) {
	if len(all) == 0 {
		return
	}
	p.part("EFFECTS, the last ones that are there now")
	for _, x := range all {
		p.flow(2, 4, fmt.Sprintf("%s  under lock %s, from the %s", p.paint(bold, x.Name), x.Lock, x.Source))
		for _, text := range x.Last {
			p.flow(4, 6, text)
		}
		if x.Why != "" {
			p.flow(4, 6, x.Why)
		}
	}
}

// plannedSignals are the first samples of each signal.
func (p *page) plannedSignals(all []forecast.PlannedSignal) {
	if len(all) == 0 {
		return
	}
	p.part("SIGNALS, as they stand now")
	for _, s := range all {
		p.flow(2, 4, fmt.Sprintf("%s  %s", p.paint(bold, s.Name), s.Source))
		for _, text := range s.First {
			p.flow(4, 6, text)
		}
		if s.Why != "" {
			p.flow(4, 6, s.Why)
		}
	}
}

func (p *page) sums(pl *forecast.Plan) {
	if len(pl.Sums) == 0 {
		return
	}
	p.part("CHECKS, in the numbers of the file (lockdrill explain L1 ... L11)")
	for _, l := range pl.Sums {
		word := "ok  "
		if !l.OK {
			word = p.paint(yellow, "WARN")
		}
		p.flow(2, 12, fmt.Sprintf("%s  %s  %s: %s", l.Rule, word, cmp.Or(l.Lock, "the run"), l.Text))
		if l.Means != "" {
			p.flow(12, 12, l.Means)
		}
	}
}

func (p *page) quantiles(pl *forecast.Plan) {
	if len(pl.Quantiles) == 0 {
		return
	}
	p.part("TRIALS that a promised percentile needs")
	for _, q := range pl.Quantiles {
		text := fmt.Sprintf("%s %s %s needs %d independent trials if none misses; the file declares %d", q.Measure, q.Quantile, secs(q.Limit), q.Need, q.Declared)
		if q.NeedOne > 0 {
			text = fmt.Sprintf("%s %s %s is looked at after each trial: it needs %d if none misses, %d if one does; the file allows %d", q.Measure, q.Quantile, secs(q.Limit), q.Need, q.NeedOne, q.Declared)
		}
		if q.Declared < q.Need {
			text += ", so it stays inconclusive whatever is measured"
		}
		p.item(q.Lock, text)
	}
}

// plannedExpectations says whether a few rehearsals provoked what the faults are for.
func (p *page) plannedExpectations(pl *forecast.Plan) {
	if len(pl.Expected) == 0 {
		return
	}
	p.part(fmt.Sprintf("EXPECTED of the faults, in %s", figures.Plural(pl.Rehearsed, "simulated run")))
	for i := range pl.Expected {
		x := &pl.Expected[i]
		text := fmt.Sprintf("%s provokes %s: ", x.Fault, rehearsedAsk(x))
		switch x.Missed {
		case 0:
			text += "in all of them"
		case pl.Rehearsed:
			text += p.paint(yellow, "in none of them") + ". " + x.Why
		default:
			text += fmt.Sprintf("not in %d of them. Seed %d: %s", x.Missed, x.Seed, x.Why)
		}
		p.item(x.Lock, text)
	}
}

func (p *page) duration(pl *forecast.Plan) {
	d := pl.Duration
	p.part("DURATION, in real time")
	parts := []string{"steady state " + secs(d.SteadyState), "faults about " + about(d.Faults), "then " + about(d.Horizon) + " of waiting for late violations"}
	text := "about " + about(d.Expected) + ": " + strings.Join(parts, ", ")
	if d.Jobs > 0 {
		text += "; at least the " + about(d.Jobs) + " that the jobs take"
	}
	p.item("expected", text)
	over := ""
	if d.Expected > d.MaxRun {
		over = ": the run would probably be aborted before its end (L10)"
	}
	p.item("max_run", secs(d.MaxRun)+over)
	if slices.ContainsFunc(pl.Timeline, func(f forecast.PlannedFault) bool { return f.Shots > 1 }) {
		p.item("", "void shots are repeated, up to twice the declared count")
	}
}
