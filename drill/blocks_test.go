package drill

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// blockedBy is an experiment that a list of blocks may keep from starting.
func blockedBy(t *testing.T, blocks string) *experiments.Experiment {
	t.Helper()
	e, err := experiments.Parse("blocked.yaml", []byte(`
apiVersion: lockdrill/v1
kind: Experiment
name: blocked
redis: {mode: embedded}
system:
  mode: embedded
  replicas: 2
  locks:
    - {name: leader, profile: cordum/workflow-reconciler, key: "leader"}
faults:
  - {id: kill, kill: {holder_of: leader}}
slos:
  - {lock: leader, takeover: {max: 95s}}
blocked_by: [`+blocks+`]
`))
	testkit.Must(t, err)
	return e
}

// What is not quiet, and what cannot be asked, keeps a run from starting; a plan shows it as the run would say it.
func TestWhatCannotBeAskedIsNotQuiet(t *testing.T) {
	const head = `{"status":"success","data":{"resultType":"vector","result":`
	answers := map[string]string{
		"empty": head + `[]}}`, "zero": head + `[{"metric":{},"value":[1,"0"]}]}}`, "three": head + `[{"metric":{},"value":[1,"0"]},{"metric":{"a":"b"},"value":[1,"3"]}]}}`,
		"warnings": head + `[]},"warnings":["store sg-2 is unreachable: partial response"]}`, "partial": head + `[]},"isPartial":true}`,
		"nan": head + `[{"metric":{},"value":[1,"NaN"]}]}}`, "infinite": head + `[{"metric":{},"value":[1,"+Inf"]}]}}`, "null": head + `null}}`, "nothing": `{"status":"success","data":{}}`,
		"scalar": `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`, "range": `{"status":"success","data":{"resultType":"matrix","result":[]}}`,
		"failed": `{"status":"error","errorType":"timeout","error":"query timed out"}`, "page": `<html>`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := strings.Split(r.URL.Path, "/")[1]; name {
		case "away":
			http.Error(w, "away", http.StatusServiceUnavailable)
		case "moved":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "there":
		default:
			_, _ = w.Write([]byte(answers[name]))
		}
	}))
	defer server.Close()
	query := func(name string) string {
		return `{name: it, promql: {url: "` + server.URL + "/" + name + `", query: up}}`
	}
	address := func(name string) string { return `{name: it, url: "` + server.URL + "/" + name + `"}` }
	here := t.TempDir()
	for blocks, want := range map[string]string{
		query("empty"): "", query("zero"): "", query("scalar"): "", address("there"): "", `{file: ` + filepath.Join(here, "absent") + `}`: "",
		query("three"): "it: the query gives 3", query("warnings"): "sg-2 is unreachable", query("partial"): "isPartial", query("nan"): "it cannot be asked: the query gives NaN", query("infinite"): "it cannot be asked: the query gives +Inf",
		query("null"): "it cannot be asked", query("nothing"): "it cannot be asked", query("range"): "it cannot be asked", query("failed"): "it cannot be asked", query("page"): "it cannot be asked", query("away"): "503",
		address("away"): "it: it answers 503", address("moved"): "it: it answers 302", `{url: "http://127.0.0.1:1/quiet"}`: "http://127.0.0.1:1/quiet: it cannot be asked: dial tcp", `{file: ` + here + `}`: "the file is there",
		query("empty") + ", " + query("three") + ", " + address("away"): "it: the query gives 3; it: it answers 503",
	} {
		e := blockedBy(t, blocks)
		g, err := blockGuard(t.Context(), e)
		if err != nil || g.Refuses != (want != "") || !strings.Contains(g.Says, want) || want == "" && !strings.HasPrefix(g.Says, "quiet: ") {
			t.Errorf("%s: %+v, %v, want %q", blocks, g, err, want)
		}
		said := new(Error)
		if err := Authorize(t.Context(), e, Consent{}); want == "" && err != nil || want != "" && (!errors.As(err, &said) || said.Status != verdict.ExitRefused || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: the run is told %v, want %q", blocks, err, want)
		}
		plan, err := Plan(t.Context(), e, Consent{}, func(string) {})
		testkit.Must(t, err)
		if last := plan.Guards[len(plan.Guards)-1]; last != g || !last.Momentary {
			t.Errorf("%s: the plan has %+v, want %+v", blocks, last, g)
		}
	}
}

// An answer that does not come is none.
func TestALateAnswerIsNoQuiet(t *testing.T) {
	asked, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel() // as the deadline does
		<-r.Context().Done()
	}))
	defer server.Close()
	g, err := blockGuard(asked, blockedBy(t, `{url: "`+server.URL+`"}`))
	if err != nil || !g.Refuses || !strings.Contains(g.Says, "it cannot be asked") {
		t.Errorf("%+v, %v", g, err)
	}
}

// Whom to ask as is known before anybody is asked.
func TestABlockWithoutItsSecretIsAMistake(t *testing.T) {
	e := blockedBy(t, `{promql: {url: "http://127.0.0.1:1", query: up, bearer_env: NOT_SET_HERE}}`)
	said := new(Error)
	if err := Authorize(t.Context(), e, Consent{}); !errors.As(err, &said) || said.Status != verdict.ExitUsage || !strings.Contains(err.Error(), "NOT_SET_HERE") {
		t.Errorf("%v", err)
	}
	if _, err := Plan(t.Context(), e, Consent{}, func(string) {}); !errors.As(err, &said) || said.Status != verdict.ExitUsage {
		t.Errorf("the plan: %v", err)
	}
}

// A server that takes too long for a query is asked for less. Another reason, and another question, is told as it is.
func TestAQueryThatTakesTooLongIsToSayLabels(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	client := &http.Client{Timeout: 10 * time.Millisecond}
	defer client.CloseIdleConnections()
	_, late := client.Get(hangs.URL)
	if late == nil {
		t.Fatal("answered")
	}
	for _, c := range []struct {
		where string
		err   error
		want  bool
	}{
		{"probes.promql up", late, true},
		{"probes.alerts", late, false},
		{"probes.promql up", errors.New("connection refused"), false},
	} {
		if got := unasked(c.where, c.err).Error(); strings.Contains(got, "say labels") != c.want {
			t.Errorf("%s: %s", c.where, got)
		}
	}
}
