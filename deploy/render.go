package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// RulesForm says which rules are written, and as what.
type RulesForm struct {
	AlertsOnly bool // no recordings: each alert's expression stands alone
	Resource   bool // a PrometheusRule resource of the Prometheus operator instead of a rule file
}

// ruleGroups is a Prometheus rule file, and the spec of a PrometheusRule.
type ruleGroups struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name     string `yaml:"name"`
	Interval string `yaml:"interval,omitempty"`
	Rules    []rule `yaml:"rules"`
}

type rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// Rules writes the recording and alerting rules for the series of m, and says which it had to leave out; a comment at the top of the
// text says so as well. Every alert carries the labels severity (page or ticket), and the annotations summary, description (what
// next) and runbook (a path in lockdrill's repository).
func Rules(m *Mapping, form RulesForm) (text []byte, dropped []Dropped, err error) {
	c := catalogue()
	f := &filler{m: m, c: c, inline: form.AlertsOnly}
	locks, drills := ruleGroup{Name: "locks"}, ruleGroup{Name: "lockdrill", Interval: "2m"} // what drills left changes once a run
	group := func(drill bool) *ruleGroup {
		if drill {
			return &drills
		}
		return &locks
	}
	for _, r := range c.Recordings {
		if form.AlertsOnly {
			break
		}
		expr, missing, err := f.fill(r.Expr)
		if err != nil {
			return nil, nil, err
		}
		if len(missing) > 0 {
			dropped = append(dropped, Dropped{r.Record, missing})
			continue
		}
		group(r.Drills).Rules = append(group(r.Drills).Rules, rule{Record: r.Record, Expr: expr})
	}
	for _, a := range c.Alerts {
		filled, missing, err := f.alert(&a)
		if err != nil {
			return nil, nil, err
		}
		if len(missing) > 0 {
			dropped = append(dropped, Dropped{a.Alert, missing})
			continue
		}
		group(a.Drills).Rules = append(group(a.Drills).Rules, filled)
	}
	var doc ruleGroups
	for _, g := range []ruleGroup{locks, drills} {
		if len(g.Rules) > 0 {
			doc.Groups = append(doc.Groups, g)
		}
	}
	text, err = writeRules(m, form, doc, dropped)
	return text, dropped, err
}

func (f *filler) alert(a *alert) (rule, []string, error) {
	expr, missing, err := f.fill(a.Expr)
	if err != nil || len(missing) > 0 {
		return rule{}, missing, err
	}
	summary, _, err := f.fill(a.Summary)
	return rule{
		Alert: a.Alert, Expr: expr, For: a.For,
		Labels:      map[string]string{"severity": a.Severity},
		Annotations: map[string]string{"summary": summary, "description": a.Next, "runbook": a.Runbook},
	}, nil, err
}

func writeRules(m *Mapping, form RulesForm, doc ruleGroups, dropped []Dropped) ([]byte, error) {
	if len(doc.Groups) == 0 {
		return nil, fmt.Errorf("%s: no rule has the signals that it needs", m.Name)
	}
	var v any = doc
	if form.Resource {
		v = struct {
			APIVersion string            `yaml:"apiVersion"`
			Kind       string            `yaml:"kind"`
			Metadata   map[string]string `yaml:"metadata"`
			Spec       ruleGroups        `yaml:"spec"`
		}{"monitoring.coreos.com/v1", "PrometheusRule", map[string]string{"name": "lockdrill"}, doc}
	}
	body, err := encode(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made by lockdrill export for the metrics of %s; docs/alerts.md says what each alert means.\n", oneLine(m.Name))
	for _, d := range dropped {
		fmt.Fprintf(&b, "# %s\n", d)
	}
	b.Write(body)
	return b.Bytes(), nil
}

// oneLine keeps a name inside its comment.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Table is the alerts as rows of a Markdown table: what docs/alerts.md shows.
func Table() string {
	var b strings.Builder
	b.WriteString("| alert | severity | fires | needs | and then |\n|---|---|---|---|---|\n")
	c := catalogue()
	f := &filler{m: &Mapping{}, c: c}
	for _, a := range c.Alerts {
		_, needs, err := f.fill(a.Expr)
		if err != nil {
			panic(err) // rules.yaml is ours
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s ([more](%s)) |\n", a.Alert, a.Severity, a.Fires,
			strings.Join(needs, "`, `"), a.Next, strings.TrimPrefix(a.Runbook, "docs/"))
	}
	return b.String()
}

// SignalTable is the signals and thresholds that a mapping may name, as Markdown.
func SignalTable() string {
	var b strings.Builder
	c := catalogue()
	b.WriteString("| signal | a | what it tells |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(c.Signals)) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, c.Signals[name].Unit, c.Signals[name].Means)
	}
	b.WriteString("\n| threshold | default | what it bounds |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(c.Thresholds)) {
		fmt.Fprintf(&b, "| `%s` | %v | %s |\n", name, c.Thresholds[name].Value, c.Thresholds[name].Means)
	}
	return b.String()
}
