package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// The article's figures, as a user types them (what is printed is TestTuningDocument's): a drill that validate --strict takes, and the document.
func TestTune(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := "tune --p99 18s --jitter 4s --guard 2s --takeover 30s --profile cordum/scheduler-job --seeds 10"
	got := tryIn(t, dir, append(strings.Fields(args), "--write", "tuned.yaml")...)
	got.ends(t, verdict.ExitPass, "lockdrill run tuned.yaml")
	if strict := tryIn(t, dir, "validate", "--strict", "tuned.yaml"); strict.code != verdict.ExitPass || strict.stderr != "" {
		t.Errorf("the drill that was written: %+v", strict)
	}
	tryIn(t, dir, append(strings.Fields(args), "--write", "tuned.yaml")...).ends(t, verdict.ExitUsage, "nothing is written over")
	var doc forecast.Tuning
	decode(t, tryIn(t, dir, append(strings.Fields(args), "-f", "json")...).stdout, &doc)
	if !doc.Possible || doc.SchemaVersion != 1 || doc.Before.Breaches[0].Breach != 1 || doc.Before.Breaches[1].Breach != 1 || len(doc.After.Breaches) != 2 || doc.After.Breaches[1].Breach != 0 {
		t.Errorf("%+v", doc)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "tuned.yaml")); err != nil || string(data) != doc.Drill {
		t.Errorf("the document has another drill than the file: %v", err)
	}
}

// A wish that no policy keeps has a status of its own, and the sum that breaks.
func TestTuneImpossible(t *testing.T) {
	t.Parallel()
	got := try(t, strings.Fields("tune --p99 18s --jitter 4s --guard 2s --takeover 20s --write tuned.yaml")...)
	if got.code != verdict.ExitImpossible || !strings.Contains(got.stdout, "NO SUCH POLICY\n\nWhy there is none\n  RULE  WHAT IT COMES TO\n  L3    ttl 24s + in flight 2s + acquire 2s = 28s") || strings.Contains(got.stdout, "ttl: ") {
		t.Errorf("%+v", got)
	}
	var doc forecast.Tuning
	decode(t, try(t, strings.Fields("tune --p99 1s --jitter 10s --guard 1ms -f json")...).stdout, &doc)
	if doc.Possible || len(doc.Broken) != 1 || doc.Broken[0].Rule != "L1" || doc.After != nil || doc.YAML != "" {
		t.Errorf("%+v", doc)
	}
}

// Hold times come from a run, by class, and the run's own policy is what was before.
func TestTuneFromARun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "classes.yaml"), []byte(strings.Replace(string(read(t, "../../scenarios/first-drill.yaml")),
		"redeliver: 370ms, fenced: true", "redeliver: 370ms, fenced: true, classes: [small, large]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tryIn(t, dir, "rehearse", "classes.yaml", "--replay", "1", "--out", "run"); got.code != verdict.ExitPass && got.code != verdict.ExitInconclusive {
		t.Fatalf("%+v", got)
	}
	judged := read(t, filepath.Join(dir, "run", verdictFile))
	args := strings.Fields("tune --from run --lock job --jitter 100ms --guard 300ms --takeover 2s --seeds 5 -f json")
	got := tryIn(t, dir, args...)
	var doc forecast.Tuning
	decode(t, got.stdout, &doc)
	if got.code != verdict.ExitPass || len(doc.Measured) != 2 || doc.Measured[0].N < 40 || doc.Before == nil || doc.Before.Name != "the policy of run" || doc.Before.Sums.Lock != "job" {
		t.Fatalf("%+v", got)
	}
	for _, m := range doc.Measured {
		if m.Class != doc.Chosen && *m.P99.Hi > doc.P99 || m.Class == doc.Chosen && *m.P99.Hi > doc.P99 {
			t.Errorf("p99 %g, but class %s has %+v", doc.P99, m.Class, m.P99)
		}
	}
	if string(read(t, filepath.Join(dir, "run", verdictFile))) != string(judged) {
		t.Error("tune has written to the run's folder")
	}
	tryIn(t, dir, strings.Fields("tune --jitter 100ms --from run --lock job --class medium")...).ends(t, verdict.ExitInconclusive, "run: nobody held lock job for a job of class medium\n")
}

// From a histogram a p99 is a bucket, and its upper end counts; where it has none there is no figure, and no policy.
func TestTuneFromAScrape(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scrape := "# TYPE lockcore_held_seconds histogram\n"
	for class, counts := range map[string][4]int{"small": {400, 500, 500, 500}, "large": {0, 300, 398, 400}} {
		for i, le := range []string{"1", "10", "20", "+Inf"} {
			scrape += fmt.Sprintf("lockcore_held_seconds_bucket{namespace=\"job\",class=%q,le=%q} %d\n", class, le, counts[i])
		}
		scrape += fmt.Sprintf("lockcore_held_seconds_sum{namespace=\"job\",class=%q} 1\nlockcore_held_seconds_count{namespace=\"job\",class=%q} %d\n", class, class, counts[3])
	}
	for name, text := range map[string]string{"scrape.txt": scrape, "open.txt": strings.ReplaceAll(scrape, "} 398", "} 390")} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	got := tryIn(t, dir, strings.Fields("tune --from scrape.txt --jitter 4s --guard 2s --takeover 40s --seeds 5")...)
	got.ends(t, verdict.ExitPass, "[10.0, 20.0]s  400", "the longest p99: it decides", "[1.0, 10.0]s", "without renewals this class asks for ttl 16s by its p99, 16s by its p95", "work p99 20s + jitter 4s + guard 2s = 26s", "The upper end of the p99 counts.")
	small := tryIn(t, dir, strings.Fields("tune --from scrape.txt --class small --lock job --jitter 4s --guard 2s --seeds 5")...)
	small.ends(t, verdict.ExitPass, "work p99 10s")
	tryIn(t, dir, strings.Fields("tune --jitter 4s --from open.txt")...).ends(t, verdict.ExitInconclusive, "open.txt: the p99 for a job of class large is above 20s and has no upper end: add larger buckets, or give --p99\n")
}

// A Prometheus is asked for what it has seen in a window, and its round trips of renewals are the jitter where none is named.
func TestTuneFromAPrometheus(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		asked = append(asked, query)
		var result []map[string]any
		if r.URL.Path != "/api/v1/query" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		ends, counts := []string{"+Inf", "10", "20"}, []string{"400.2", "300", "399.6"} // in no order, and estimates
		if strings.Contains(query, "rtt") {
			ends, counts = []string{"0.05", "0.2", "+Inf"}, []string{"10", "1000", "1000"}
		}
		for i, le := range ends {
			result = append(result, map[string]any{"metric": map[string]string{"le": le}, "value": []any{1.5, counts[i]}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
	}))
	defer server.Close()
	got := try(t, "tune", "--from", server.URL, "--window", "30m", "--lock", "job", "--seeds", "3")
	got.ends(t, verdict.ExitPass, "work p99 20s + jitter 200ms + guard 0s", "  400\n")
	if !strings.Contains(got.stderr, "jitter 200ms: the p99 of lockcore_renew_rtt_seconds") || len(asked) != 2 ||
		asked[0] != `sum by (class, le) (increase(lockcore_held_seconds_bucket{namespace="job"}[1800s]))` {
		t.Errorf("%q, %s", asked, got.stderr)
	}
	server.Close()
	try(t, "tune", "--from", server.URL).refused(t, server.URL)
}

// The longest lease is tuned and rehearsed: what the flags may say, the drill can.
func TestTuneTheLongestLease(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--p99 23h --jitter 1h", "--p99 23h --jitter 1h --loop", "--p99 23h59m --p50 23h59m --jitter 2ms --takeover 24h --replicas 100"} {
		got := try(t, append(strings.Fields("tune --seeds 1"), strings.Fields(args)...)...)
		if got.code != verdict.ExitPass && !strings.Contains(got.stdout, "NO SUCH POLICY") || strings.Contains(got.stdout, "not reached") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// The example of docs/rehearsal.md is what the command prints. What rehearsals measured may differ in its last digits, whether a promise was
// breached may not.
func TestTuningDocument(t *testing.T) {
	t.Parallel()
	command, shown := transcript(t, "../../docs/rehearsal.md", "tune")
	measured := regexp.MustCompile(`(average|takeovers  |(?:%| of 20) )(\s+)[\d.]+m?s(?: to [\d.]+m?s|\s+[\d.]+m?s)?`)
	plain := func(s string) string { return measured.ReplaceAllString(s, "$1 #") }
	if got := try(t, strings.Fields(strings.TrimPrefix(command, "$ lockdrill "))...); got.code != verdict.ExitPass || plain(got.stdout) != plain(shown) {
		t.Errorf("status %d; the document shows\n%s\nand the command prints\n%s", got.code, shown, got.stdout)
	}
}

// Without a wish the sums of a profile are what there is to say. Which they are is the tests' of package forecast.
func TestTuneSumsUpAProfile(t *testing.T) {
	t.Parallel()
	answers(t, t.TempDir(), "tune --profile", []answer{
		{"kubernetes/leader-election --takeover 35s", verdict.ExitPass, []string{"L1 ok leader-election gives up ttl 15s - drift 0s - stop budget 3s = 12s after its last success was sent"}},
		{"cordum/pending-replayer --takeover 30s", verdict.ExitPass, []string{"L3 WARN pending-replayer takeover max 30s", "Your timings do not guarantee it. In the file, keep"}},
		{"cordum/approval --p99 9s", verdict.ExitPass, []string{"L7 WARN approval never renewed: work p99 9s + acquire 2s = 11s, over ttl 10s"}},
	})
	var doc sumsDoc
	decode(t, try(t, "tune", "--profile", "cordum/approval", "--p99", "18s", "-f", "json").stdout, &doc)
	if len(doc.Sums) < 4 || doc.Profile != "cordum/approval" {
		t.Errorf("document: %+v", doc)
	}
}
