package deploy_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/metrics"
)

// A mapping that is wrong is refused with every problem, each with its place and what to do.
func TestMappingProblems(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"signals: {abandonned: {series: x}}", `signals.abandonned: unknown signal, did you mean "abandoned"?; there are `},
		{"signals: {abandoned: {series: 'rate(x[5m])'}}", `signals.abandoned.series: "rate(x[5m])": want a metric's name and matchers`},
		{"signals: {abandoned: {series: 'x[5m]'}}", "without range or function"},
		{"signals: {abandoned: {series: 'x{a=b}'}}", "want a metric's name"},
		{"signals: {abandoned: {series: 'x{a=\"b\"'}}", "want a metric's name"},
		{"signals: {abandoned: {series: ''}}", "want a metric's name"},
		{"signals: {abandoned: {series: \"x\\ny\"}}", "want a metric's name"},
		{"signals: {abandoned: {series: x, by: [a-b]}}", `signals.abandoned.by: "a-b" is no label name`},
		{"signals: {abandoned: {serie: x}}", `line 1: unknown field "serie"`},
		{"signal: {}", `line 1: unknown field "signal"`},
		{"lock_label: a b\nsignals: {abandoned: {series: x}}", `lock_label: "a b" is no label name`},
		{"extends: lockcor", `extends: "lockcor" is not shipped; there are lockcore, cordum, watch`},
		{"extends: lockcore\nthresholds: {not_owned: 1}", "thresholds.not_owned: unknown threshold"},
		{"extends: lockcore\nthresholds: {not_owned_ratio: -1}", "thresholds.not_owned_ratio: -1: want a number from 0 up"},
		{"extends: lockcore\nthresholds: {not_owned_ratio: .nan}", "want a number"},
		{"", "signals: none; `lockdrill export mapping` prints"},
		{"extends: lockcore\n---\nc: d", "more than one document"},
		{"[", "did not find expected node content"},
	} {
		m, err := deploy.ParseMapping("m.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "m.yaml: ") {
			t.Errorf("%s:\ngot  %v, %+v\nwant %s", c.text, err, m, c.want)
		}
	}
	_, err := deploy.ParseMapping("m.yaml", []byte("signals: {a: {series: x}, abandoned: {series: 'x['}}\nthresholds: {b: 1}"))
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("want three problems in three lines: %v", err)
	}
}

// A name from a mapping cannot leave its place: neither the comment nor the description that it stands in.
func TestMappingNameStaysInItsComment(t *testing.T) {
	m := parse(t, "x\ngroups: []", "extends: lockcore")
	text, _, err := deploy.Rules(m, deploy.RulesForm{})
	testkit.Must(t, err)
	if strings.Contains(string(text), "\ngroups: []") {
		t.Errorf("%s", text)
	}
}

// Every series of the lock core's mapping is one that lockcore/metrics really has, with the labels and the values that are asked for.
func TestLockcoreMappingMeetsItsMetrics(t *testing.T) {
	families := exposed(t)
	m := mappings(t)["lockcore"]
	asked := 0
	for name, s := range m.Signals {
		if strings.HasPrefix(s.Series, "lockdrill_") {
			continue
		}
		asked++
		metric, matchers, _ := strings.Cut(strings.TrimSuffix(s.Series, "}"), "{")
		values := families[metric]
		if values == nil {
			t.Errorf("%s: lockcore/metrics has no %s", name, metric)
			continue
		}
		for _, l := range append([]string{m.LockLabel}, s.By...) {
			if len(values[l]) == 0 {
				t.Errorf("%s: %s has no label %s", name, metric, l)
			}
		}
		for _, match := range regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"(.*?)"`).FindAllStringSubmatch(matchers, -1) {
			want := regexp.MustCompile("^(?:" + match[3] + ")$")
			if !slices.ContainsFunc(values[match[1]], want.MatchString) {
				t.Errorf("%s: no series of %s has %s, only %q", name, metric, match[0], values[match[1]])
			}
		}
	}
	if asked < 14 {
		t.Errorf("only %d series of the lock core are in its mapping", asked)
	}
}

// exposed is what the instruments of a lock show at a scrape: the names of series, and the values of each label.
func exposed(t *testing.T) map[string]map[string][]string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	all, err := metrics.New(reg)
	testkit.Must(t, err)
	l := all.For(metrics.Labels{Namespace: "approval", Profile: "p", Policy: "standard"})
	l.Sought(client.Seeking{Class: "small", Mode: lockcore.AcquireWait, Result: lockcore.OK}) // waits and holds come with their class
	l.Stopped(client.Stopping{Class: "small"})
	families, err := reg.Gather()
	testkit.Must(t, err)
	series := map[string]map[string][]string{}
	for _, f := range families {
		values := map[string][]string{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				values[l.GetName()] = append(values[l.GetName()], l.GetValue())
			}
		}
		first := f.Metric[0].GetHistogram()
		if first == nil {
			series[f.GetName()] = values
			continue
		}
		series[f.GetName()+"_sum"] = maps.Clone(values)
		for _, b := range first.Bucket {
			values["le"] = append(values["le"], fmt.Sprint(b.GetUpperBound()))
		}
		series[f.GetName()+"_bucket"] = values
	}
	return series
}

// Every series about drills is one that a run's metrics.prom has, with the labels that the rules keep.
func TestMappingsMeetWhatARunLeaves(t *testing.T) {
	data := string(testkit.Read(t, "../reports/testdata/formats/prom.txt"))
	labels := map[string][]string{
		"drill_last_pass": {"experiment"}, "drill_verdict": {"experiment", "verdict"}, "drill_slo_met": {"experiment", "lock", "slo"},
		"drill_slo_violated": {"experiment", "lock", "slo"}, "drill_takeover": {"experiment", "lock", "stat", "bound"},
		"drill_fault_start": {"experiment", "fault"}, "drill_fault_end": {"experiment", "fault"},
	}
	for name, m := range mappings(t) {
		for signal, wanted := range labels {
			s := m.Signals[signal]
			if s == nil {
				t.Errorf("%s has no %s", name, signal)
				continue
			}
			sample := regexp.MustCompile(`(?m)^` + s.Series + `\{.*`).FindString(data)
			for _, l := range wanted {
				if !strings.Contains(sample, l+`="`) {
					t.Errorf("%s: %s: no label %s in %q", name, s.Series, l, sample)
				}
			}
		}
	}
	if !strings.Contains(data, `slo="duplicate_terminal_states"`) || !strings.Contains(data, `verdict="dirty"`) || !strings.Contains(data, `bound="hi"`) {
		t.Error("the values that rules ask for are not there")
	}
}
