package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/probes"
)

// heldSeries is the lock core's own histogram of hold times.
const heldSeries = "lockcore_held_seconds"

// watchedSeries is that of a watch; its upper bounds have the label bound=hi.
const watchedSeries = "lockdrill_watch_held_seconds"

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

// lockOf is the lock of the run that is meant. Only one of jobs tells how long its work is.
func (f *tuneFlags) lockOf(dir string, e *experiments.Experiment) (*experiments.Lock, error) {
	var names, jobs []string
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		if names = append(names, l.Name); !l.Loop() {
			jobs = append(jobs, l.Name)
		}
	}
	name := f.lock
	switch {
	case name == "" && len(jobs) > 1:
		return nil, usagef("lockdrill tune: %s has several locks: choose with --lock %s", dir, strings.Join(jobs, ", --lock "))
	case name == "":
		name = append(jobs, names[0])[0]
	case !slices.Contains(names, name):
		return nil, usagef("lockdrill tune: %s has no lock %q%s", dir, name, didYouMean(name, names))
	}
	return e.Lock(name), nil
}

// readScrape takes them from a saved scrape.
func (f *tuneFlags) readScrape() (*measured, error) {
	text, err := regular.Read(f.from)
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
	if asked := new(url.Error); errors.As(err, &asked) { // without the query, which is ours
		err = asked.Err
	} else if err != nil && f.series == heldSeries {
		err = fmt.Errorf("%w; --series names another: that of lockdrill watch --listen is %s --label bound=hi", err, watchedSeries)
	}
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

// rehearsedPolicy is a policy's sums, and how often its drills breach their promises in rehearsals.
func rehearsedPolicy(ctx context.Context, io streams, d *draft.Tuned, name string, locks int, seeds int64) (*forecast.TunedPolicy, error) {
	t := &forecast.TunedPolicy{Name: name, Writes: lockcore.RenewalsPerSecond(d.Lock.Policy, locks), Breaches: []forecast.TunedBreach{}}
	for i, drill := range []struct{ promise, text string }{
		{"takeover within " + lockcore.Seconds(d.Takeover) + " after a kill", d.Kill()},
		{"no work past the lease while the store hangs (seconds of all jobs of the holder)", d.Hang()},
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
