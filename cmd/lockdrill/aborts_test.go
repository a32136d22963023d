package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// page is what somebody's service says of itself at one address; its answer may change.
type page struct {
	url    string
	answer atomic.Pointer[string] // nil = none, the connection is closed
	turned atomic.Int64           // when the answer was asked for the first time after a change, by the wall clock
}

func newPage(t *testing.T, answer string) *page {
	p := &page{}
	p.answer.Store(&answer)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := p.answer.Load()
		if text == nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, *text)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// turn changes the answer once a process stands.
func (p *page) turn(t *testing.T, dir string, answer *string) {
	file := filepath.Join(dir, "runs", "latest", "history.jsonl")
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); <-again.C {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), `"kind":"fault.applied"`) {
			p.answer.Store(answer)
			p.turned.Store(time.Now().UnixNano())
			return
		}
	}
	t.Error("nothing was struck within two minutes")
}

// What somebody's own system says ends the run, and what struck it is undone: a process that stands goes on at once.
func TestWhatAnObservedSystemSaysEndsTheRun(t *testing.T) {
	good, bad := "errors_total 1\n", "errors_total 9\n"
	quiet, loud := `{"status":"success","data":{"resultType":"vector","result":[]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"7"]}]}}`
	metric := "probes: {lock_keys: {every: 5ms, max_gap: 3s}, metrics: [{name: errors, scrape: %q, series: errors_total, every: 500ms}]}\nabort_when: [{name: errors, metric: errors, above: 5"
	query := "probes: {lock_keys: {every: 5ms, max_gap: 3s}}\nabort_when: [{name: query, promql: {url: %q, query: 'rate > 5'}"
	for _, c := range []struct {
		what, sections, before string
		after                  *string
		within                 time.Duration // of the change
		says                   string
	}{
		{"a metric", metric + "}]", good, &bad, time.Second, "abort_when: errors: endpoint gives 9"},
		{"a metric that is away", metric + ", for: 1s}]", good, nil, 12 * time.Second, "abort_when: errors could not be asked for 10s: endpoint: refused"},
		{"a query", query + ", for: 1s}]", quiet, &loud, 3 * time.Second, "abort_when: query: the query gives 7, for 1s"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			service := startElectors(t)
			at := newPage(t, c.before)
			yaml := edit(t, fmt.Sprintf(foreignDrill, service.port),
				"at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}", "at: 0s, for: 50s, pause: {holder_of: leader}",
				"probes: {lock_keys: {every: 5ms, max_gap: 3s}} # this machine may be busy", fmt.Sprintf(c.sections, at.url))
			dir := t.TempDir()
			write(t, filepath.Join(dir, "foreign.yaml"), []byte(yaml))
			if plan := tryIn(t, dir, append([]string{"plan", "foreign.yaml"}, foreignConsent...)...); plan.code != verdict.ExitPass || !strings.Contains(plan.stdout, "the run ends at ") {
				t.Errorf("plan: %+v", plan)
			}
			go at.turn(t, dir, c.after)
			got := tryIn(t, dir, append([]string{"run", "foreign.yaml"}, foreignConsent...)...)
			ended := time.Now()
			h, err := readHistory(filepath.Join(dir, "runs", "latest"))
			if err != nil {
				t.Fatalf("%v\n%+v", err, got)
			}
			why, took, undone := "", time.Duration(0), false
			for _, e := range h.Events {
				switch e.Kind {
				case history.RunAbort:
					why = e.Note.What + ": " + e.Note.Why
				case history.FaultVerified:
					undone = true
				case history.RunEnd:
					took = ended.Sub(time.Unix(0, at.turned.Load()))
				}
			}
			if got.code != verdict.ExitAborted || !strings.HasPrefix(why, "condition: "+c.says) || !undone {
				t.Errorf("exit %d, aborted by %q, undone %v, want %q\n%s", got.code, why, undone, c.says, got.stderr)
			}
			if strings.Contains(c.says, "could not be asked") && !strings.Contains(got.stderr, "cannot be asked") {
				t.Errorf("nobody was told:\n%s", got.stderr)
			}
			if took > c.within+10*time.Second { // stopping and judging take their time here
				t.Errorf("it ended %s after the change, want %s", took, c.within)
			}
			service.goOn(t)
		})
	}
}
