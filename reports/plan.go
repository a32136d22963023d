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
	if len(pl.Timeline) == 0 {
		p.flow(2, 2, "The file has no fault: the promises are watched.")
	}
	parts(p, "MAY BE IN EFFECT TOGETHER", pl.Overlaps, func(pair [2]string) { p.flow(2, 4, pair[0]+" and "+pair[1]) })
	if pl.LockCalls == history.CallsSingle {
		p.part("LOCK OPERATIONS")
		p.flow(2, 2, "Each operation is sent by itself: a proxy makes single ones fail, or the store takes no batches. Other drills on Redis send them in batches. "+
			"Waiters with backoff wake do not stand in line here.")
	}
	p.guards(pl)
	parts(p, "PODS, as they stand now", pl.Pods, p.plannedPod) // whom a fault strikes among them is resolved when it is fired
	parts(p, "REPLICAS, as they stand now", pl.Replicas, func(r forecast.PlannedReplica) {
		p.flow(2, 4, fmt.Sprintf("%s  process %d  since %s", p.paint(bold, cmp.Or(r.Name, "(no name)")), r.PID, r.Since))
	})
	parts(p, "HOLDERS, as their sources say now", pl.Holders, p.plannedHolder)
	parts(p, "EFFECTS, the last ones that are there now", pl.Effects, func(x forecast.PlannedEffects) {
		p.flow(2, 4, fmt.Sprintf("%s  under lock %s, from the %s", p.paint(bold, x.Name), x.Lock, x.Source))
		p.below(append(x.Last, x.Why)...)
	})
	parts(p, "SIGNALS, as they stand now", pl.Signals, func(s forecast.PlannedSignal) {
		p.flow(2, 4, fmt.Sprintf("%s  %s", p.paint(bold, s.Name), s.Source))
		p.below(append(s.First, s.Why)...)
	})
	parts(p, "CHECKS, in the numbers of the file (lockdrill explain L1 ... L12)", pl.Sums, p.sum)
	p.lockSums(pl.LockSums, pl.Rehearsed)
	parts(p, "NOT AS THE REAL LOCK, which these policies cannot say", pl.Beyond, func(b forecast.PlannedBeyond) { p.flow(2, 4, strings.Join(b.Locks, ", ")+": "+b.What) })
	parts(p, "TRIALS that a promised percentile needs", pl.Quantiles, p.quantile)
	parts(p, fmt.Sprintf("EXPECTED of the faults, in %s", figures.Plural(pl.Rehearsed, "simulated run")), pl.Expected,
		func(x forecast.RehearsedExpectation) { p.expectation(&x, pl.Rehearsed) })
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
	begins := "at " + secs(f.At)
	if f.After != "" {
		begins = "after " + f.After
		if f.Delay > 0 {
			begins += " and " + secs(f.Delay)
		}
	}
	p.flow(2, 4, fmt.Sprintf("%s  %s  %s", begins, p.paint(bold, f.ID), strings.Join(what, ", ")))
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

// parts begins a part of a document with its title, and writes each of list below it; without any there is none.
func parts[T any](p *page, title string, list []T, write func(T)) {
	if len(list) == 0 {
		return
	}
	p.part(title)
	for _, x := range list {
		write(x)
	}
}

// below writes texts below what they belong to. Empty texts are left out.
func (p *page) below(texts ...string) {
	for _, text := range texts {
		if text != "" {
			p.flow(4, 6, text)
		}
	}
}

func (p *page) plannedPod(pod forecast.PlannedPod) {
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

// plannedHolder is who holds a key.
func (p *page) plannedHolder(h forecast.PlannedHolder) {
	who := p.paint(yellow, "not known")
	if h.By != "" {
		who = p.paint(bold, h.Name)
		if h.PID != 0 {
			who += fmt.Sprintf(" (process %d)", h.PID)
		}
	}
	p.flow(2, 4, fmt.Sprintf("%s  key %s: %s", h.Lock, h.Key, who))
	p.below(append([]string{h.Why}, h.Says...)...)
}

func (p *page) sum(l forecast.Lint) {
	word := "ok  "
	if !l.OK {
		word = p.paint(yellow, "WARN")
	}
	p.flow(2, 12, fmt.Sprintf("%s  %s  %s: %s", l.Rule, word, cmp.Or(l.Lock, "the run"), l.Text))
	if l.Means != "" {
		p.flow(12, 12, l.Means)
	}
}

func (p *page) quantile(q forecast.PlannedQuantile) {
	text := fmt.Sprintf("%s %s %s needs %d independent trials if none misses; the file declares %d", q.Measure, q.Quantile, secs(q.Limit), q.Need, q.Declared)
	if q.NeedOne > 0 {
		text = fmt.Sprintf("%s %s %s is looked at after each trial: it needs %d if none misses, %d if one does; the file allows %d", q.Measure, q.Quantile, secs(q.Limit), q.Need, q.NeedOne, q.Declared)
	}
	if q.Declared < q.Need {
		text += ", so it stays inconclusive whatever is measured"
	}
	p.item(q.Lock, text)
}

// expectation says whether a few rehearsals provoked what the fault is for.
func (p *page) expectation(x *forecast.RehearsedExpectation, rehearsed int64) {
	text := fmt.Sprintf("%s provokes %s: ", x.Fault, rehearsedAsk(x))
	switch x.Missed {
	case 0:
		text += "in all of them"
	case rehearsed:
		text += p.paint(yellow, "in none of them") + ". " + x.Why
	default:
		text += fmt.Sprintf("not in %d of them. Seed %d: %s", x.Missed, x.Seed, x.Why)
	}
	p.item(x.Lock, text)
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
