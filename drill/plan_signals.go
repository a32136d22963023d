package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/probes"
)

// shownSamples is how many series of a signal, and files of logs, a plan shows.
const shownSamples = 5

// lookUpSignals shows the first samples of each signal: what a Prometheus server has, what expositions show, which logs are there.
func lookUpSignals(ctx context.Context, e *experiments.Experiment, plan *forecast.Plan) error {
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	for i := range e.Probes.PromQL {
		shown, err := lookUpQuery(ctx, &e.Probes.PromQL[i])
		if err != nil {
			return err
		}
		plan.Signals = append(plan.Signals, shown)
	}
	if e.Probes.Alerts != nil && len(e.AlertRows())+len(e.AbortAlerts()) > 0 {
		shown, err := lookUpAlerts(ctx, e)
		if err != nil {
			return err
		}
		plan.Signals = append(plan.Signals, shown)
	}
	var living []testbed.Found
	if e.System.Processes != nil {
		living, _, _ = testbed.FindProcesses(ctx, e.System.Processes) // the guard of the processes has said what is wrong
	}
	for _, m := range e.Probes.Scraped() {
		if m.Scrape != experiments.ScrapeLocks && (m.Scrape != experiments.ScrapeReplicas || e.System.Processes != nil) {
			plan.Signals = append(plan.Signals, lookUpMetric(ctx, &m, living))
		}
	}
	if len(e.Probes.Logs.Named()) > 0 {
		if shown, ok := lookUpLogs(e, living); ok {
			plan.Signals = append(plan.Signals, shown)
		}
	}
	return nil
}

func lookUpQuery(ctx context.Context, q *experiments.Query) (forecast.PlannedSignal, error) {
	shown := forecast.PlannedSignal{Name: "metric " + q.Name, Source: q.Query + " at " + q.URL}
	probe, err := openQuery(q, monotime.Now)
	if err != nil {
		return shown, err
	}
	seen, lacks, err := peekQuery(ctx, q, probe)
	_ = probe.Close() // it has only read
	switch e := new(Error); {
	case errors.As(err, &e) && e.Status == verdict.ExitRefused:
		shown.Why = "cannot be read now: " + err.Error()
	case err != nil:
		return shown, err
	case lacks != "":
		shown.Why = "the server's answer is not whole, and such a stretch counts as not read: " + lacks
	case len(seen) == 0:
		shown.Why = "no series matches: nothing shows that the query is right"
	}
	for _, s := range seen[:min(len(seen), shownSamples)] {
		first := labelsText(s.Labels) + " " + figures.Decimal(s.Value)
		if !q.Evaluated() {
			first += ", scraped " + figures.Short(int64(s.Age)) + " ago"
		}
		shown.First = append(shown.First, first)
	}
	return shown, nil
}

// lookUpMetric scrapes a metric once.
func lookUpMetric(ctx context.Context, m *experiments.Metric, living []testbed.Found) forecast.PlannedSignal {
	shown := forecast.PlannedSignal{Name: "metric " + m.Name, Source: m.Series + " at " + m.Scrape}
	targets := targetsNow(m, living)
	probe, err := scraper(m, func() []probes.Target { return targets })
	if err != nil {
		shown.Why = "cannot be read now: " + err.Error()
		return shown
	}
	defer probe.Close()
	look, err := probe.Look(ctx, false)
	if err != nil {
		shown.Why = "cannot be read now: " + err.Error()
		return shown
	}
	there, answered, silent := false, false, 0
	for _, ev := range look(history.Span{}) {
		s := ev.Sample
		there, answered = there || len(s.Values) > 0, answered || s.Gone == ""
		if s.Gone != "" {
			silent++
			shown.First = append(shown.First, s.Target+": no answer ("+cmp.Or(s.Why, s.Gone)+")")
		}
		for _, v := range s.Values {
			shown.First = append(shown.First, s.Target+": "+labelsText(v.Labels)+" "+figures.Decimal(float64(v.Value)))
		}
	}
	shown.First = shown.First[:min(len(shown.First), shownSamples)]
	switch {
	case len(targets) == 0:
		shown.Why = "cannot be read now: no replica was found to ask"
	case !answered:
		shown.Why = "cannot be read now: no target answered, so it is not known whether there is such a series"
	case !there && silent > 0:
		shown.Why = fmt.Sprintf("no such series now where a target answered: %d of %d did not, so it is not known whether there is one", silent, len(targets))
	case !there:
		shown.Why = "no such series now: nothing shows that its name is right"
	}
	return shown
}

// lookUpLogs lists the files that would be read; false = only pods' logs would.
func lookUpLogs(e *experiments.Experiment, living []testbed.Found) (forecast.PlannedSignal, bool) {
	globs, files := logGlobs(e)
	shown := forecast.PlannedSignal{Name: "logs", Source: strings.Join(globs, ", ")}
	var found []string
	for _, glob := range files {
		paths, _ := filepath.Glob(glob) // the file was checked
		found = append(found, paths...)
	}
	for _, p := range living {
		if p.Log != "" {
			found = append(found, p.Log)
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) == 0 {
		shown.Why = "no file is there yet: one that comes is read from its beginning"
	}
	shown.First = found[:min(len(found), shownSamples)]
	return shown, len(globs) > 0
}

// labelsText writes labels as an exposition does.
func labelsText(labels map[string]string) string {
	var parts []string
	for name, value := range labels {
		parts = append(parts, fmt.Sprintf("%s=%q", name, value))
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ", ") + "}"
}
