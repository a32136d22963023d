package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// built is lockdrill as a user has it; TestMain builds it once.
var built string

func TestMain(m *testing.M) { os.Exit(testkit.BuildAndTest(m, buildTags, &built)) }

// lockdrill is a command of the built binary that is not started yet.
func lockdrill(args ...string) *exec.Cmd { return exec.Command(built, args...) }

// What the tests of several packages need.
const goodDrill = testkit.GoodDrill

var (
	until, write, read, must, says = testkit.Until, testkit.Write, testkit.Read, testkit.Must, testkit.Says
	folder, isThere, isGone, edit  = testkit.Folder, testkit.IsThere, testkit.IsGone, testkit.Edit
	unmarshal, atLength            = testkit.Unmarshal, testkit.AtLength
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

// answer is what a command line ends with, and says on either stream.
type answer struct {
	args string
	code int
	says []string
}

// answers checks what a command answers, a line of arguments after another.
func answers(t *testing.T, dir, command string, all []answer) {
	t.Helper()
	for _, a := range all {
		t.Log(a.args)
		tryIn(t, dir, strings.Fields(command+" "+a.args)...).ends(t, a.code, a.says...)
	}
}

// refused checks that a command was refused as one that is wrong, on standard error alone.
func (r result) refused(t testing.TB, words ...string) {
	t.Helper()
	if r.code != verdict.ExitUsage || r.stdout != "" {
		t.Errorf("status %d, want %d and nothing on standard output: %+v", r.code, verdict.ExitUsage, r)
	}
	says(t, r.stderr, words...)
}

// try runs the binary in a fresh working directory and waits for its end.
func try(t *testing.T, args ...string) result {
	t.Helper()
	return tryIn(t, t.TempDir(), args...)
}

func tryIn(t *testing.T, dir string, args ...string) result {
	t.Helper()
	return finish(t, dir, lockdrill(args...))
}

// finish runs a command in a folder and waits for its end.
func finish(t *testing.T, dir string, cmd *exec.Cmd) (r result) {
	t.Helper()
	r.code, r.stdout, r.stderr = testkit.Ended(t, dir, cmd, 5*time.Minute)
	return r
}
