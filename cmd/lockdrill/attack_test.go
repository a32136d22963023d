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
	"github.com/lockdrill/lockdrill/history"
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

// A hook strikes whom the file names, is confirmed by its own command and undone when its time is up; what it says stands in the history,
// without secrets; and the drill sees what it does: here, a holder that stands still and loses its lease.
func TestAHookIsDoneSeenAndUndone(t *testing.T) {
	besideDrills(t)
	dir, fault := hookFolder(t)
	s := strike(t, "for: 1500ms, "+fault, consent...)
	confirmed := s.one(t, history.FaultConfirmed)
	if got, want := confirmed.Fault.Detail, "do: cut by ***; confirm: it is on"; got != want {
		t.Errorf("detail %q, want %q", got, want)
	}
	name := history.ReplicaOf(confirmed.Fault.Victim)
	if got, want := stepsOf(t, dir), fmt.Sprintf("do f#1 %s the-loop\nconfirm f#1 %s the-loop\nundo f#1 %s the-loop\n", name, name, name); !strings.HasSuffix(got, "the-loop\n") || got != want {
		t.Errorf("steps\n%swant\n%s", got, want)
	}
	isGone(t, filepath.Join(dir, "on"))
	reverted := s.over(t, history.FaultReverted)
	if lasted := reverted.From - s.one(t, history.FaultApplied).From; lasted < 1400e6 {
		t.Errorf("it was undone after %d ns", lasted)
	}
	taken := 0
	for _, x := range s.j.Takeovers {
		if x.Fault == "f#1" && x.Lock == "loop" && x.Class == verdict.ClassPause {
			taken++
		}
	}
	if taken != 1 {
		t.Errorf("takeovers %+v, want the one of the hook\n%s", s.j.Takeovers, s.text)
	}
}

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

// A drill that cannot be run hides no verdict of the one before it.
func TestARefusalHidesNoFailure(t *testing.T) {
	besideDrills(t)
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
