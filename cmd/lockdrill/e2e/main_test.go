package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// built is lockdrill as a user has it; TestMain builds it once.
var built string

func TestMain(m *testing.M) {
	if dir := os.Getenv(scriptedEnv); dir != "" {
		if err := runScripted(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_ = os.Setenv(passwordEnv, somebodysPassword) // here, since tests that set a variable cannot run beside others
	os.Exit(testkit.BuildAndTest(m, buildTags, &built))
}

// lockdrill is a command of the built binary that is not started yet.
func lockdrill(args ...string) *exec.Cmd { return exec.Command(built, args...) }

// What a run's folder has, and the folder of such folders.
const (
	experimentFile = "experiment.yaml"
	historyFile    = "history.jsonl"
	verdictFile    = "verdict.json"
	runsFolder     = "runs"
)

const (
	jobLock, jobWork = testkit.JobLock, testkit.JobWork
	goodDrill        = testkit.GoodDrill
	goodSLO          = testkit.GoodSLO
	shortSLO         = testkit.ShortSLO
)

type saying = testkit.Saying

var (
	until, write, read, must, says = testkit.Until, testkit.Write, testkit.Read, testkit.Must, testkit.Says
	folder, isThere, isGone, edit  = testkit.Folder, testkit.IsThere, testkit.IsGone, testkit.Edit
	unmarshal, atLength, onlyFor   = testkit.Unmarshal, testkit.AtLength, testkit.OnlyFor
)

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// ends checks the status of a command, and what it has said.
func (r result) ends(t testing.TB, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("status %d, want %d: %+v", r.code, code, r)
	}
	says(t, r.stdout+r.stderr, words...)
}

// try runs the binary in a fresh working directory and waits for its end.
func try(t *testing.T, args ...string) result {
	t.Helper()
	return tryIn(t, t.TempDir(), args...)
}

func tryIn(t *testing.T, dir string, args ...string) result {
	t.Helper()
	return finishWithin(t, dir, lockdrill(args...), 5*time.Minute)
}

// finishWithin runs a command in a folder and waits for its end, so long.
func finishWithin(t *testing.T, dir string, cmd *exec.Cmd, within time.Duration) (r result) {
	t.Helper()
	r.code, r.stdout, r.stderr = testkit.Ended(t, dir, cmd, within)
	return r
}

func finish(t *testing.T, dir string, cmd *exec.Cmd) result {
	t.Helper()
	return finishWithin(t, dir, cmd, 5*time.Minute)
}

// judgementIn is the verdict in a run's folder, historyIn its history.
func judgementIn(t *testing.T, dir string) *verdict.Judgement {
	t.Helper()
	j := &verdict.Judgement{}
	unmarshal(t, string(read(t, filepath.Join(dir, verdictFile))), j)
	return j
}

func historyIn(t *testing.T, dir string) *history.History {
	t.Helper()
	_, h := testkit.Run(t, dir)
	return h
}
