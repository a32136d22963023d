package analysis

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/golden"
)

var update = flag.Bool("update", false, "write the histories and golden verdicts of scenarios/testdata anew")

// dirOf is a case's folder.
func dirOf(name string) string { return filepath.Join("..", "scenarios", "testdata", name) }

// digest names the case's experiment, so that lockdrill judge accepts the folder as a run's.
func digest(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dirOf(name), "experiment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(b))
}

// load reads a case as `lockdrill judge` would.
func load(t testing.TB, name string) (*experiments.Experiment, *history.History) {
	t.Helper()
	return loadFrom(t, dirOf(name))
}

// recordings are the folders of all recorded histories: the cases, and those of drills that ran live.
func recordings(t testing.TB) (dirs []string) {
	t.Helper()
	for name := range cases {
		dirs = append(dirs, dirOf(name))
	}
	live, err := filepath.Glob(filepath.Join("..", "reports", "testdata", "recorded", "*", "history.jsonl"))
	if err != nil || len(live) == 0 {
		t.Fatalf("%d live recordings: %v", len(live), err)
	}
	slices.Sort(dirs)
	for _, file := range live {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

func loadFrom(t testing.TB, dir string) (*experiments.Experiment, *history.History) {
	t.Helper()
	e, err := experiments.Load(filepath.Join(dir, "experiment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := history.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return e, h
}

// Every recorded history is what its tape makes, and is judged as its golden file says: figures and codes stand beside the history,
// each sentence once in testdata/sentences.txt. Run with -update after a change, and read the difference.
func TestRecordedHistories(t *testing.T) {
	said, judged := golden.Sentences{}, 0
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, filepath.Join(dirOf(name), "history.jsonl"), string(cases[name]().lines(name, digest(t, name))), *update)
			e, h := load(t, name)
			got, err := Judge(e, h).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			figures, err := golden.Verdict(got, func(field, sentence string) { said.Say(field+" "+name, sentence) })
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join(dirOf(name), "verdict.golden.txt"), figures, *update)
			again, err := Judge(e, h).Marshal()
			if err != nil || !bytes.Equal(got, again) {
				t.Fatal("judged twice, the bytes differ")
			}
			judged++
		})
	}
	if judged == len(cases) { // not some of them, by -run
		golden.Compare(t, filepath.Join("testdata", "sentences.txt"), said.String(), *update)
	}
}
