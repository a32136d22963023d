package deploy_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/golden"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the diff")

func isGolden(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name), got, *update)
}

func TestGoldenRules(t *testing.T) {
	var rules, dashboards golden.Book
	made := mappings(t)
	for _, name := range slices.Sorted(maps.Keys(made)) {
		for _, c := range []struct {
			form string
			deploy.RulesForm
		}{{"rules", deploy.RulesForm{}}, {"alerts", deploy.RulesForm{AlertsOnly: true}}} {
			text, _, err := deploy.Rules(made[name], c.RulesForm)
			testkit.Must(t, err)
			rules.Add(c.form+" of "+name, string(text))
		}
		text, _, err := deploy.Dashboard(made[name])
		testkit.Must(t, err)
		dashboards.Add(name, string(text))
	}
	isGolden(t, "rules.txt", rules.String())
	isGolden(t, "dashboards.txt", dashboards.String())
}

func TestGoldenCI(t *testing.T) {
	var book golden.Book
	for _, system := range deploy.CISystems() {
		all := []deploy.CIOptions{
			{Experiment: "first-drill", InconclusivePasses: true},
			{Experiment: "drills/weekly.yaml", File: []byte("apiVersion: lockdrill/v1\nkind: Experiment\n\nname: weekly\n"), Redis: experiments.RedisSpawn},
		}
		if asked[system] != nil {
			all = append(all, deploy.CIOptions{Experiment: "drills/approved.yaml", File: []byte("x"), Redis: experiments.RedisEmbedded, Schedule: "17 5 * * 1", Approve: "production"})
		}
		for _, o := range all {
			text, err := deploy.CI(system, o)
			testkit.Must(t, err)
			book.Add(system+" with "+o.Experiment, string(text))
		}
	}
	isGolden(t, "ci.txt", book.String())
}

// A PrometheusRule holds the very rules of the rule file.
func TestResourceHoldsTheSameRules(t *testing.T) {
	m := mappings(t)["lockcore"]
	file, _, err := deploy.Rules(m, deploy.RulesForm{})
	testkit.Must(t, err)
	resource, _, err := deploy.Rules(m, deploy.RulesForm{Resource: true})
	testkit.Must(t, err)
	var plain any
	var wrapped struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       any
	}
	unmarshal(t, file, &plain)
	unmarshal(t, resource, &wrapped)
	a, _ := yaml.Marshal(plain)
	b, _ := yaml.Marshal(wrapped.Spec)
	if string(a) != string(b) || wrapped.APIVersion != "monitoring.coreos.com/v1" || wrapped.Kind != "PrometheusRule" || wrapped.Metadata.Name == "" {
		t.Errorf("%s\n%s", resource, b)
	}
}

// What a mapping lacks is left out, and said in the returned list and in the document; never an empty expression.
func TestWhatIsLeftOutIsSaid(t *testing.T) {
	m := parse(t, "mine.yaml", "signals:\n  abandoned: {series: my_abandoned_total}\n  renewals: {series: my_renewals_total}\n")
	rules, dropped, err := deploy.Rules(m, deploy.RulesForm{})
	testkit.Must(t, err)
	dashboard, alsoDropped, err := deploy.Dashboard(m)
	testkit.Must(t, err)
	for _, d := range dropped {
		if !strings.Contains(string(rules), "\n# "+d.String()+"\n") {
			t.Errorf("not in the rules: %s", d)
		}
	}
	for _, d := range alsoDropped {
		if said, _ := json.Marshal(d.String()); !strings.Contains(string(dashboard), strings.Trim(string(said), `"`)) {
			t.Errorf("not in the dashboard: %s", d)
		}
	}
	kept := strings.Count(string(rules), "- alert: ")
	lost := 0
	for _, d := range dropped {
		if strings.HasPrefix(d.Name, "Lock") {
			lost++
		}
	}
	if kept != 1 || kept+lost != len(alertNames(t)) || strings.Count(string(rules), "expr:") != strings.Count(string(rules), "my_abandoned_total[5m]")+kept {
		t.Errorf("%d kept, %d lost of %d\n%s", kept, lost, len(alertNames(t)), rules)
	}
	if want := "LockRenewalsFailing is left out: the mapping has no renewals_failed"; !strings.Contains(string(rules), want) {
		t.Errorf("does not say %q", want)
	}
	if _, _, err := deploy.Rules(parse(t, "x", "signals: {renewals: {series: my_renewals_total}}"), deploy.RulesForm{}); err == nil {
		t.Error("rules without a rule are no error")
	}
	if _, _, err := deploy.Dashboard(parse(t, "x", "signals: {renewals: {series: my_renewals_total}}")); err == nil {
		t.Error("a dashboard without a panel is no error")
	}
}

// dashboard is what is tested of Grafana's model.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			Expr, LegendFormat, RefID string
			Datasource                struct{ UID string }
		}
	}
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Annotations struct {
		List []struct {
			Name, Expr, TitleFormat string
			UseValueForTime         bool
		}
	}
}

// The dashboard is what Grafana reads, and each of its expressions what Prometheus reads.
func TestDashboard(t *testing.T) {
	for name, m := range mappings(t) {
		text, _, err := deploy.Dashboard(m)
		testkit.Must(t, err)
		var doc dashboard
		testkit.Must(t, json.Unmarshal(text, &doc))
		if doc.UID == "" || doc.SchemaVersion < 36 || len(doc.Templating.List) != 1 || doc.Templating.List[0].Type != "datasource" || doc.Templating.List[0].Name != "datasource" {
			t.Errorf("%s: %+v", name, doc.Templating)
		}
		var exprs []string
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range doc.Panels {
			if p.ID <= 0 || ids[p.ID] {
				t.Errorf("%s: panel %q has id %d", name, p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: panel %q lies on %q, or outside: %+v", name, p.Title, other, p.GridPos)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if (p.Type == "row") != (len(p.Targets) == 0) {
				t.Errorf("%s: panel %q of type %s has %d targets", name, p.Title, p.Type, len(p.Targets))
			}
			for _, q := range p.Targets {
				if q.Datasource.UID != "${datasource}" || q.LegendFormat == "" || q.RefID == "" {
					t.Errorf("%s: %q: %+v", name, p.Title, q)
				}
				exprs = append(exprs, q.Expr)
			}
		}
		windows := false
		for _, a := range doc.Annotations.List {
			exprs = append(exprs, a.Expr)
			windows = windows || a.Name == "fault windows"
		}
		if !windows {
			t.Errorf("%s: no fault windows among the annotations", name)
		}
		parsed(t, exprs)
	}
}

// parsed lets Prometheus read expressions.
func parsed(t *testing.T, exprs []string) {
	t.Helper()
	type rule struct{ Record, Expr string }
	var rules []rule
	for i, e := range exprs {
		if strings.TrimSpace(e) == "" {
			t.Error("an expression is empty")
		}
		rules = append(rules, rule{fmt.Sprintf("x:%d", i), e})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "g", "rules": rules}}})
	testkit.Must(t, err)
	path := filepath.Join(t.TempDir(), "exprs.yaml")
	testkit.Write(t, path, text)
	check(t, "check", "rules", path)
}

// The annotations are where the faults were: of the last run, known only after it.
func TestFaultWindowsAreWhereTheFaultsWere(t *testing.T) {
	text, _, err := deploy.Dashboard(mappings(t)["lockcore"])
	testkit.Must(t, err)
	var doc dashboard
	testkit.Must(t, json.Unmarshal(text, &doc))
	expr := map[string]string{}
	for _, a := range doc.Annotations.List {
		// What is asked at one moment ends there: the end of the shown range is written in.
		expr[a.Name] = strings.ReplaceAll(a.Expr, "@ end()", "@ 6000")
	}
	const fault = `{experiment="weekly", fault="slow"}`
	tests := []any{}
	for _, c := range []struct {
		expr, at, want string
		value          float64
	}{
		{expr["fault windows"], "9m", fault, 0},
		{expr["fault windows"], "10m", fault, 1},
		{expr["fault windows"], "15m", fault, 1},
		{expr["fault windows"], "21m", fault, 0},
		{expr["first shots of faults"], "95m", fault, 600000},
		{expr["passes of drills"], "95m", `{experiment="weekly"}`, 1800000},
	} {
		tests = append(tests, map[string]any{"expr": c.expr, "eval_time": c.at, "exp_samples": []any{map[string]any{"labels": c.want, "value": c.value}}})
	}
	doc2, err := yaml.Marshal(map[string]any{"tests": []any{map[string]any{"interval": "1m", "promql_expr_test": tests, "input_series": []any{
		map[string]any{"series": `lockdrill_fault_start_timestamp_seconds{experiment="weekly",fault="slow"}`, "values": "_x40 600x60"}, // 10m
		map[string]any{"series": `lockdrill_fault_end_timestamp_seconds{experiment="weekly",fault="slow"}`, "values": "_x40 1200x60"},
		map[string]any{"series": `lockdrill_run_last_pass_timestamp_seconds{experiment="weekly"}`, "values": "_x40 1800x60"},
	}}}})
	testkit.Must(t, err)
	path := filepath.Join(t.TempDir(), "tests.yaml")
	testkit.Write(t, path, doc2)
	check(t, "test", "rules", path)
}

// docs/alerts.md shows the alerts, signals and thresholds that are exported: one source.
func TestDocsShowWhatIsExported(t *testing.T) {
	const path = "../docs/alerts.md"
	page := string(testkit.Read(t, path))
	for name, table := range map[string]string{"alerts": deploy.Table(), "signals": deploy.SignalTable()} {
		open, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		before, rest, ok := strings.Cut(page, open)
		shown, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no block %s", path, open)
		}
		if *update {
			page = before + open + table + end + after
			continue
		}
		if shown != table {
			t.Errorf("%s shows other %s (rewrite with -update):\n%s", path, name, table)
		}
	}
	if *update {
		testkit.Must(t, os.WriteFile(path, []byte(page), 0o644))
	}
	for _, m := range regexp.MustCompile(`\]\(([a-z/-]+\.md)\)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join("../docs", m[1])); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The mapping of docs/alerts.md is one.
func TestDocsMapping(t *testing.T) {
	_, rest, _ := strings.Cut(string(testkit.Read(t, "../docs/alerts.md")), "```yaml ignore\n")
	text, _, ok := strings.Cut(rest, "```")
	if m := parse(t, "docs/alerts.md", text); !ok || m.LockLabel == "" || m.Signals["stale_writes_applied"] != nil {
		t.Errorf("%+v", m)
	}
}
