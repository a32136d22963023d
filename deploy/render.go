package deploy

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
)

// RulesForm says which rules are written, and as what.
type RulesForm struct {
	AlertsOnly bool // no recordings: each alert's expression stands alone
	Resource   bool // a PrometheusRule resource of the Prometheus operator instead of a rule file
	// TimeScale multiplies windows, `for` and thresholds that are times: for a drill at a time_scale of its own. 0 = 1.
	TimeScale float64
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
// next), runbook (a path in lockdrill's repository) and drill (a shipped scenario that makes it fire).
func Rules(m *Mapping, form RulesForm) (text []byte, dropped []Dropped, err error) {
	c := catalogue()
	f := &filler{m: m, c: c, inline: form.AlertsOnly, scale: cmp.Or(form.TimeScale, 1)}
	locks, drills := ruleGroup{Name: "locks"}, ruleGroup{Name: "lockdrill", Interval: f.times("2m")} // what drills left changes once a run
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
		Alert: a.Alert, Expr: expr, For: f.times(a.For),
		Labels:      map[string]string{"severity": a.Severity},
		Annotations: map[string]string{"summary": summary, "description": a.Next, "runbook": a.Runbook, "drill": a.Drill},
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
