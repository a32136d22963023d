package experiments

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// AbortCondition ends a run early; it is no SLO.
type AbortCondition struct {
	_                            struct{}      `rule:"any=duplicate_terminal_states_above|abandonments_above|metric|promql|alert|log"`
	DuplicateTerminalStatesAbove *int          `rule:"for=@embedded"`                 // more second terminal states than this end the run
	AbandonmentsAbove            *int          `rule:"for=@embedded"`                 // more abandoned locks than this end the run
	Name                         string        `rule:"ident,for=@observed"`           // its name in the report
	Metric                       string        `rule:"for=@observed,ref=metric"`      // a metric of probes.metrics, where it passes above or below
	PromQL                       *BlockQuery   `file:"promql" rule:"for=@observed"`   // a query, where it has a result that is not 0; asked every second
	Alert                        string        `rule:"for=@observed"`                 // an alert of probes.alerts, where it fires
	Log                          string        `rule:"for=@observed,ref=pattern"`     // a pattern of probes.logs, where lines match
	Above                        *float64      `rule:"for=@observed"`                 // the highest value of a metric, or number of log lines (default 0), that does not end the run
	Below                        *float64      `rule:"for=@observed"`                 // the lowest value of a metric that does not end the run
	For                          time.Duration `rule:"omit,for=@observed" scale:"no"` // it must hold for so long; of a log: lines within this time (default: the whole run)
}

const (
	// AbortQueryEvery is how often the query of a condition is asked.
	AbortQueryEvery = time.Second
	// abortUnasked is how long a condition may be without an answer at least.
	abortUnasked = 10 * time.Second
)

// OfOthers reports a condition about a system that is observed.
func (a *AbortCondition) OfOthers() bool {
	return a.Metric != "" || a.PromQL != nil || a.Alert != "" || a.Log != ""
}

// Says names the condition for a person.
func (a *AbortCondition) Says() string {
	switch {
	case a.Name != "":
		return a.Name
	case a.Metric != "":
		return "metric " + a.Metric
	case a.Alert != "":
		return "alert " + a.Alert
	case a.Log != "":
		return "log " + a.Log
	}
	return "promql"
}

// Describe says when the condition ends the run.
func (a *AbortCondition) Describe() string {
	held := ""
	if a.For > 0 {
		held = " for " + figures.Spell(a.For)
	}
	switch {
	case a.DuplicateTerminalStatesAbove != nil:
		return fmt.Sprintf("more than %d duplicate terminal states", *a.DuplicateTerminalStatesAbove)
	case a.AbandonmentsAbove != nil:
		return fmt.Sprintf("more than %d abandonments", *a.AbandonmentsAbove)
	case a.Metric != "" && a.Above != nil && a.Below != nil:
		return fmt.Sprintf("metric %s above %g or below %g%s", a.Metric, *a.Above, *a.Below, held)
	case a.Metric != "" && a.Above != nil:
		return fmt.Sprintf("metric %s above %g%s", a.Metric, *a.Above, held)
	case a.Metric != "":
		return fmt.Sprintf("metric %s below %g%s", a.Metric, *a.Below, held)
	case a.Alert != "":
		return "alert " + a.Alert + " fires" + held
	case a.Log != "" && a.For > 0:
		return fmt.Sprintf("more than %d lines match %s within %s", a.Lines(), a.Log, figures.Spell(a.For))
	case a.Log != "":
		return fmt.Sprintf("more than %d lines match %s", a.Lines(), a.Log)
	}
	return cmp.Or(a.Name, a.PromQL.Query) + " has a result that is not 0" + held
}

// Lines are as many lines of a log as do not end the run.
func (a *AbortCondition) Lines() int {
	if a.Above == nil {
		return 0
	}
	return int(*a.Above)
}

// Beyond reports a value of the metric that ends the run.
func (a *AbortCondition) Beyond(v float64) bool {
	return a.Above != nil && v > *a.Above || a.Below != nil && v < *a.Below
}

// AbortProbe is what the probe of a condition with a query is called, and the metric of its samples.
func AbortProbe(i int) string { return vocab.At("abort_when", i) }

// Unasked is how long the i-th condition may be without an answer: then it ends the run as well, because nobody guards it any more.
func (e *Experiment) Unasked(i int) time.Duration {
	a, every := &e.AbortWhen[i], AbortQueryEvery
	for _, m := range e.Probes.Numbers() {
		if a.Metric != "" && m.Name == a.Metric {
			every = m.Every
		}
	}
	return max(abortUnasked, a.For, 3*every)
}

// AbortAlerts are the names of alerts that end a run.
func (e *Experiment) AbortAlerts() (names []string) {
	for i := range e.AbortWhen {
		if name := e.AbortWhen[i].Alert; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// aborts checks the conditions of an observed system.
func (c *checker) aborts() {
	for path, a := range entries("abort_when", c.e.AbortWhen) {
		of := vocabulary.Said(a, "metric", "promql", "alert", "log")
		if c.Invalid(path) || len(of) == 0 {
			continue
		}
		limits := a.Above != nil || a.Below != nil
		if a.Log != "" && a.Above != nil {
			c.Refuse(len(of) == 1 && a.Below == nil && *a.Above != max(0, math.Trunc(*a.Above)), path+".above", "%g is no number of lines", *a.Above)
		}
		_ = c.Refuse(len(of) > 1, path, "has %s: give each a condition of its own, any of them ends the run", strings.Join(of[:min(2, len(of))], " and ")) ||
			c.Refuse(a.Metric != "" && !limits, path, "ends the run at which value of %s? Say above or below", a.Metric) ||
			c.Refuse(a.Metric != "" && a.Above != nil && a.Below != nil && *a.Above < *a.Below, path, "every value ends the run: above is the highest value that does not, and below the lowest") ||
			c.Refuse(a.Metric == "" && a.Below != nil || (a.Alert != "" || a.PromQL != nil) && limits, path, "above and below are for a metric, and above for a log: %s has no limit", of[0]) ||
			c.Refuse(a.Alert != "" && c.e.Probes.Alerts == nil, path+".alert", unasked)
		if a.PromQL != nil && len(of) == 1 && !limits && !c.Invalid(path+".promql") {
			a.PromQL.check(c.File, path+".promql", a.PromQL.URL)
		}
	}
}
