package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/scenarios"
)

// The rules are judged by Prometheus's own engine: promtool evaluates what is exported on synthetic series.

// tool returns the path of promtool or amtool; without it the test is skipped, in continuous integration it fails.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not on the PATH: continuous integration must evaluate the exported rules and their route (make deps)", name)
	}
	t.Skipf("SKIPPED, NOT TESTED: %s is not on the PATH", name)
	return ""
}

// check runs promtool and fails the test with what it says.
func check(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(tool(t, "promtool"), args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// withOwn is a mapping such as a team writes: another lock label, a counter of its own that begins at its first event.
const withOwn = `
extends: lockcore
lock_label: exported_namespace
signals:
  duplicate_terminal_states: {series: 'app_terminal_writes_total{kind="duplicate"}', by: [app], sparse: true}
  wait:
thresholds: {not_owned_ratio: 0.2}
`

// mappings are those that are tested.
func mappings(t *testing.T) map[string]*deploy.Mapping {
	t.Helper()
	all := map[string]*deploy.Mapping{}
	for _, name := range deploy.MappingNames() {
		data, ok := deploy.MappingSource(name)
		if !ok {
			t.Fatalf("%s has no source", name)
		}
		all[name] = parse(t, name, string(data))
	}
	all["own"] = parse(t, "own", withOwn)
	return all
}

func parse(t *testing.T, name, text string) *deploy.Mapping {
	t.Helper()
	m, err := deploy.ParseMapping(name, []byte(text))
	testkit.Must(t, err)
	return m
}

// series are synthetic series, a sample a minute in promtool's notation, from minute 0 to 100.
type series map[string]string

// scenario says which alerts fire at any time, and no others.
type scenario struct {
	name   string
	over   series   // what differs from the healthy series; "" = the series is absent
	fires  []string // alerts
	silent string   // an alert that a careless rule would raise here
}

// drills are the series of a drill that passed at minute 0.
func drills() series {
	return series{
		`lockdrill_run_last_pass_timestamp_seconds{experiment="weekly"}`:                         "0x100",
		`lockdrill_run_verdict{experiment="weekly",verdict="pass"}`:                              "1x100",
		`lockdrill_run_verdict{experiment="weekly",verdict="dirty"}`:                             "0x100",
		`lockdrill_slo_violated{experiment="weekly",lock="job",slo="takeover"}`:                  "0x100",
		`lockdrill_slo_violated{experiment="weekly",lock="job",slo="duplicate_terminal_states"}`: "0x100",
	}
}

// aboutDrills are scenarios that are the same for every mapping: one goes through them.
func aboutDrills() []scenario {
	const pass, verdict = `lockdrill_run_last_pass_timestamp_seconds{experiment="weekly"}`, `lockdrill_run_verdict{experiment="weekly",verdict="pass"}`
	const dirty = `lockdrill_run_verdict{experiment="weekly",verdict="dirty"}`
	return []scenario{
		{name: "the last pass was nine days ago", over: series{pass: "-777600x100"}, fires: []string{"LockDrillLastPassTooOld"}},
		{name: "it was seven days ago", over: series{pass: "-604800x100"}, silent: "LockDrillLastPassTooOld"},
		{name: "a failed run took the pass out of what is scraped", over: series{pass: "0x30 stale", verdict: "1x30 0x70"}, silent: "LockDrillLastPassTooOld"},
		{name: "a drill has never passed", over: series{pass: "", verdict: "0x100"}, fires: []string{"LockDrillLastPassTooOld"}},
		{name: "one of two drills has never passed", over: series{`lockdrill_run_verdict{experiment="other",verdict="pass"}`: "0x100"}, fires: []string{"LockDrillLastPassTooOld"}},
		{name: "scrapes of the drill are missed", over: series{verdict: "1x30 _x12 1x58", dirty: "0x30 _x12 0x58"}, silent: "LockDrillLastPassTooOld"},
		{name: "no drill shows itself", over: series{pass: "", verdict: "", dirty: ""}, fires: []string{"LockDrillLastPassTooOld"}},
		{name: "the last run violated its takeover SLO", over: series{`lockdrill_slo_violated{experiment="weekly",lock="job",slo="takeover"}`: "0x30 1x70"}, fires: []string{"LockDrillSLOViolated"}, silent: "LockDrillDuplicateTerminalState"},
		{name: "the last run had duplicates", over: series{`lockdrill_slo_violated{experiment="weekly",lock="job",slo="duplicate_terminal_states"}`: "0x30 1x70"}, fires: []string{"LockDrillDuplicateTerminalState"}, silent: "LockDrillSLOViolated"},
		{name: "the last run is dirty", over: series{dirty: "0x30 1x70", verdict: "1x30 0x70"}, fires: []string{"LockDrillDirty"}},
		{name: "the last run was refused", over: series{verdict: "1x30 0x70", `lockdrill_run_verdict{experiment="weekly",verdict="refused"}`: "0x30 1x70"}, fires: []string{"LockDrillRefused"}},
		{name: "it was refused for an hour, and then it passed", over: series{verdict: "0x9 1x91", `lockdrill_run_verdict{experiment="weekly",verdict="refused"}`: "0x100"}, silent: "LockDrillRefused"},
		{name: "it was inconclusive for an hour, and then it failed", over: series{verdict: "0x100", `lockdrill_run_verdict{experiment="weekly",verdict="inconclusive"}`: "0x100", `lockdrill_run_verdict{experiment="weekly",verdict="slo-failed"}`: "1x100"}, silent: "LockDrillUnanswered"},
		{name: "the last run was aborted", over: series{verdict: "1x30 0x70", `lockdrill_run_verdict{experiment="weekly",verdict="aborted"}`: "0x30 1x70"}, fires: []string{"LockDrillUnanswered"}, silent: "LockDrillDirty"},
		{name: "a run broke, and the last one was inconclusive", over: series{verdict: "1x30 0x70", `lockdrill_run_verdict{experiment="weekly",verdict="error"}`: "1x9 0x91", `lockdrill_run_verdict{experiment="weekly",verdict="inconclusive"}`: "0x30 1x70"}, fires: []string{"LockDrillUnanswered"}},
	}
}

// one event at minute 30, of a counter that was there before
const once = "0x30 1x70"

// a process that ends with 7 on its counter, and begins again at 0
const restarted = "7x30 0x70"

func lockcoreSeries() series {
	s := drills()
	maps.Copy(s, series{
		`lockcore_abandoned_total{namespace="job",reason="count",instance="a"}`:                  "0x100",
		`lockcore_renew_budget_exceeded_total{namespace="workflow",instance="a"}`:                "0x100",
		`lockcore_unowned{namespace="job",instance="a"}`:                                         "0x100",
		`lockcore_fence_margin_seconds_bucket{namespace="job",le="0",instance="a"}`:              "0x100",
		`lockcore_fence_margin_seconds_bucket{namespace="job",le="60",instance="a"}`:             "0+100x100",
		`lockcore_stale_write_total{namespace="job",outcome="applied",instance="a"}`:             "0x100",
		`lockcore_stale_write_total{namespace="job",outcome="refused",instance="a"}`:             "0+1x100", // a fence that works alarms nobody
		`lockcore_fence_regression_total{namespace="job",instance="a"}`:                          "0x100",
		`lockcore_renew_total{namespace="job",result="renewed",instance="a"}`:                    "0+600x100",
		`lockcore_renew_total{namespace="job",result="failed",instance="a"}`:                     "0x100",
		`lockcore_release_total{namespace="job",result="released",instance="a"}`:                 "0+60x100",
		`lockcore_release_total{namespace="job",result="failed",instance="a"}`:                   "0x100",
		`lockcore_not_owned_total{namespace="job",op="release",kind="other",instance="a"}`:       "0x100",
		`lockcore_acquire_total{namespace="approval",mode="wait",result="granted",instance="a"}`: "0+60x100",
		`lockcore_acquire_total{namespace="approval",mode="wait",result="held",instance="a"}`:    "0x100",
		`lockcore_acquire_total{namespace="leader",mode="try",result="held",instance="a"}`:       "0+12x100", // a follower is refused all day
		`lockcore_wait_seconds_bucket{namespace="job",class="small",le="1",instance="a"}`:        "0+60x100",
		`lockcore_wait_seconds_bucket{namespace="job",class="small",le="10",instance="a"}`:       "0+60x100",
		`lockcore_wait_seconds_bucket{namespace="job",class="small",le="+Inf",instance="a"}`:     "0+60x100",
		`lockcore_debt_seconds_sum{namespace="job",cause="release_failed",instance="a"}`:         "0x100",
		`lockcore_holders{namespace="job",instance="a"}`:                                         "3x100",
	})
	return s
}

func lockcoreScenarios() []scenario {
	const abandoned = `lockcore_abandoned_total{namespace="job",reason="count",instance="a"}`
	const overBudget = `lockcore_renew_budget_exceeded_total{namespace="workflow",instance="a"}`
	const late = `lockcore_fence_margin_seconds_bucket{namespace="job",le="0",instance="a"}`
	const stale = `lockcore_stale_write_total{namespace="job",outcome="applied",instance="a"}`
	const regressed = `lockcore_fence_regression_total{namespace="job",instance="a"}`
	const unowned = `lockcore_unowned{namespace="job",instance="a"}`
	const failed = `lockcore_renew_total{namespace="job",result="failed",instance="a"}`
	const renewed = `lockcore_renew_total{namespace="job",result="renewed",instance="a"}`
	const notOwned = `lockcore_not_owned_total{namespace="job",op="release",kind="other",instance="a"}`
	const released = `lockcore_release_total{namespace="job",result="released",instance="a"}`
	const unreleased = `lockcore_release_total{namespace="job",result="failed",instance="a"}`
	const busy = `lockcore_acquire_total{namespace="approval",mode="wait",result="held",instance="a"}`
	const debt = `lockcore_debt_seconds_sum{namespace="job",cause="release_failed",instance="a"}`
	const quick = `lockcore_wait_seconds_bucket{namespace="job",class="small",le="1",instance="a"}`
	const holders = `lockcore_holders{namespace="job",instance="a"}`
	return []scenario{
		{name: "one abandonment", over: series{abandoned: once}, fires: []string{"LockAbandoned"}},
		{name: "restart after abandonments", over: series{abandoned: restarted}, silent: "LockAbandoned"},
		{name: "a new replica without abandonments, and missed scrapes", over: series{abandoned: "7x30 _x10 7x60", `lockcore_abandoned_total{namespace="job",reason="count",instance="b"}`: "_x30 0x70"}, silent: "LockAbandoned"},
		{name: "the workflow lock's renewals fail for three intervals, once", over: series{overBudget: once}, fires: []string{"LockRenewalBudgetExceeded"}},
		{name: "restart after such failures", over: series{overBudget: restarted}, silent: "LockRenewalBudgetExceeded"},
		{name: "work without a lock for five minutes", over: series{unowned: "0x30 1x5 0x65"}, fires: []string{"LockWorkUnowned"}},
		{name: "work without a lock in one scrape", over: series{unowned: "0x30 1 0x69"}, silent: "LockWorkUnowned"},
		{name: "one late stop", over: series{late: once}, fires: []string{"LockStoppedLate"}},
		{name: "one late stop, le as Prometheus 3 writes it", over: series{late: "", `lockcore_fence_margin_seconds_bucket{namespace="job",le="0.0",instance="a"}`: once}, fires: []string{"LockStoppedLate"}},
		{name: "restart after late stops", over: series{late: restarted}, silent: "LockStoppedLate"},
		{name: "one stale write applied", over: series{stale: once}, fires: []string{"LockStaleWriteApplied"}},
		{name: "restart after stale writes", over: series{stale: restarted}, silent: "LockStaleWriteApplied"},
		{name: "one fence went back", over: series{regressed: once}, fires: []string{"LockFenceRegressed"}},
		{name: "restart after regressions", over: series{regressed: restarted}, silent: "LockFenceRegressed"},
		{name: "one renewal in twenty fails", over: series{failed: "0+30x100"}, fires: []string{"LockRenewalsFailing"}},
		{name: "a minute in which every renewal fails", over: series{failed: "0x30 600x70", renewed: "0+600x30 18000 18600+600x68"}, silent: "LockRenewalsFailing"},
		{name: "one release in ten is not owned", over: series{notOwned: "0+6x100"}, fires: []string{"LockNotOwnedSustained"}},
		{name: "one release is not owned, where releases are rare", over: series{notOwned: once, released: "0+1x100"}, silent: "LockNotOwnedSustained"},
		{name: "ten minutes of a failover in which half is not owned", over: series{notOwned: "0x30 30+30x9 300x60"}, silent: "LockNotOwnedSustained"},
		{name: "one release in ten fails", over: series{unreleased: "0+6x100"}, fires: []string{"LockReleasesFailing"}},
		{name: "a minute in which every release fails", over: series{unreleased: "0x30 60x70", released: "0+60x30 1800 1860+60x68"}, silent: "LockReleasesFailing"},
		{name: "approvals wait in vain, one in six", over: series{busy: "0+12x100"}, fires: []string{"LockBusySustained"}},
		{name: "a minute of approvals that wait in vain", over: series{busy: "0x30 60x70"}, silent: "LockBusySustained"},
		{name: "debt and waits", over: series{debt: "0+60x100", quick: "0x100"}, fires: []string{"LockDebtDelaysWaiters", "LockWaitLong"}},
		{name: "debt for which nobody waits", over: series{debt: "0+60x100"}, silent: "LockDebtDelaysWaiters"},
		{name: "waits without debt", over: series{quick: "0x100"}, fires: []string{"LockWaitLong"}, silent: "LockDebtDelaysWaiters"},
		{name: "ten releases that failed, and those who waited for them", over: series{debt: "0x30 600x70", quick: "0+60x30 1800 1860+60x68"}, silent: "LockDebtDelaysWaiters"},
		{name: "waits for two minutes", over: series{quick: "0+60x30 1800 1800 1860+60x67"}, silent: "LockWaitLong"},
		{name: "nobody counts", over: series{holders: "3x30 _x70"}, fires: []string{"LockMetricsMissing"}},
		{name: "scrapes are missed for ten minutes", over: series{holders: "3x30 _x10 3x60"}, silent: "LockMetricsMissing"},
	}
}

func cordumSeries() series {
	s := drills()
	maps.Copy(s, series{
		`cordum_scheduler_job_lock_abandoned_total{pod="a"}`: "0x100",
		`job_lock_wait_bucket{pod="a",le="1"}`:               "0+60x100",
		`job_lock_wait_bucket{pod="a",le="10"}`:              "0+60x100",
		`job_lock_wait_bucket{pod="a",le="+Inf"}`:            "0+60x100",
		`stale_jobs{pod="a"}`:                                "0x100",
		`orphan_replayed_total{pod="a"}`:                     "0x100",
	})
	return s
}

func cordumScenarios() []scenario {
	const abandoned, quick = `cordum_scheduler_job_lock_abandoned_total{pod="a"}`, `job_lock_wait_bucket{pod="a",le="1"}`
	const backlog, replays = `stale_jobs{pod="a"}`, `orphan_replayed_total{pod="a"}`
	return []scenario{
		{name: "one abandonment", over: series{abandoned: once}, fires: []string{"LockAbandoned"}},
		{name: "restart after abandonments", over: series{abandoned: restarted}, silent: "LockAbandoned"},
		{name: "long waits", over: series{quick: "0x100"}, fires: []string{"LockWaitLong"}},
		{name: "waits for two minutes", over: series{quick: "0+60x30 1800 1800 1860+60x67"}, silent: "LockWaitLong"},
		{name: "stale jobs pile up", over: series{backlog: "0x30 1+1x69"}, fires: []string{"LockBacklogGrows"}},
		{name: "a leader died, its jobs were stale for twenty minutes", over: series{backlog: "0x30 5+5x19 0x50"}, silent: "LockBacklogGrows"},
		{name: "stale jobs that are worked off", over: series{backlog: "240-1x100"}, silent: "LockBacklogGrows"},
		{name: "orphans all the time", over: series{replays: "0+12x100"}, fires: []string{"LockReplaysSustained"}},
		{name: "the orphans of one crash", over: series{replays: "0x30 40x70"}, silent: "LockReplaysSustained"},
		{name: "nobody counts", over: series{abandoned: ""}, fires: []string{"LockMetricsMissing"}},
	}
}

func ownSeries() series {
	s := drills()
	for name, values := range lockcoreSeries() {
		s[strings.ReplaceAll(name, "namespace=", "exported_namespace=")] = values
	}
	return s
}

func ownScenarios() []scenario {
	const duplicate = `app_terminal_writes_total{kind="duplicate",app="billing"}`
	const notOwned = `lockcore_not_owned_total{exported_namespace="job",op="release",kind="other",instance="a"}`
	return []scenario{
		{name: "the first duplicate, whose series begins with it", over: series{duplicate: "_x30 1x70"}, fires: []string{"LockDuplicateTerminalState"}},
		{name: "a later duplicate", over: series{duplicate: "3x30 4x70"}, fires: []string{"LockDuplicateTerminalState"}},
		{name: "writes that are no duplicates", over: series{`app_terminal_writes_total{kind="first",app="billing"}`: "_x30 1+1x69"}, silent: "LockDuplicateTerminalState"},
		{name: "an old duplicate", over: series{duplicate: "3x100"}, fires: []string{"LockDuplicateTerminalState"}}, // Prometheus itself begins here: it cannot know
		{name: "less than the team's own threshold", over: series{notOwned: "0+6x100"}, silent: "LockNotOwnedSustained"},
		{name: "more than it", over: series{notOwned: "0+20x100"}, fires: []string{"LockNotOwnedSustained"}},
	}
}

func TestAlertsFireAsTheySay(t *testing.T) {
	tool(t, "promtool")
	fired, kept := map[string]bool{}, map[string]bool{}
	for name, set := range map[string]struct {
		healthy   series
		scenarios []scenario
	}{
		"lockcore": {lockcoreSeries(), lockcoreScenarios()},
		"cordum":   {cordumSeries(), append(cordumScenarios(), aboutDrills()...)},
		"own":      {ownSeries(), ownScenarios()}, "watch": {watchSeries(), watchScenarios()},
	} {
		all := append([]scenario{{name: "all is well"}, {name: "there are no series", over: without(set.healthy), fires: []string{"LockDrillLastPassTooOld", "LockMetricsMissing"}}}, set.scenarios...)
		for _, s := range all {
			for _, a := range s.fires {
				fired[a] = true
			}
			kept[s.silent] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, _, err := deploy.Rules(mappings(t)[name], deploy.RulesForm{AlertsOnly: name == "own"}) // what stands alone is the same, written out
			testkit.Must(t, err)
			evaluate(t, text, set.healthy, all)
		})
	}
	for _, a := range alertNames(t) {
		if !fired[a] {
			t.Errorf("no scenario makes %s fire", a)
		}
		if !kept[a] {
			t.Errorf("no scenario tempts %s to fire where it must not", a)
		}
	}
}

func without(s series) series {
	gone := series{}
	for name := range s {
		gone[name] = ""
	}
	return gone
}

// evaluate lets promtool go through the scenarios.
func evaluate(t *testing.T, rules []byte, healthy series, scenarios []scenario) {
	t.Helper()
	type sample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
	type expectation struct {
		Expr     string   `yaml:"expr"`
		EvalTime string   `yaml:"eval_time"`
		Samples  []sample `yaml:"exp_samples"`
	}
	type given struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	type group struct {
		Name     string        `yaml:"name"`
		Interval string        `yaml:"interval"`
		Input    []given       `yaml:"input_series"`
		Tests    []expectation `yaml:"promql_expr_test"`
	}
	var groups []group
	for _, s := range scenarios {
		all := maps.Clone(healthy)
		maps.Copy(all, s.over)
		g := group{Name: s.name, Interval: "1m", Tests: []expectation{{Expr: `count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[100m]))`, EvalTime: "100m"}}}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name] != "" {
				g.Input = append(g.Input, given{name, all[name]})
			}
		}
		for _, a := range s.fires {
			g.Tests[0].Samples = append(g.Tests[0].Samples, sample{fmt.Sprintf("{alertname=%q}", a), 1})
		}
		groups = append(groups, g)
	}
	dir := t.TempDir()
	tests, err := yaml.Marshal(map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": groups})
	testkit.Must(t, err)
	testkit.Write(t, filepath.Join(dir, "rules.yaml"), rules)
	testkit.Write(t, filepath.Join(dir, "tests.yaml"), tests)
	check(t, "check", "rules", filepath.Join(dir, "rules.yaml"))
	check(t, "test", "rules", filepath.Join(dir, "tests.yaml"))
}

// alertNames are the alerts of the table in docs/alerts.md, which are all that there are.
func alertNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\|\\[`(\\w+)`\\]").FindAllStringSubmatch(deploy.Table(), -1) {
		names = append(names, m[1])
	}
	if len(names) < 10 {
		t.Fatalf("only %d alerts: %q", len(names), names)
	}
	return names
}

// What an annotation says, once it is filled in.
func TestAnnotationsReadWell(t *testing.T) {
	text, _, err := deploy.Rules(mappings(t)["lockcore"], deploy.RulesForm{})
	testkit.Must(t, err)
	dir := t.TempDir()
	testkit.Write(t, filepath.Join(dir, "rules.yaml"), text)
	testkit.Write(t, filepath.Join(dir, "tests.yaml"), testkit.Read(t, "testdata/annotations.yaml"))
	check(t, "test", "rules", filepath.Join(dir, "tests.yaml"))
}

// Each alert names a page that is there, and a drill that is shipped.
func TestEveryAlertHasItsPageAndItsDrill(t *testing.T) {
	own := parse(t, "all", "extends: cordum\nsignals: {duplicate_terminal_states: {series: app_total}}")
	seen := map[string]bool{}
	for _, m := range []*deploy.Mapping{mappings(t)["lockcore"], mappings(t)["watch"], own} {
		text, _, err := deploy.Rules(m, deploy.RulesForm{})
		testkit.Must(t, err)
		var doc struct {
			Groups []struct {
				Rules []struct {
					Alert       string
					Annotations struct{ Runbook, Drill string }
				}
			}
		}
		testkit.Must(t, yaml.Unmarshal(text, &doc))
		for _, g := range doc.Groups {
			for _, r := range g.Rules {
				if r.Alert == "" {
					continue
				}
				seen[r.Alert] = true
				if _, err := os.Stat(filepath.Join("..", r.Annotations.Runbook)); err != nil || r.Annotations.Runbook == "" {
					t.Errorf("%s: its page %q: %v", r.Alert, r.Annotations.Runbook, err)
				}
				_, ok := scenarios.Get(r.Annotations.Drill)
				if _, err := os.Stat(filepath.Join("..", r.Annotations.Drill)); !ok && (err != nil || r.Annotations.Drill == "") {
					t.Errorf("%s: no drill %q is shipped", r.Alert, r.Annotations.Drill)
				}
			}
		}
	}
	for _, name := range alertNames(t) {
		if !seen[name] {
			t.Errorf("%s was not looked at", name)
		}
	}
}

// For a drill at a time scale the same rules have shorter windows, and are still rules.
func TestScaledRules(t *testing.T) {
	text, _, err := deploy.Rules(mappings(t)["lockcore"], deploy.RulesForm{TimeScale: 0.05})
	testkit.Must(t, err)
	for _, want := range []string{"lockcore_abandoned_total[15000ms]", "for: 30000ms", "lock:wait_seconds:p99_rate5m > 0.1", "interval: 6000ms", "lock:renewals_failed:ratio_rate5m > 0.01", "lock:debt_seconds:rate5m > 0.5"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q:\n%s", want, text)
		}
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	testkit.Write(t, path, text)
	check(t, "check", "rules", path)
}
