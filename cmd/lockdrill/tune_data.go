package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/probes"
)

// heldSeries is the lock core's own histogram of hold times.
const heldSeries = "lockcore_held_seconds"

// tripSeries is its histogram of the round trips of renewals.
const tripSeries = "lockcore_renew_rtt_seconds"

// mostWork bounds every duration that tune takes, and the lease that follows.
const mostWork = 24 * time.Hour

// measured is what a run or a scrape says of the work under a lock.
type measured struct {
	classes []forecast.MeasuredWork
	lock    *experiments.Lock // as the run had it; nil = a scrape
	offered time.Duration     // by the run
	trip    time.Duration     // p99 of a round trip to the store; 0 = not known
	warning string
}

// noFigure is the end of a command that was given data which do not tell what was asked.
func noFigure(format string, args ...any) error {
	return &exitError{code: verdict.ExitInconclusive, err: fmt.Errorf(format, args...)}
}

// read takes the hold times from where --from points to.
func (f *tuneFlags) read(ctx context.Context, w io.Writer) (*measured, error) {
	if strings.HasPrefix(f.from, "http://") || strings.HasPrefix(f.from, "https://") {
		server := probes.PromServer{URL: f.from}
		return f.readHistograms(func(series string, labels map[string]string) ([]probes.Histogram, error) {
			return probes.AskHistograms(ctx, server, series, labels, f.window)
		})
	}
	if dir := runFolder(f.from); isDir(dir) {
		return f.readRun(w, dir)
	}
	return f.readScrape()
}

// readRun takes them from a run's history, in the times of its file.
func (f *tuneFlags) readRun(w io.Writer, dir string) (*measured, error) {
	if f.series != heldSeries || len(f.labels) > 0 {
		return nil, usagef("lockdrill tune: --series and --label are for a saved scrape, and %s is a folder", dir)
	}
	r, err := readRun(w, dir, judgesAnew)
	if err != nil {
		return nil, err
	}
	e, j := r.Experiment, r.Judgement
	m := &measured{}
	if m.lock, err = f.lockOf(dir, e); err != nil {
		return nil, err
	}
	if m.lock.Loop() {
		return nil, usagef("lockdrill tune: %s is a leader loop: how long it was held is not how long a tick is; give --loop --p99", m.lock.Name)
	}
	if w := e.WorkUnder(m.lock.Name); w != nil {
		m.offered = w.Redeliver
	}
	scale := e.TimeScale
	if scale != 1 {
		m.warning = fmt.Sprintf("the run had time scale %g: its hold times are divided by it, and so are the round trips in them, which no scale shortens", scale)
	}
	real := func(r verdict.Range) verdict.Range {
		r.Lo /= scale
		if r.Hi != nil {
			hi := *r.Hi / scale
			r.Hi = &hi
		}
		return r
	}
	for _, d := range j.Distributions {
		if d.Measure != "held" || d.Lock != m.lock.Name || f.class != "" && d.Class != f.class {
			continue
		}
		m.classes = append(m.classes, forecast.MeasuredWork{Source: dir, Class: d.Class, N: int64(d.N), Cut: int64(d.Cut), P50: real(d.P50), P95: real(d.P95), P99: real(d.P99)})
	}
	if len(m.classes) == 0 {
		return nil, noFigure("%s: nobody held lock %s%s", dir, m.lock.Name, ofClass(f.class))
	}
	return m, nil
}

func ofClass(class string) string {
	if class == "" {
		return ""
	}
	return " for a job of class " + class
}

// lockOf is the lock of the run that is meant.
func (f *tuneFlags) lockOf(dir string, e *experiments.Experiment) (*experiments.Lock, error) {
	var names []string
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		if l.Name == f.lock || f.lock == "" && len(e.System.Locks) == 1 {
			return l, nil
		}
		names = append(names, l.Name)
	}
	if f.lock == "" {
		return nil, usagef("lockdrill tune: %s has several locks: choose with --lock %s", dir, strings.Join(names, ", --lock "))
	}
	return nil, usagef("lockdrill tune: %s has no lock %q%s", dir, f.lock, didYouMean(f.lock, names))
}

// readScrape takes them from a saved scrape.
func (f *tuneFlags) readScrape() (*measured, error) {
	text, err := os.ReadFile(f.from)
	if err != nil {
		return nil, usagef("%s: read: %w", f.from, reason(err))
	}
	return f.readHistograms(func(series string, labels map[string]string) ([]probes.Histogram, error) {
		return probes.ReadHistograms(text, series, labels)
	})
}

// readHistograms takes them from histograms: a quantile is known to its bucket, and the bucket's upper end counts.
func (f *tuneFlags) readHistograms(read func(series string, labels map[string]string) ([]probes.Histogram, error)) (*measured, error) {
	labels := map[string]string{}
	for _, l := range f.labels {
		name, value, ok := strings.Cut(l, "=")
		if !ok {
			return nil, usagef("lockdrill tune: --label %q: want name=value", l)
		}
		labels[name] = value
	}
	if f.lock != "" {
		labels["namespace"] = f.lock
	}
	if f.class != "" {
		labels["class"] = f.class
	}
	all, err := read(f.series, labels)
	if err != nil {
		return nil, usagef("%s: %w", f.from, err)
	}
	m := &measured{}
	delete(labels, "class") // trips have none
	if trips, err := read(tripSeries, labels); err == nil && f.series == heldSeries && len(trips) == 1 && trips[0].Count > 0 {
		if _, hi := trips[0].Quantile(0.99); !math.IsInf(hi, 1) {
			m.trip = time.Duration(hi * float64(time.Second))
		}
	}
	for i := range all {
		h := &all[i]
		at := func(p float64) verdict.Range {
			lo, hi := h.Quantile(p)
			if math.IsInf(hi, 1) {
				return verdict.Range{Lo: lo}
			}
			return verdict.Range{Lo: lo, Hi: &hi}
		}
		m.classes = append(m.classes, forecast.MeasuredWork{Source: f.from, Class: h.Class, N: int64(h.Count), P50: at(0.5), P95: at(0.95), P99: at(0.99)})
	}
	return m, nil
}

// leases says what lease each class by itself asks for.
func (f *tuneFlags) leases(classes []forecast.MeasuredWork) {
	for i := range classes {
		c := &classes[i]
		for ttl, r := range map[*float64]verdict.Range{&c.TTL95: c.P95, &c.TTL99: c.P99} {
			if work := upper(r); work > 0 {
				*ttl = (work + f.jitter + f.guard).Seconds()
			}
		}
	}
}

// choose is the class whose p99 is the longest: a lease must do for all of them.
func (m *measured) choose() (*forecast.MeasuredWork, error) {
	var chosen *forecast.MeasuredWork
	for i := range m.classes {
		c := &m.classes[i]
		switch {
		case c.N == 0:
			continue
		case c.P99.Hi == nil:
			return nil, noFigure("%s: the p99%s is above %gs and has no upper end: add larger buckets, or give --p99", c.Source, ofClass(c.Class), c.P99.Lo)
		case *c.P99.Hi <= 0 || *c.P99.Hi > mostWork.Seconds(): // a wrong unit, or no histogram of times
			return nil, usagef("%s: the p99%s is %gs: want above 0s, and at most %s", c.Source, ofClass(c.Class), *c.P99.Hi, mostWork)
		case chosen == nil || *c.P99.Hi > *chosen.P99.Hi:
			chosen = c
		}
	}
	if chosen == nil {
		return nil, noFigure("%s: nothing was held to its end: no data is no p99", m.classes[0].Source)
	}
	return chosen, nil
}

// upper is the upper end of a range, to the millisecond, upwards.
func upper(r verdict.Range) time.Duration {
	if r.Hi == nil {
		return 0
	}
	return time.Duration(math.Ceil(*r.Hi*1e3-1e-6)) * time.Millisecond
}

// mostRun keeps a drill of leases of a day below the longest duration that a file may have; such a drill takes half of it.
const mostRun = 29 * 24 * time.Hour

// tunedDrill is a drill of one lock: what is written for the user to run is what is rehearsed.
type tunedDrill struct {
	lock     experiments.Lock
	replicas int
	p50, p99 time.Duration // of the work under the lock
	offered  time.Duration // jobs: offered again so often
	takeover time.Duration // promised
	fenced   bool
}

// kill is the drill that kills the holder once, at a random moment, and promises the takeover.
func (d *tunedDrill) kill() string {
	p := &d.lock.Policy
	aim, jobs, every := "phase: random", 0, d.p50/2 // two at work on average
	if !d.lock.Loop() {
		jobs = 2 + int(math.Ceil(float64(p.TTL+d.takeover+10*time.Second)/float64(every)))
		if most := 200; jobs > most { // too short to be held by chance
			aim, jobs = "on: acquired", 20
		}
	}
	fault := fmt.Sprintf("  - {id: kill-holder, kill: {holder_of: %s, %s}}\n", d.lock.Name, aim)
	slos := fmt.Sprintf("  - {lock: %s, takeover: {max: %s}}\n", d.lock.Name, yamlDuration(d.takeover))
	return d.text("The holder is killed once, at a random moment of its lease.", jobs, every, fault, slos)
}

// hang is the drill in which the store hangs for the holder, for two leases, while its work outlasts them: it must stop before the lease
// does. "" = the policy goes on by choice, or there is nothing to renew.
func (d tunedDrill) hang() string {
	p := d.lock.Policy
	if p.Class == lockcore.Continuity || p.RenewEvery == 0 {
		return ""
	}
	d.p50 = 4 * p.TTL
	d.p99 = d.p50
	fault := fmt.Sprintf("  - {id: store-hangs, at: %s, for: %s, black_hole: {holder_of: %s}}\n", yamlDuration(p.TTL/2), yamlDuration(2*p.TTL), d.lock.Name)
	slos := fmt.Sprintf("  - {lock: %s, unowned_work: {max: 0s}}\n", d.lock.Name)
	return d.text("The way to the store hangs for the holder.", 10, p.TTL, fault, slos) // the steady state waits for a job to finish
}

// text is the experiment's file.
func (d *tunedDrill) text(what string, jobs int, every time.Duration, fault, slos string) string {
	lock := d.lock
	if lock.Loop() {
		loop := *lock.Policy.Loop
		loop.Tick = d.p99
		lock.Policy.Loop = &loop
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: lockdrill/v1\nkind: Experiment\nname: tuned-%s\ndescription: %q\n", lock.Name, what)
	fmt.Fprintf(&b, "system:\n  mode: embedded\n  replicas: %d\n%s", d.replicas, indent(lockYAML(&lock), "  "))
	longest := 20 * (lock.Policy.TTL + d.takeover + d.p99)
	if !lock.Loop() {
		fmt.Fprintf(&b, "  work:\n    - {lock: %s, jobs: %d, rate: %.6g/h, hold: {p50: %s, p99: %s}, redeliver: %s, fenced: %t}\n", lock.Name, jobs,
			float64(time.Hour)/float64(every), yamlDuration(d.p50), yamlDuration(d.p99), yamlDuration(d.offered), d.fenced)
		longest += time.Duration(jobs) * every
	}
	longest = min(longest, mostRun)
	fmt.Fprintf(&b, "steady_state: {for: 1s, timeout: %s}\nfaults:\n%slimits: {max_run: %s}\nslos:\n%s", yamlDuration(longest), fault, yamlDuration(longest+time.Minute), slos)
	return b.String()
}

// lockYAML is the lock as an entry of system.locks. It is our own: it can be written.
func lockYAML(l *experiments.Lock) string {
	text, err := experiments.MarshalLock(l)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}

// yamlDuration is d as a file has it, to the microsecond.
func yamlDuration(d time.Duration) string { return d.Round(time.Microsecond).String() }

// rehearsed is a policy's sums, and how often its drills breach their promises in rehearsals.
func (d *tunedDrill) rehearsed(ctx context.Context, io streams, name string, locks int, seeds int64) (*forecast.TunedPolicy, error) {
	t := &forecast.TunedPolicy{Name: name, Writes: lockcore.RenewalsPerSecond(d.lock.Policy, locks), Breaches: []forecast.TunedBreach{}}
	for i, drill := range []struct{ promise, text string }{
		{"takeover within " + lockcore.Seconds(d.takeover) + " after a kill", d.kill()},
		{"no work past the lease while the store hangs (seconds of all jobs of the holder)", d.hang()},
	} {
		if drill.text == "" {
			continue
		}
		e, err := experiments.Parse("tuned.yaml", []byte(drill.text))
		if err != nil {
			return nil, fmt.Errorf("drill of %s: %w", name, err)
		}
		all, err := rehearseSeedsOf(ctx, io.Err, e, seeds)
		if ctx.Err() != nil {
			return nil, &exitError{code: verdict.ExitAborted, err: fmt.Errorf("interrupted in the rehearsals of %s: nothing is concluded from a part", name)}
		}
		if err != nil {
			return nil, err
		}
		if i == 0 {
			t.Sums = all.Locks()[0]
		}
		row := all.Document().Rows[0]
		t.Breaches = append(t.Breaches, forecast.TunedBreach{Promise: drill.promise, Seeds: row.Seeds, Breach: row.Breach, Median: row.Median, Max: row.Max})
	}
	return t, nil
}
