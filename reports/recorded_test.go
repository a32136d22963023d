package reports

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// recordedRuns are the folders of testdata/recorded, with the verdict of each. Every format has a golden file of each.
var recordedRuns = map[string]string{
	"pass-1": "pass", "pass-6": "pass", "fail": "slo-failed", "inconclusive": "inconclusive", "aborted": "aborted", "dirty": "dirty", "hostile": "pass",
}

// recorded is a run of testdata/recorded, judged as `lockdrill judge` would.
func recorded(t testing.TB, name string) Run {
	t.Helper()
	return runIn(t, filepath.Join("testdata", "recorded", name))
}

// runIn is the run whose experiment and history lie in dir.
func runIn(t testing.TB, dir string) Run {
	t.Helper()
	e, h := testkit.Run(t, dir)
	return runOf(e, h)
}

func runOf(e *experiments.Experiment, h *history.History) Run {
	facts := analysis.FactsOf(e, h)
	j := facts.Judge()
	return Run{Experiment: e, Record: RecordOf(e, h), Judgement: j, Lanes: timeline.Read(facts.Facts, j)}
}

// sixtyKills is a drill of sixty kills of a leader, rehearsed: too long a run to be recorded. No golden file is made of it, as it changes
// with the simulation.
func sixtyKills(t testing.TB) Run {
	t.Helper()
	e, err := experiments.Load(filepath.Join("testdata", "sixty-kills.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := rehearsal.New(e, sim.DefaultNet()).Run(context.Background(), 7)
	if err != nil {
		t.Fatal(err)
	}
	return runOf(e, d.History)
}

func TestRecordedRunsAreJudgedAsTheirFoldersSay(t *testing.T) {
	for name, want := range recordedRuns {
		if got := recorded(t, name).Judgement.Verdict; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// The owner's names of replicas, by which its logs are found, stand in the lanes, beside the shots and in report.md; none is endless.
func TestReportsShowTheOwnersNamesOfReplicas(t *testing.T) {
	e, h := testkit.Run(t, filepath.Join("testdata", "recorded", "pass-1"))
	for i := range h.Events {
		if r := h.Events[i].Replica; r != nil {
			r.Called = map[string]string{"r1": "sched-a", "r2": strings.Repeat("endless", 100)}[r.Name]
		}
	}
	r := runOf(e, h)
	page, md := htmlOf(t, r), written(t, markdownOf, r)
	if n := strings.Count(page, "r1 (sched-a)"); n < 2 || !strings.Contains(page, "r1.1 (sched-a)") {
		t.Errorf("the page has r1 (sched-a) %d times, which is not in the lanes and beside the shots, or not r1.1 (sched-a)", n)
	}
	if !strings.Contains(md, "- replicas: r1 (sched-a), r2 (endless") {
		t.Errorf("report.md does not say the names:\n%s", md)
	}
	for _, doc := range []string{page, md} {
		if strings.Contains(doc, strings.Repeat("endless", 10)) {
			t.Error("a name is shown at its whole length")
		}
	}
}
