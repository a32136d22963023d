package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// A collector gets the trace of a run, and says nothing about its verdict: one that refuses, or is not there, is told in one line.
func TestATraceChangesNoVerdict(t *testing.T) {
	dir := storedRun(t, t.TempDir(), "traced")
	r, err := readRun(io.Discard, dir, "")
	must(t, err)
	var asked atomic.Int64
	status := http.StatusOK
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked.Add(1)
		w.WriteHeader(status)
	}))
	judged := func(endpoint string) (code int, lines []string) {
		var stderr bytes.Buffer
		g := gate{gateFlags: gateFlags{otlp: endpoint}, stderr: &stderr}
		g.leave = func(map[string]string) error { return nil }
		g.judged(r, dir)
		return verdict.WorstExit(g.codes...), strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
	}
	expect := func(what string, code int, lines []string, requests int64, text string) {
		t.Helper()
		if code != r.Judgement.ExitCode || len(lines) != 1 || !strings.Contains(lines[0], text) || asked.Swap(0) != requests {
			t.Errorf("%s: status %d, %d requests: %q", what, code, asked.Load(), lines)
		}
	}
	code, lines := judged("")
	expect("nobody wants it", code, lines, 0, "")
	if buildTags == "" {
		code, lines = judged(collector.URL)
		expect("the plain build", code, lines, 0, "no OpenTelemetry")
		if got := tryIn(t, t.TempDir(), "run", "first-drill", "--otlp", collector.URL); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "-tags full") {
			t.Errorf("status %d: %s", got.code, got.stderr)
		}
		return
	}
	code, lines = judged(collector.URL)
	expect("a collector", code, lines, 1, "lockdrill: --otlp: trace ")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	code, lines = judged("")
	expect("the variable", code, lines, 1, "lockdrill: --otlp: trace ")
	status = http.StatusForbidden
	code, lines = judged(collector.URL)
	expect("a collector that refuses", code, lines, 1, "the verdict stands")
	collector.Close()
	code, lines = judged(collector.URL)
	expect("no collector", code, lines, 0, "the verdict stands")
	if got := tryIn(t, t.TempDir(), "run", "first-drill", "--otlp", "collector:4317"); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "http://collector:4318") {
		t.Errorf("status %d: %s", got.code, got.stderr)
	}
}
