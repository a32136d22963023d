package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// needDrill skips a test that runs a drill through the binary where only quick tests are asked for (-short): the race detector
// shows nothing in a process that was built without it.
func needDrill(t *testing.T) {
	t.Helper()
	redistest.Need(t)
	atLength(t, "no drill through the binary")
}

// besideDrills is needDrill of a test that runs beside others.
func besideDrills(t *testing.T) {
	t.Helper()
	needDrill(t)
	t.Parallel()
}

const killFault = `  - id: kill
    at: 0s
    repeat: {count: 2, every: settled}
    kill: {holder_of: loop, phase: after_renew}
`

// struck is the good drill with another fault, through the binary: what the history says of it.
type struck struct {
	drillOut
	events []history.Event
}

// patient gives the loop of the good drill times that a busy machine keeps, also where each call that meets its timeout costs a connection.
func patient(t *testing.T, yaml string) string {
	t.Helper()
	return edit(t, yaml, "ttl: 400ms", "ttl: 1s", "op_timeout: 50ms", "op_timeout: 300ms", "try, timeout: 50ms", "try, timeout: 300ms")
}

func readStruck(t *testing.T, o drillOut) struck {
	t.Helper()
	if o.code == verdict.ExitDirty || o.code == verdict.ExitError || o.code == verdict.ExitAborted {
		t.Errorf("exit %d\n%s", o.code, o.text)
	}
	return struck{o, historyIn(t, o.dir).Events}
}

// count is how many events of that kind there are.
func (s struck) count(kind history.Kind) (n int) {
	for _, e := range s.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// The variable that an experiment names for the password of somebody's Redis, and its value. Each command that a test starts has it.
const (
	passwordEnv       = "LOCKDRILL_TEST_PASSWORD"
	somebodysPassword = "hush-hush"
)

// somebodys is a Redis that somebody else has started, with a password and something of their own in it.
func somebodys(t *testing.T) (url string, c *redis.Client) {
	t.Helper()
	redistest.Need(t)
	addr := redistest.Start(t)
	if got := asked(t, addr, "CONFIG SET requirepass "+somebodysPassword); got != "+OK" {
		t.Fatal(got)
	}
	c = redis.NewClient(&redis.Options{Addr: addr, Password: somebodysPassword, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	for key, value := range map[string]string{"theirs": "1", "lockdrill:environment": "staging"} {
		must(t, c.Set(t.Context(), key, value, 0).Err())
	}
	return "redis://" + addr, c
}

func TestLiveADrillAtSomebodysRedisLeavesNothingAndTellsNoPassword(t *testing.T) {
	besideDrills(t)
	url, c := somebodys(t)
	section := fmt.Sprintf("redis: {mode: external, url: %q, password_env: LOCKDRILL_TEST_PASSWORD, allow: [flush, delete_key, pause]}", url)
	drill := func(fault string) string {
		return edit(t, patient(t, goodDrill), "redis: {mode: spawn}", section, "environment: local", "environment: staging", killFault, fault)
	}
	s := readStruck(t, runDrill(t, edit(t, drill(killFault), goodSLO, shortSLO), nil, "--confirm", "good"))
	s.ends(t, verdict.ExitPass)
	said := s.text
	s = readStruck(t, runDrill(t, edit(t, drill("  - {id: flush, at: 100ms, store: {do: flush}}\n  - {id: gone, at: 1s, delete_key: {holder_of: loop}}\n"+
		"  - {id: still, at: 2s, for: 500ms, store: {do: pause}}\nallow_overlap: [[flush, gone], [gone, still], [flush, still]]\n"), goodSLO, shortSLO), nil, "--confirm", "good"))
	if n := s.count(history.FaultConfirmed); n != 3 {
		t.Errorf("%d faults were confirmed, want 3\n%s", n, s.text)
	}
	if keys, err := c.Keys(t.Context(), "*").Result(); err != nil || len(keys) != 2 {
		t.Errorf("left: %v (%v); want just what was theirs", keys, err)
	}
	if strings.Contains(said+s.text, somebodysPassword) {
		t.Errorf("the password is shown:\n%s", s.text)
	}
	_ = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if data, _ := os.ReadFile(path); strings.Contains(string(data), somebodysPassword) {
			t.Errorf("the password is in %s", path)
		}
		return err
	})
}

func TestADrillOverTLS(t *testing.T) {
	besideDrills(t)
	addr, ca, plain := redistest.StartTLS(t)
	yaml := edit(t, patient(t, goodDrill), "redis: {mode: spawn}", fmt.Sprintf("redis: {mode: external, url: %q, ca: %q}", "rediss://"+addr, ca), "environment: local", "environment: staging", goodSLO, shortSLO,
		jobLock, "", jobWork, "") // each of their calls that is late costs a handshake, and those keep the server from all else
	s := readStruck(t, runDrill(t, yaml, nil, "--confirm", "good", "--environment", "staging"))
	s.ends(t, verdict.ExitPass)
	if n := asked(t, plain, "DBSIZE"); n != ":0" {
		t.Errorf("left: %s keys", n)
	}
}

// metricDrill makes renewals of the leader fail until it gives up, then kills a leader; what the replicas count is scraped.
func metricDrill(t *testing.T) string {
	return edit(t, goodDrill,
		"class: standard", "class: legacy_count\n        max_failures: 2",
		"ttl: 400ms", "ttl: 1s", "op_timeout: 50ms", "op_timeout: 300ms", // a busy machine makes no renewal fail
		"    repeat: {count: 2, every: settled}\n    kill: {holder_of: loop, phase: after_renew}",
		"    renew_failures: {holder_of: loop, mode: error, count: 2}\n  - {id: kill-later, at: 2s, kill: {holder_of: loop, phase: after_renew}}",
		"probes:\n", "allow_overlap: [[kill, kill-later]]\nprobes:\n  metrics:\n"+
			"    - {name: abandoned, scrape: replicas, series: lockcore_abandoned_total, labels: {namespace: loop}, every: 100ms}\n"+
			"    - {name: renewals, scrape: replicas, series: lockcore_renew_total, every: 100ms}\n",
		"slos:\n", "slos:\n  - {lock: loop, metric: {name: abandoned, delta: 2}}\n  - {lock: loop, metric: {name: renewals, delta: 1}}\n",
	)
}

func rowOf(t *testing.T, j *verdict.Judgement, measure string) verdict.SLOResult {
	t.Helper()
	for _, s := range j.SLOs {
		if s.Measure == measure {
			return s
		}
	}
	t.Fatalf("no row %s in %+v", measure, j.SLOs)
	return verdict.SLOResult{}
}

// A live drill: what replicas count reaches the verdict, a killed one's counter included, and agrees with what they claim.
func TestMetricsAgreeWithTheHistory(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	o := runDrill(t, metricDrill(t), nil)
	row := rowOf(t, &o.j, "metric.abandoned.delta")
	// On a busy machine the last scrape of the killed replica may come before its abandonment: then the range says so.
	if n := float64(o.j.Counts.Abandonments); row.Verdict != verdict.Pass || row.Hi == nil || row.Lo > n || *row.Hi < n {
		t.Errorf("row %+v with %d abandonments in the history\n%s", row, o.j.Counts.Abandonments, o.text)
	}
	if busy := rowOf(t, &o.j, "metric.renewals.delta"); busy.Verdict != verdict.Fail || busy.Hi != nil {
		t.Errorf("renewals: %+v, want a fail whose upper end died with the killed replica", busy)
	}
	for _, f := range o.j.Findings {
		if strings.Contains(f.What, "metric") {
			t.Errorf("finding: %s", f.What)
		}
	}
}
