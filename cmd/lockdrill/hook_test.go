package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
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
	if err := os.WriteFile(filepath.Join(dir, "hook.sh"), []byte(hookScript), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, fmt.Sprintf("hook: {holder_of: loop, do: [./hook.sh, cut], undo: [./hook.sh, mend], confirm: [./hook.sh, look], dir: %q}", dir)
}

var consent = []string{"--environment", "local", "--confirm", "good"}

func stepsOf(t *testing.T, dir string) string { return string(read(t, filepath.Join(dir, "steps"))) }

// A hook strikes whom the file names, is confirmed by its own command and undone when its time is up; what it says stands in the history,
// without secrets; and the drill sees what it does: here, a holder that stands still and loses its lease.
func TestAHookIsDoneSeenAndUndone(t *testing.T) {
	t.Parallel()
	needDrill(t)
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
	if _, err := os.Stat(filepath.Join(dir, "on")); err == nil {
		t.Error("the hook was not undone")
	}
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
	t.Parallel()
	needDrill(t)
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
		if err != nil {
			t.Fatal(err)
		}
		allGone(t, []int{n})
		if got := stepsOf(t, dir); got != "undo f#1 r1 \n" && got != "undo kill#1 r1 \n" {
			t.Errorf("%s: steps %q", by, got)
		}
	}
}
