package probes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// AlertsProbe is what the probe is called in coverage events.
const AlertsProbe = "alerts"

// Alerts asks a Prometheus which alerts fire, by its rules, or an Alertmanager, by what was sent to it. A look is good only where each
// rule that is watched is there, healthy, and evaluated again and again: then silence says something.
type Alerts struct {
	server  *promServer
	manager bool
	names   []string               // alerts that must have rules
	watch   func(name string) bool // names of others that are watched
	clock   func() int64
	rules   map[string]*evaluated // by place
	fed     fed
	seen    *Metrics // keeps what the last look showed
}

// evaluated is when a rule was evaluated, by its server, and since when that is known.
type evaluated struct {
	last  string
	since int64
}

// NewAlerts returns a probe of alerts of these names, and of all others that watch takes. manager: the server is an Alertmanager.
func NewAlerts(names []string, watch func(string) bool, manager bool, o PromServer, clock func() int64) (*Alerts, error) {
	s, err := newPromServer(o, clock)
	if err != nil {
		return nil, err
	}
	return &Alerts{server: s, manager: manager, names: names, watch: watch, clock: clock, rules: map[string]*evaluated{}, fed: fed{expires: map[string]time.Time{}},
		seen: &Metrics{metric: Metric{Name: history.AlertsFiring}, seen: map[string]*scraped{}}}, nil
}

// Close closes the probe's connections.
func (p *Alerts) Close() error {
	p.server.client.CloseIdleConnections()
	return nil
}

// AlertRule is an alert as a server has it now.
type AlertRule struct {
	Name   string
	Every  time.Duration       // between two evaluations; 0 = nobody says
	Firing []map[string]string // labels of the instances that fire
	why    string              // it is not evaluated as it should be; "" = it is
}

// Peek asks once: the watched alerts, by their names.
func (p *Alerts) Peek(ctx context.Context) ([]AlertRule, error) {
	if p.manager {
		return p.sent(ctx)
	}
	return p.evaluated(ctx)
}

// Look gives what fires of each alert of which that is news.
func (p *Alerts) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	rules, err := p.Peek(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		if r.why != "" {
			return nil, errors.New(r.why)
		}
		if !slices.Contains(p.names, r.Name) { // from now on it must be there
			p.names = append(p.names, r.Name)
		}
	}
	return func(at history.Span) []history.Event {
		var events []history.Event
		for _, r := range rules {
			s := history.Sample{Metric: history.AlertsFiring, Target: r.Name, Type: "gauge"}
			for _, labels := range r.Firing {
				s.Values = append(s.Values, history.Value{Labels: labels, Value: 1})
			}
			s.Values = inOrder(s.Values)
			if e, news := p.seen.observe(s, at, final); news {
				e.Source = "probe:alerts"
				events = append(events, e)
			}
		}
		return events
	}, nil
}

func (p *Alerts) watched(name string) bool { return slices.Contains(p.names, name) || p.watch(name) }

// evaluated are the rules of a Prometheus.
func (p *Alerts) evaluated(ctx context.Context) ([]AlertRule, error) {
	var data struct {
		Groups []struct {
			Name, File string
			Interval   float64
			Rules      []struct {
				Name, Health, LastError, LastEvaluation string
				Alerts                                  []struct {
					State  string
					Labels map[string]string
				}
			}
		}
	}
	if err := p.server.get(ctx, "/api/v1/rules", url.Values{"type": {"alert"}}, &data); err != nil {
		return nil, err
	}
	by := map[string]*AlertRule{}
	for _, g := range data.Groups {
		every := time.Duration(g.Interval * float64(time.Second))
		for i, r := range g.Rules {
			if !p.watched(r.Name) {
				continue
			}
			one := by[r.Name]
			if one == nil {
				one = &AlertRule{Name: r.Name, Every: every}
				by[r.Name] = one
			}
			one.Every = min(one.Every, every)
			if r.Health != "ok" {
				one.why = fmt.Sprintf("rule %s is not evaluated: %s %s", r.Name, r.Health, witness.Cut(r.LastError))
			} else if why := p.overdue(fmt.Sprintf("%s %s %d", g.File, g.Name, i), r.LastEvaluation, every); why != "" {
				one.why = "rule " + r.Name + why
			}
			for _, a := range r.Alerts {
				if a.State == "firing" {
					one.Firing = append(one.Firing, a.Labels)
				}
			}
		}
	}
	for _, name := range p.names {
		if by[name] == nil {
			return nil, fmt.Errorf("%w: no rule of the server is called %s", ErrQuery, name)
		}
	}
	if len(by) == 0 {
		return nil, fmt.Errorf("%w: no rule of the server has such a name", ErrQuery)
	}
	return sortedRules(by), nil
}

// overdue says that a rule should have been evaluated again since a look first showed its last evaluation; "" = not yet.
func (p *Alerts) overdue(place, last string, every time.Duration) string {
	now, r := p.clock(), p.rules[place]
	if r == nil || r.last != last {
		p.rules[place] = &evaluated{last, now}
		return ""
	}
	if late := time.Duration(now - r.since); late > 2*every+lateEvaluation {
		return fmt.Sprintf(" was not evaluated for %s, and is to be every %s", late.Round(100*time.Millisecond), every)
	}
	return ""
}

// lateEvaluation is how much later than every second turn a rule may be evaluated.
const lateEvaluation = time.Second

// fed is what an Alertmanager has shown.
type fed struct {
	uptime  string               // since when it runs: it forgets its alerts when it ends
	expires map[string]time.Time // of the alerts that fired: when each ends unless it is sent again; zero = it may be forgotten
}

// sent are the alerts that an Alertmanager has, silenced and inhibited ones too, and the expected ones that it has not. An alert is over
// where its sender says so. One that ran out, or that the server forgot, may fire on: such a look is bad.
func (p *Alerts) sent(ctx context.Context) ([]AlertRule, error) {
	var all []struct {
		Labels map[string]string
		EndsAt time.Time
	}
	var status struct{ Uptime string }
	res, err := p.ask(ctx, "/api/v2/alerts", url.Values{"active": {"true"}, "silenced": {"true"}, "inhibited": {"true"}}, &all)
	if err == nil { // after that: who began anew in between has forgotten what it showed
		_, err = p.ask(ctx, "/api/v2/status", nil, &status)
	}
	if err != nil {
		return nil, err
	}
	now, err := http.ParseTime(res.Header.Get("Date")) // the seconds are cut off
	if err != nil {
		return nil, fmt.Errorf("its answer has no date: %w", err)
	}
	by, here := map[string]*AlertRule{}, map[string]bool{}
	for _, name := range p.names {
		by[name] = &AlertRule{Name: name}
	}
	for _, a := range all {
		if r := by[a.Labels["alertname"]]; r != nil {
			key := strings.TrimPrefix(fmt.Sprint(a.Labels), "map")
			r.Firing, here[key], p.fed.expires[key] = append(r.Firing, a.Labels), true, a.EndsAt
		}
	}
	began := p.fed.uptime != "" && p.fed.uptime != status.Uptime
	p.fed.uptime = status.Uptime
	for key, end := range p.fed.expires {
		switch {
		case began:
			p.fed.expires[key] = time.Time{}
		case !here[key] && end.After(now.Add(time.Second)):
			delete(p.fed.expires, key) // it was over before it ran out
		}
	}
	for key := range p.fed.expires {
		if !here[key] {
			return nil, fmt.Errorf("it has no alert %s any more, and nobody told it that this is over: its sender is away, or it began anew", witness.Cut(key))
		}
	}
	return sortedRules(by), nil
}

// ask asks an Alertmanager.
func (p *Alerts) ask(ctx context.Context, path string, query url.Values, answer any) (*http.Response, error) {
	res, body, err := p.server.fetch(ctx, path, query)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers %s", res.Status)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, fmt.Errorf("its answer is none of an Alertmanager: %s", witness.Cut(string(body)))
	}
	return res, nil
}

func sortedRules(by map[string]*AlertRule) []AlertRule {
	var all []AlertRule
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[name])
	}
	return all
}
