package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

const burstDrill = `kill: {holder_of: loop, phase: after_renew}`

// Two runs that are given one folder: one of them is refused, the other has its verdict.
func TestTwoRunsInOneFolder(t *testing.T) {
	t.Parallel()
	needDrill(t)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "drill.yaml"), filepath.Join(dir, "run")
	write(t, file, []byte(goodDrill))
	var codes [2]int
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() {
			cmd := lockdrill("run", file, "--out", out)
			_, _ = cmd.CombinedOutput()
			codes[i] = cmd.ProcessState.ExitCode()
		})
	}
	wg.Wait()
	if codes != [2]int{verdict.ExitPass, verdict.ExitUsage} && codes != [2]int{verdict.ExitUsage, verdict.ExitPass} {
		t.Errorf("exits %v, want one pass and one refusal", codes)
	}
	if _, err := os.Stat(filepath.Join(out, verdictFile)); err != nil {
		t.Error(err)
	}
}

// A drill that cannot be run hides no verdict of the one before it.
func TestARefusalHidesNoFailure(t *testing.T) {
	t.Parallel()
	needDrill(t)
	dir := t.TempDir()
	fail := edit(t, goodDrill, "takeover: {max: 2s}", "takeover: {min: 2s, max: 4s}") // sooner than allowed: no late machine explains that
	tiny := edit(t, goodDrill, "steady_state:", "time_scale: 0.03\nsteady_state:")
	for name, text := range map[string]string{"fail.yaml": fail, "tiny.yaml": tiny} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	if got := tryIn(t, dir, "run", "fail.yaml", "tiny.yaml"); got.code != verdict.ExitSLOFailed {
		t.Errorf("exit %d, want %d\n%s", got.code, verdict.ExitSLOFailed, got.stderr)
	}
}

// A redis-server that is a wrapper which does not exec is told apart, and nothing of it is left.
func TestAWrappedRedisServerLeavesNothing(t *testing.T) {
	t.Parallel()
	needDrill(t)
	dir := t.TempDir()
	real := redistest.Need(t)
	wrapper := filepath.Join(dir, "bin", "redis-server")
	if err := os.MkdirAll(filepath.Dir(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nsh -c 'echo $$ > "+dir+"/child; exec "+real+" \"$@\"' sh \"$@\" &\nwait\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	file, out := filepath.Join(dir, "drill.yaml"), filepath.Join(dir, "run")
	write(t, file, []byte(goodDrill))
	cmd := lockdrill("run", file, "--out", out)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(wrapper)+":"+os.Getenv("PATH"))
	text, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != verdict.ExitError || !strings.Contains(string(text), "wrapper") {
		t.Errorf("exit %d\n%s", code, text)
	}
	left, err := strconv.Atoi(strings.TrimSpace(string(read(t, filepath.Join(dir, "child"))))) // written before the server was one
	if err != nil {
		t.Fatal(err)
	}
	allGone(t, []int{left})
	if _, err := os.Stat(out); err == nil {
		t.Error("the folder of a run that did not come about is left")
	}
}

// historyOf finds the history of the test's run, "" while there is none.
func historyOf(t *testing.T) func() string {
	pattern := filepath.Join(filepath.Dir(t.TempDir()), "*", "run", historyFile)
	return func() string {
		found, _ := filepath.Glob(pattern)
		if len(found) == 0 {
			return ""
		}
		return found[0]
	}
}
