package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/probes"
)

// openAlerts makes the probe of alerts. A server that is away, or lacks a rule, is known before anything is touched.
func (d *Drill) openAlerts(ctx context.Context) error {
	a := d.e.Probes.Alerts
	if a == nil || len(d.e.AlertRows())+len(d.e.AbortAlerts()) == 0 {
		return nil
	}
	probe, err := alertsOf(d.e, d.clock)
	if err != nil {
		return err
	}
	d.looks = append(d.looks, probe.Close)
	rules, err := peekAlerts(ctx, probe)
	if err != nil {
		return err
	}
	settings := experiments.ProbeSettings{Every: a.Every, MaxGap: 2*a.Every + 2*time.Second}
	// Between two evaluations an alert does not change: looks that are closer together miss none that fires.
	for i, r := range rules {
		if r.Every > 0 && (i == 0 || r.Every < settings.MaxGap) {
			settings = experiments.ProbeSettings{Every: min(a.Every, r.Every/4), MaxGap: r.Every}
		}
	}
	d.cfg.Probes = append(d.cfg.Probes, runner.Sampled{Name: probes.AlertsProbe, Source: "probe:alerts", Live: true, Probe: probe, ProbeSettings: settings})
	return nil
}

func alertsOf(e *experiments.Experiment, clock func() int64) (*probes.Alerts, error) {
	names, rows := e.AbortAlerts(), e.AlertRows()
	for _, s := range rows {
		if !s.Silent && !slices.Contains(names, *s.Alert) {
			names = append(names, *s.Alert)
		}
	}
	silent := func(name string) bool {
		return slices.ContainsFunc(rows, func(s *experiments.SLO) bool { return s.Silent && s.AlertNames().MatchString(name) })
	}
	a := e.Probes.Alerts
	return askedAt("probes.alerts", &a.PromServer, func(o probes.PromServer) (*probes.Alerts, error) {
		return probes.NewAlerts(names, silent, a.API == experiments.APIAlertmanager, o, clock)
	})
}

func peekAlerts(ctx context.Context, probe *probes.Alerts) ([]probes.AlertRule, error) {
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	rules, err := probe.Peek(ctx)
	if err != nil {
		return nil, unasked("probes.alerts", err)
	}
	return rules, nil
}

// unasked is the error of a server that does not answer, or not to this question.
func unasked(where string, err error) error {
	if errors.Is(err, probes.ErrQuery) {
		return usagef("%s: %w", where, err)
	}
	if errors.Is(err, context.DeadlineExceeded) && strings.HasPrefix(where, "probes.promql") {
		err = fmt.Errorf("%w: it takes long to answer with many series: say labels", err)
	}
	return &Error{verdict.ExitRefused, fmt.Errorf("%s: ask the server: %w", where, err)}
}

// lookUpAlerts shows which of the alerts fire now.
func lookUpAlerts(ctx context.Context, e *experiments.Experiment) (forecast.PlannedSignal, error) {
	shown := forecast.PlannedSignal{Name: "alerts", Source: e.Probes.Alerts.URL}
	probe, err := alertsOf(e, monotime.Now)
	if err != nil {
		return shown, err
	}
	rules, err := peekAlerts(ctx, probe)
	_ = probe.Close() // it has only read
	if refused := new(Error); errors.As(err, &refused) && refused.Status == verdict.ExitRefused {
		shown.Why = "cannot be read now: " + err.Error()
		return shown, nil
	}
	for _, r := range rules[:min(len(rules), shownSamples)] {
		shown.First = append(shown.First, fmt.Sprintf("%s: %s firing, evaluated every %s", r.Name, figures.Plural(len(r.Firing), "alert"), figures.Spell(r.Every)))
	}
	return shown, err
}
