package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// gateway speaks as much of a Pushgateway's API as a push uses: POST replaces the metrics of the same name within the group of the path.
type gateway struct {
	mu     sync.Mutex
	groups map[string]map[string]*dto.MetricFamily
	status int
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.status != 0 || r.Method != http.MethodPost || r.ContentLength <= 0 {
		http.Error(w, "no", max(g.status, http.StatusBadRequest))
		return
	}
	if g.groups == nil {
		g.groups = map[string]map[string]*dto.MetricFamily{}
	}
	if g.groups[r.URL.Path] == nil {
		g.groups[r.URL.Path] = map[string]*dto.MetricFamily{}
	}
	dec := expfmt.NewDecoder(r.Body, expfmt.ResponseFormat(r.Header))
	for {
		var f dto.MetricFamily
		if err := dec.Decode(&f); err == io.EOF {
			break
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		g.groups[r.URL.Path][f.GetName()] = &f
	}
	w.WriteHeader(http.StatusAccepted)
}

// wants checks what was pushed last of an experiment: its verdict, with no label that the group has already.
func (g *gateway) wants(t *testing.T, job, experiment, verdict string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	family := g.groups["/metrics/job/"+job+"/experiment/"+experiment]["lockdrill_run_verdict"]
	if family == nil || !slices.ContainsFunc(family.Metric, func(m *dto.Metric) bool {
		return len(m.Label) == 1 && m.Label[0].GetValue() == verdict && m.Gauge.GetValue() == 1
	}) {
		t.Errorf("verdict %s of %s was not pushed, but %v", verdict, experiment, g.groups)
	}
}

func TestPushgateway(t *testing.T) {
	t.Parallel()
	const file = "theirs.yaml"
	dir := folder(t, file, theirDrill(t))
	var g gateway
	server := httptest.NewServer(&g)
	defer server.Close()
	cmd := lockdrill("run", file, "--pushgateway", server.URL, "--job", "game-days")
	cmd.Env = append(os.Environ(), "GITHUB_STEP_SUMMARY="+dir)
	got := finish(t, dir, cmd)
	got.ends(t, verdict.ExitRefused, "lockdrill: GITHUB_STEP_SUMMARY: ") // what cannot be written is said, and changes no status
	if strings.Contains(got.stderr, "lockdrill: --pushgateway") {
		t.Fatalf("%+v", got)
	}
	g.wants(t, "game-days", "theirs", "refused")
	g.mu.Lock()
	g.status = http.StatusInternalServerError
	g.mu.Unlock()
	for _, url := range []string{server.URL, "http://user:hunter2@127.0.0.1:1"} {
		got := tryIn(t, dir, "run", file, "--pushgateway", url)
		if got.code != verdict.ExitRefused || !strings.Contains(got.stderr, "lockdrill: --pushgateway: ") || !strings.Contains(got.stderr, "; the verdict stands\n") || strings.Contains(got.stderr, "hunter2") {
			t.Errorf("a gateway that fails: %+v", got)
		}
	}
}

func theirDrill(t *testing.T) string {
	t.Helper()
	return edit(t, goodDrill, "name: good", "name: theirs", "redis: {mode: spawn}", `redis: {mode: external, url: "redis://127.0.0.1:1"}`)
}
