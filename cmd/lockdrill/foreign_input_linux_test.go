package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Whatever is wrong with what a file says of somebody's service is said by its place and with a remedy, and nobody is struck. What a file
// or its source cannot mean is 2, what is away is 13, what only a run can find out is 11.
func TestLiveAServiceOfSomebodysOwnThatAFileDescribesWrongly(t *testing.T) {
	t.Parallel()
	service := startElectors(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/jobs" {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, `[{"n": "1", "at": "2"}]`)
	}))
	t.Cleanup(api.Close)
	away := httptest.NewServer(nil)
	away.Close()
	after := func(text string) []string { return []string{"  locks:\n", text + "  locks:\n"} }
	effects := func(source string) []string {
		return after("  effects:\n    - {name: ticks, lock: leader, " + source + "}\n")
	}
	probes := func(text string) []string { return []string{"probes: {", "probes: {" + text + ", "} }
	for _, c := range []struct {
		what string
		edit []string
		code int
		says string
	}{
		{"a key that nobody has", []string{"key: sched:leader", "key: sched:elsewhere", "timeout: 2m", "timeout: 2s"}, verdict.ExitInconclusive, "nobody holds key sched:elsewhere"},
		{"a pattern of keys that nobody has", append(effects("stream: 'sched:nothing', map: {job: job, state: state, terminal: [done]}"), "key: sched:leader", "key_prefix: 'sched:job:'",
			"        loop: {poll: 100ms, mode: renewed}\n", "", "count: 3, every: settled", "count: 1"), verdict.ExitInconclusive, "nobody held a key of lock leader (sched:job:*) at the moment of the shot"},
		{"an answer without the cursor", effects("http: {url: '" + api.URL + "/jobs', param: after, cursor: id}"), verdict.ExitUsage, "an element has no field id, which is to be the cursor: it has at, n"},
		{"a source that fails", effects("http: {url: '" + api.URL + "/broken', param: after, cursor: id}"), verdict.ExitRefused, "answers 500"},
		{"a Prometheus that is away", probes("promql: [{name: up, url: '" + away.URL + "', query: up}]"), verdict.ExitRefused, "probes.promql up: ask the server"},
		{"sources that disagree", append(after("  holder: [{command: {run: [echo, sched-a]}}, {command: {run: [echo, sched-b]}}]\n"), "count: 3, every: settled", "count: 1"),
			verdict.ExitInconclusive, "disputed holder: command says r1.1, command says r2.1"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.what == "sources that disagree" && os.Getenv(witnessEnv) != "all" {
				t.Skip("of make witness: it takes a minute until the shot is given up")
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "foreign.yaml")
			write(t, path, []byte(edit(t, fmt.Sprintf(foreignDrill, service.port), c.edit...)))
			got := tryIn(t, dir, append([]string{"run", "foreign.yaml"}, foreignConsent...)...)
			if said := strings.Join(strings.Fields(got.stdout+got.stderr), " "); got.code != c.code || !strings.Contains(said, c.says) {
				t.Errorf("status %d, want %d with %q\n%s\n%s", got.code, c.code, c.says, got.stdout, got.stderr)
			}
			if c.code != verdict.ExitInconclusive {
				onlyFile(t, dir, "foreign.yaml")
			}
			t.Log(got.stdout, got.stderr)
		})
	}
	service.goOn(t)
}
