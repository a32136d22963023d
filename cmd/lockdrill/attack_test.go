package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// hookScript is a hook of a user's: it stops the process that it is told of, which is a fault that others can see, and a file beside it
// says that it is on. It writes down each step.
const hookScript = `#!/bin/sh
echo "$LOCKDRILL_STEP $LOCKDRILL_FAULT $LOCKDRILL_VICTIM_NAME $LOCKDRILL_VICTIM_KEY" >> steps
case $1 in
cut) : > on; [ -z "$LOCKDRILL_VICTIM_PID" ] || kill -STOP "$LOCKDRILL_VICTIM_PID"; echo "cut by $` + passwordEnv + `" ;;
look) [ -e on ] && echo "it is on" ;;
mend) rm -f on; [ -z "$LOCKDRILL_VICTIM_PID" ] || kill -CONT "$LOCKDRILL_VICTIM_PID" 2>/dev/null || : ;;
esac
`

// hookFolder is a folder with the script, and the fault that uses it.
func hookFolder(t *testing.T) (dir, fault string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "hook.sh"), []byte(hookScript), 0o700))
	return dir, fmt.Sprintf("hook: {holder_of: loop, do: [./hook.sh, cut], undo: [./hook.sh, mend], confirm: [./hook.sh, look], dir: %q}", dir)
}

var consent = []string{"--environment", "local", "--confirm", "good"}

func stepsOf(t *testing.T, dir string) string { return string(read(t, filepath.Join(dir, "steps"))) }

// A runner that dies while a command of a hook is at work takes it along, before it is undone: what the command would still do, nobody
// would undo.
func TestARunnerKilledInTheMiddleOfAHookEndsIt(t *testing.T) {
	besideDrills(t)
	for _, by := range []string{"watchdog", "recover"} {
		dir, _ := hookFolder(t)
		pid := filepath.Join(dir, "pid")
		slow := `[sh, -c, "echo $$ > pid.new; mv pid.new pid; sleep 1000; : > on"]`
		k := killable{args: consent, yaml: withFault(t, goodDrill, "30s", fmt.Sprintf(`hook: {replica: r1, do: %s, undo: [./hook.sh, mend], confirm: ["true"], within: 50s, dir: %q}`, slow, dir))}
		run := killWhen(t, k, by == "recover", func(string, fmt.Stringer) {
			until(t, "the command", func() bool { _, err := os.Stat(pid); return err == nil })
		})
		if by == "recover" {
			recoverAfter(t, run)
		}
		nothingIsLeft(t, run)
		number := read(t, pid)
		n, err := strconv.Atoi(strings.TrimSpace(string(number)))
		must(t, err)
		allGone(t, []int{n})
		if got := stepsOf(t, dir); got != "undo f#1 r1 \n" && got != "undo kill#1 r1 \n" {
			t.Errorf("%s: steps %q", by, got)
		}
	}
}

const burstDrill = `kill: {holder_of: loop, phase: after_renew}`

// Two runs that are given one folder: one of them is refused, the other has its verdict.
func TestTwoRunsInOneFolder(t *testing.T) {
	besideDrills(t)
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
	isThere(t, filepath.Join(out, verdictFile))
}

// A redis-server that is a wrapper which does not exec is told apart, and nothing of it is left.
func TestAWrappedRedisServerLeavesNothing(t *testing.T) {
	besideDrills(t)
	dir := t.TempDir()
	real := redistest.Need(t)
	wrapper := filepath.Join(dir, "bin", "redis-server")
	must(t, os.MkdirAll(filepath.Dir(wrapper), 0o755))
	must(t, os.WriteFile(wrapper, []byte("#!/bin/sh\nsh -c 'echo $$ > "+dir+"/child; exec "+real+" \"$@\"' sh \"$@\" &\nwait\n"), 0o755))
	file, out := filepath.Join(dir, "drill.yaml"), filepath.Join(dir, "run")
	write(t, file, []byte(goodDrill))
	cmd := lockdrill("run", file, "--out", out)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(wrapper)+":"+os.Getenv("PATH"))
	text, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != verdict.ExitError || !strings.Contains(string(text), "wrapper") {
		t.Errorf("exit %d\n%s", code, text)
	}
	left, err := strconv.Atoi(strings.TrimSpace(string(read(t, filepath.Join(dir, "child"))))) // written before the server was one
	must(t, err)
	allGone(t, []int{left})
	isGone(t, out)
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

// A drill that cannot be run hides no verdict of the one before it: the worst status counts.
func TestARefusalHidesNoFailure(t *testing.T) {
	besideDrills(t)
	dir := folder(t, "tiny.yaml", edit(t, goodDrill, "steady_state:", "time_scale: 0.03\nsteady_state:"),
		"fail.yaml", edit(t, goodDrill, "takeover: {max: 2s}", "takeover: {min: 2s, max: 4s}")) // sooner than allowed: no late machine explains that
	tryIn(t, dir, "run", "fail.yaml", "tiny.yaml").ends(t, verdict.ExitSLOFailed)
}
