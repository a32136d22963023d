package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/promtest"
	"github.com/lockdrill/lockdrill/scenarios"
)

// bench is a real Prometheus with the exported rules, which scrapes the replicas of the drills that run in a folder.
type bench struct {
	url, dir, last string // last: the run's folder of the last drill
	manager        string // an Alertmanager that the Prometheus tells, and that drills ask in its place; "" = none
	left           atomic.Value
}

// serve shows what a drill left in metrics.prom, from now on.
func (b *bench) serve(metrics []byte) { b.left.Store(metrics) }

// newBench starts one whose rules have their times multiplied by scale.
func newBench(t *testing.T, scale float64) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir()}
	b.start(t, scale)
	return b
}

// start starts the Prometheus. export are arguments beside those of newBench.
func (b *bench) start(t *testing.T, scale float64, export ...string) {
	t.Helper()
	exported := tryIn(t, b.dir, append([]string{"export", "alerts", "--recording", "--time-scale", fmt.Sprint(scale)}, export...)...)
	exported.ends(t, 0)
	write(t, filepath.Join(b.dir, "rules.yaml"), []byte(exported.stdout))
	write(t, filepath.Join(b.dir, "targets.json"), []byte("[]"))
	b.serve([]byte(passed()))
	left := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b.left.Load().([]byte)) }))
	t.Cleanup(left.Close)
	config := `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- {job_name: replicas, file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]}
- {job_name: drills, static_configs: [{targets: ['` + strings.TrimPrefix(left.URL, "http://") + `']}]}
`
	if b.manager != "" {
		config += "alerting: {alertmanagers: [{static_configs: [{targets: ['" + strings.TrimPrefix(b.manager, "http://") + "']}]}]}\n"
	}
	write(t, filepath.Join(b.dir, "prometheus.yml"), []byte(config))
	b.url = promtest.Prometheus(t, b.dir).URL
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(6 * time.Minute); ; <-tick.C { // until each rule was evaluated once
		if res, err := http.Get(b.url + "/api/v1/rules"); err == nil {
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if bytes.Contains(body, []byte(`"health":"ok"`)) && !bytes.Contains(body, []byte(`"health":"unknown"`)) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatal("prometheus does not evaluate its rules")
		}
	}
}

// drill runs an experiment whose alerts this Prometheus is asked for, and scrapes its replicas.
func (b *bench) drill(t *testing.T, e *experiments.Experiment, limit time.Duration) result {
	t.Helper()
	e.Probes.Alerts = &experiments.Alerts{PromServer: experiments.PromServer{URL: b.url}, API: experiments.APIPrometheus, Every: 200 * time.Millisecond}
	if b.manager != "" {
		e.Probes.Alerts.URL, e.Probes.Alerts.API = b.manager, experiments.APIAlertmanager
	}
	data, err := experiments.Marshal(e)
	must(t, err)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "drill.yaml"), data)
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.follow(dir, over)
	}()
	b.last = filepath.Join(dir, "run")
	got := finishWithin(t, dir, lockdrill("run", "drill.yaml", "--out", "run"), limit)
	close(over)
	<-done
	if _, err := os.Stat(filepath.Join(b.last, "verdict.json")); err != nil {
		t.Fatalf("no verdict: %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	return got
}

// follow keeps the targets up to date with what the run's history says of its replicas.
func (b *bench) follow(dir string, over <-chan struct{}) {
	var f *os.File
	var in *bufio.Reader
	var half []byte
	serve := map[string]string{}
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		if f == nil {
			if f, _ = os.Open(filepath.Join(dir, "run", "history.jsonl")); f == nil {
				continue
			}
			defer f.Close()
			in = bufio.NewReader(f)
		}
		changed := false
		for {
			line, err := in.ReadBytes('\n')
			half = append(half, line...)
			if err != nil {
				break
			}
			var ev history.Event
			if json.Unmarshal(half, &ev) == nil && ev.Replica != nil {
				switch ev.Kind {
				case history.ReplicaReady:
					serve[ev.Replica.Incarnation], changed = ev.Replica.Metrics, true
				case history.ReplicaExit:
					delete(serve, ev.Replica.Incarnation)
					changed = true
				}
			}
			half = nil
		}
		if changed {
			b.scrape(serve)
		}
	}
}

func (b *bench) scrape(serve map[string]string) {
	var targets []string
	for _, addr := range serve {
		targets = append(targets, addr)
	}
	data, _ := json.Marshal([]map[string][]string{{"targets": append([]string{}, targets...)}})
	next := filepath.Join(b.dir, "targets.next")
	if os.WriteFile(next, data, 0o600) == nil {
		_ = os.Rename(next, filepath.Join(b.dir, "targets.json"))
	}
}

// passed is the metrics of a drill that has just passed.
func passed() string {
	return fmt.Sprintf("lockdrill_run_last_pass_timestamp_seconds{experiment=\"weekly\"} %d\nlockdrill_run_verdict{experiment=\"weekly\",verdict=\"pass\"} 1\n", time.Now().Unix())
}

func shipped(t *testing.T, name string) *experiments.Experiment {
	t.Helper()
	data, ok := scenarios.Get(name)
	if !ok {
		t.Fatalf("no scenario %s", name)
	}
	e, err := experiments.Parse(name, data)
	must(t, err)
	return e
}

// asks adds a row of alerts to an experiment. Times are those of the rules, in full.
func asks(e *experiments.Experiment, fault, alert string, scale float64, within, resolves time.Duration) {
	room := func(d time.Duration) time.Duration { return time.Duration(float64(d)*scale) + 10*time.Second } // scrapes, and a busy machine
	e.Expect = append(e.Expect, experiments.SLO{Fault: fault, Alert: &alert, AlertLimit: experiments.AlertLimit{Within: room(within), ResolvesWithin: room(resolves)}})
}

// verdictOf reads the rows about alerts of the last drill.
func (b *bench) verdictOf(t *testing.T) (rows []verdict.SLOResult) {
	t.Helper()
	for _, r := range judgementIn(t, b.last).Rows() {
		if strings.HasPrefix(r.Measure, "alert.") {
			rows = append(rows, r)
		}
	}
	return rows
}

// rough is a drill of which somebody is: a burst of failing renewals that outlasts the lease.
func rough(t *testing.T) *experiments.Experiment {
	e := shipped(t, "first-drill")
	e.System.Locks, e.AllowOverlap = e.System.Locks[1:], nil // of the jobs
	e.System.Work[0].Jobs, e.System.Work[0].Hold = 50, experiments.Hold{P50: 3 * time.Second, P99: 3 * time.Second}
	burst := e.Faults[1]
	burst.ID, burst.At, burst.For, burst.Repeat.Count = "burst", 4*time.Second, 2*time.Second, 1 // once a busy machine has scraped each counter at 0
	burst.Spec = fault.New("renew_failures")
	burst.Spec.(fault.Aimed).AimAt().HolderOf = "job"
	e.Faults = []experiments.Fault{burst}
	e.SLOs = []experiments.SLO{{Lock: "job", Overlap: &experiments.OverlapLimit{Level: "effect", Count: *experiments.AtMost(0)}}}
	return e
}

const benchScale = 0.05 // a rate over 5 minutes looks back 15 s: a busy machine may miss half of the scrapes

func TestLiveARealPrometheusSaysThatAnAlertFires(t *testing.T) {
	t.Parallel()
	newBench(t, benchScale).burst(t)
}

func TestARealAlertmanagerSaysThatAnAlertFires(t *testing.T) {
	onlyFor(t, "LOCKDRILL_ALERTS", "", "lets a real Prometheus tell a real Alertmanager")
	b := &bench{dir: t.TempDir(), manager: promtest.Alertmanager(t, "[]").URL}
	b.start(t, benchScale)
	b.burst(t)
}

// burst is a drill that provokes an alert, and waits until it is over.
func (b *bench) burst(t *testing.T) {
	t.Helper()
	e := rough(t)
	asks(e, "burst", "LockAbandoned", benchScale, time.Minute, 6*time.Minute)
	got := b.drill(t, e, time.Minute)
	rows := b.verdictOf(t)
	if len(rows) != 2 || rows[0].Verdict != verdict.Pass || rows[1].Verdict != verdict.Pass || rows[0].Lo <= 0 || rows[1].Lo < 1 {
		t.Errorf("renewals that fail: %+v\n%s%s", rows, got.stdout, got.stderr)
	}
	if !strings.Contains(got.stdout, "burst provokes alert LockAbandoned fires <= ") {
		t.Errorf("the report does not show the alert:\n%s", got.stdout)
	}
}

// TestEveryAlertFires is the exported rules beside the shipped drills that each names, at the drills' time scales or, with
// LOCKDRILL_ALERTS=full, at time scale 1.
func TestEveryAlertFires(t *testing.T) {
	asked := os.Getenv("LOCKDRILL_ALERTS")
	if asked == "" {
		t.Skip("LOCKDRILL_ALERTS=scaled lets each alert fire in a real Prometheus: a quarter of an hour; =full takes hours")
	}
	for _, c := range alertsBesideDrills {
		t.Run(c.scenario, func(t *testing.T) {
			if !strings.Contains(c.scenario, os.Getenv(onlyEnv)) {
				t.Skip("not asked for")
			}
			e := shipped(t, c.scenario)
			if asked == "full" {
				e.TimeScale, e.SteadyState.Timeout = 1, 30*time.Minute // a job takes its time
			}
			e.Limits.MaxRun = 3 * time.Hour
			unasked := func(id string) bool { // another fault would come while the alert is awaited
				return c.rows[0].fault != "" && !slices.ContainsFunc(c.rows, func(r alertRow) bool { return r.fault == id })
			}
			e.Faults = slices.DeleteFunc(e.Faults, func(f experiments.Fault) bool { return unasked(f.ID) })
			e.Expect = slices.DeleteFunc(e.Expect, func(s experiments.SLO) bool { return unasked(s.Fault) })
			for _, r := range c.rows {
				if r.fault == "" {
					e.SLOs = append(e.SLOs, experiments.SLO{Alert: &r.alert, AlertLimit: experiments.AlertLimit{Silent: true, Within: 5 * time.Second}})
					continue
				}
				asks(e, r.fault, r.alert, e.TimeScale, r.within, r.resolves)
			}
			b := newBench(t, e.TimeScale)
			got := b.drill(t, e, 3*time.Hour)
			for _, r := range b.verdictOf(t) {
				if t.Logf("%s of %s: %s, %.1f s to %s", r.Measure, r.Fault, r.Verdict, r.Lo, atMostText(r.Hi)); r.Verdict != verdict.Pass {
					t.Errorf("%+v", r)
				}
			}
			if t.Failed() {
				t.Logf("%s\n%s", got.stdout, got.stderr)
			}
		})
	}
}

func atMostText(hi *float64) string {
	if hi == nil {
		return "nobody knows"
	}
	return fmt.Sprintf("%.1f s", *hi)
}

// What a drill left is scraped, and fires as long as the last run says so; what nobody serves is missed.
func TestAlertsOnDrillsFire(t *testing.T) {
	onlyFor(t, "LOCKDRILL_ALERTS", "", "lets each alert fire in a real Prometheus")
	for _, c := range alertsAfterDrills {
		t.Run(c.scenario, func(t *testing.T) {
			if !strings.Contains(c.scenario, os.Getenv(onlyEnv)) {
				t.Skip("not asked for")
			}
			dir := t.TempDir()
			finish(t, dir, lockdrill(append([]string{"run", c.scenario, "--metrics-file", "left.prom"}, c.consent...)...))
			b := newBench(t, benchScale)
			b.serve(read(t, filepath.Join(dir, "left.prom")))
			b.await(t, "fire", func(firing []string) bool {
				return !slices.ContainsFunc(c.fires, func(a string) bool { return !slices.Contains(firing, a) })
			})
			for _, a := range c.silent {
				if slices.Contains(b.firing(t), a) {
					t.Errorf("%s fires as well", a)
				}
			}
			b.serve([]byte(passed() + "lockcore_holders{namespace=\"job\"} 0\n"))
			b.await(t, "go away", func(firing []string) bool {
				return !slices.ContainsFunc(c.fires, func(a string) bool { return slices.Contains(firing, a) })
			})
		})
	}
}

// await polls the alerts until they are as wanted.
func (b *bench) await(t *testing.T, what string, so func(firing []string) bool) {
	t.Helper()
	start, tick := time.Now(), time.NewTicker(200*time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		firing := b.firing(t)
		if so(firing) {
			t.Logf("to %s took %.0f s; %q fire", what, time.Since(start).Seconds(), firing)
			return
		}
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("the alerts do not %s: %q fire", what, firing)
		}
	}
}

// firing are the names of the alerts that fire.
func (b *bench) firing(t *testing.T) (names []string) {
	t.Helper()
	res, err := http.Get(b.url + "/api/v1/alerts")
	must(t, err)
	defer res.Body.Close()
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	must(t, json.NewDecoder(res.Body).Decode(&answer))
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	return names
}
