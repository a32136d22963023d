package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/runs"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// What the exported alerts on drills ask of a run is told of the latest one that was brought, and its last pass stays.
func TestTheMetricsTellWhatAlertsAsk(t *testing.T) {
	const ran = 40 * time.Minute
	dir := t.TempDir()
	s := start(t, dir, func(o *Options) {
		observe := o.Reader.Observe
		o.Reader.Observe = func(ctx context.Context, dir string) (*compare.Observed, error) {
			seen, err := observe(ctx, dir)
			if err == nil {
				question := verdict.Sample{Question: &experiments.Limit{Lock: "leader", Measure: "takeover"}}
				row := compare.Row{Sample: question, Verdict: verdict.Fail}
				if seen.Run.Verdict == "pass" {
					row.Verdict = verdict.Pass
				}
				started, err := time.Parse(time.RFC3339Nano, seen.Run.Started)
				if err != nil {
					t.Error(err)
				}
				seen.Ended = started.Add(ran).Format(time.RFC3339Nano)
				seen.Rows = []compare.Row{row, {Sample: question, Verdict: verdict.Pass}} // two of one name
			}
			return seen, err
		}
	})
	passed := time.Date(2026, 7, 6, 12, 0, 0, 0, time.UTC)
	for i, says := range []string{"pass", "slo-failed"} {
		id := fmt.Sprint("run-", i)
		if code, body := s.put(t, id, files(t, id, says, passed.Add(time.Duration(i)*time.Minute))); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
	}
	testkit.Until(t, "both runs", func() bool { return len(s.index.Runs(runs.Query{States: []runs.State{runs.Judged}})) == 2 })
	_, page := s.ask(t, "GET", "/metrics", Anybody, nil)
	for _, want := range []string{
		`lockdrill_run_verdict{experiment="nightly",verdict="slo-failed"} 1`, `lockdrill_run_verdict{experiment="nightly",verdict="pass"} 0`,
		fmt.Sprintf(`lockdrill_run_last_pass_timestamp_seconds{experiment="nightly"} %s`, strconv.FormatFloat(float64(passed.Add(ran).Unix()), 'g', -1, 64)),
		`lockdrill_slo_violated{experiment="nightly",lock="leader",slo="takeover"} 1`, `lockdrill_slo_met{experiment="nightly",lock="leader",slo="takeover"} 0`,
		`lockdrill_serve_runs{experiment="nightly",verdict="pass"} 1`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}

// The page of a drill that goes on tells what it has said so far, asks to be got anew, and gives way to the report.
func TestALiveDrillIsTold(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, nil)
	run := filepath.Join(dir, "going")
	goes := files(t, "going", "pass", time.Now())
	goes["experiment.yaml"] = liveExperiment
	header, _, _ := strings.Cut(goes["history.jsonl"], "\n")
	testkit.Must(t, errors.Join(os.Mkdir(run, 0o755), os.WriteFile(filepath.Join(run, "experiment.yaml"), []byte(liveExperiment), 0o644)))
	write := func(text string) {
		testkit.Must(t, os.WriteFile(filepath.Join(run, "history.jsonl"), []byte(text), 0o644))
	}
	write(header + "\n" + `{"n":1,"from":1000000000,"to":1000000000,"at":1000000000,"source":"runner","kind":"run.phase","phase":{"name":"steady"}}` + "\n" + `{"n":2,"fr`)
	testkit.Until(t, "the drill to go on", func() bool {
		code, page := s.ask(t, "GET", "/live/going", Anybody, nil)
		return code == http.StatusOK && strings.Contains(page, `http-equiv="refresh"`) && strings.Contains(page, "steady")
	})
	if code, page := s.ask(t, "GET", "/live", Anybody, nil); code != http.StatusOK || !strings.Contains(page, "/live/going") {
		t.Errorf("%d %s", code, page)
	}
	write(goes["history.jsonl"])
	testkit.Until(t, "the report", func() bool {
		code, _ := s.ask(t, "GET", "/live/going", Anybody, nil)
		return code == http.StatusSeeOther
	})
}

const liveExperiment = `apiVersion: lockdrill/v1
kind: Experiment
name: nightly
redis: {mode: embedded}
system: {mode: embedded, replicas: 2, locks: [{name: leader, profile: cordum/workflow-reconciler, key: leader}]}
faults: [{id: kill, kill: {holder_of: leader}}]
slos: [{lock: leader, takeover: {max: 95s}}]
`
