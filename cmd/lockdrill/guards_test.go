package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// loopPolicy is that of a leader who renews.
const loopPolicy = `      policy:
        ttl: 1s
        renew_every: 300ms
        class: standard
        op_timeout: 200ms
        release: {mode: none}
        acquire: {mode: try, timeout: 200ms}
        loop: {poll: 100ms, mode: renewed}
`

// guardedDrill is a drill without end, with sections of one's own.
const guardedDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: guarded
%s
system:
  mode: embedded
  replicas: 2
  locks:
    - name: loop
      key: the-loop
` + loopPolicy + `steady_state: {for: 200ms, timeout: 20s}
faults:
  - {id: slow, at: 1h, kill: {holder_of: loop}}
slos:
  - {lock: loop, takeover: {max: 5s}}
`

const embeddedRedis = "redis: {mode: embedded}\n"

// guarded writes guarded.yaml with the given sections into a fresh folder.
func guarded(t *testing.T, sections string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if !strings.Contains(sections, "limits:") {
		sections += "limits: {max_run: 2h}\n"
	}
	write(t, filepath.Join(dir, "guarded.yaml"), fmt.Appendf(nil, guardedDrill, sections))
	return dir
}

func onlyFile(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if !strings.Contains(strings.Join(names, " "), e.Name()) {
			t.Errorf("%s was made", e.Name())
		}
	}
}

// A refused run says why, and how to consent, and leaves nothing. Its plan shows the same, and is refused by what no word of the operator's
// can mend. Which guard refuses what is the tests' of package drill.
func TestARefusedRunTouchesNothing(t *testing.T) {
	t.Parallel()
	external := "environment: staging\nredis: {mode: external, url: \"redis://127.0.0.1:1\", password_env: " + passwordEnv + "}\n"
	for _, c := range []struct {
		sections, says string
		plan           int
	}{
		{embeddedRedis + "environment: staging\n", `the file is for "staging", and what a run starts itself is "local"`, verdict.ExitRefused},
		{embeddedRedis + "environment: staging\nproxy: {mode: external, url: \"http://127.0.0.1:8474\"}\n",
			"\nTo consent to what the drill would touch: lockdrill run guarded.yaml --confirm=guarded --environment=staging\n", verdict.ExitPass},
		{external, "guarded: refused: nothing was touched", verdict.ExitRefused},
		{strings.Replace(external, passwordEnv, "NOT_SET_HERE", 1), "NOT_SET_HERE", verdict.ExitUsage},
	} {
		dir, code := guarded(t, c.sections), verdict.ExitRefused
		if c.plan == verdict.ExitUsage {
			code = c.plan
		}
		if got := tryIn(t, dir, "run", "guarded.yaml"); got.code != code || got.stdout != "" || !strings.Contains(got.stderr, c.says) || strings.Contains(got.stderr, somebodysPassword) {
			t.Errorf("run: %+v, want status %d with %q", got, code, c.says)
		}
		if got := tryIn(t, dir, "plan", "guarded.yaml"); got.code != c.plan || strings.Contains(got.stdout, "REFUSES") == (c.plan == verdict.ExitUsage) {
			t.Errorf("plan of %q: %+v, want status %d", c.says, got, c.plan)
		}
		onlyFile(t, dir, "guarded.yaml")
	}
}

// pausedDrill stops the leader for longer than the test may take.
func pausedDrill() string {
	yaml := fmt.Sprintf(guardedDrill, embeddedRedis+"limits: {max_run: 2h}\n")
	return strings.Replace(yaml, "{id: slow, at: 1h, kill: {holder_of: loop}}", "{id: gc, for: 1h, pause: {holder_of: loop}}", 1)
}

// stoppedChild waits until a replica is stopped, and gives all children.
func stoppedChild(t *testing.T, pid int) (children []int) {
	t.Helper()
	until(t, "a stopped replica", func() bool {
		children = childrenOf(pid)
		for _, c := range children {
			data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c))
			if _, rest, ok := strings.Cut(string(data), ") "); ok && strings.HasPrefix(rest, "T") {
				return true
			}
		}
		return false
	})
	return children
}

// The first interrupt stops a run in order, and so does the kill switch, a file beside the experiment; also one that has not begun to drill: it ends the faults that
// are in effect, and says so in the history. The second interrupt leaves at once and names what is not undone; the watchdog undoes it.
func TestInterrupts(t *testing.T) {
	besideDrills(t)
	signal := func(pid int, all ...syscall.Signal) {
		for _, sig := range all {
			must(t, syscall.Kill(pid, sig))
		}
	}
	verified := []string{`"kind":"fault.applied"`, `"kind":"fault.reverted"`, `"kind":"fault.verified"`}
	for _, c := range []struct {
		name, yaml string
		during     func(t *testing.T, dir string, pid int) (children []int)
		code       int
		says, told []string // by the run; in its history
	}{
		{"before the drill", goodDrill, func(t *testing.T, _ string, pid int) []int {
			waitForChild(t, pid, "redis-server")
			defer signal(pid, syscall.SIGINT)
			return childrenOf(pid)
		}, verdict.ExitAborted, nil, nil},
		{"the kill switch", strings.Replace(pausedDrill(), "limits: {", "limits: {kill_switch: stop, ", 1), func(t *testing.T, dir string, pid int) []int {
			defer write(t, filepath.Join(dir, "stop"), nil)
			return stoppedChild(t, pid)
		}, verdict.ExitAborted, nil, append(verified, `"what":"kill_switch"`)},
		{"in a fault", pausedDrill(), func(t *testing.T, _ string, pid int) []int {
			defer signal(pid, syscall.SIGINT)
			return stoppedChild(t, pid)
		}, verdict.ExitAborted, nil, verified},
		{"twice", pausedDrill(), func(t *testing.T, _ string, pid int) []int {
			children := stoppedChild(t, pid)
			signal(pid, syscall.SIGSTOP) // or the fault may be ended between the two
			until(t, "a runner that stands still", func() bool { return strings.HasPrefix(stateOf(fmt.Sprintf("/proc/%d", pid)), "T") })
			signal(pid, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCONT) // two that cannot become one
			return children
		}, verdict.ExitDirty, []string{"left at once", "NOT UNDONE", "gc#1", "by hand", "lockdrill recover "}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var children []int
			dir := t.TempDir()
			o := runDrillIn(t, dir, unrehearsed(c.yaml), func(pid int) { children = c.during(t, dir, pid) })
			o.ends(t, c.code)
			says(t, o.text, c.says...)
			allGone(t, children)
			isGone(t, filepath.Join(o.dir, "stores"))
			if c.told != nil {
				says(t, string(read(t, filepath.Join(o.dir, historyFile))), c.told...)
			}
		})
	}
}
