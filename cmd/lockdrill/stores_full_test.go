//go:build full

package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// The example of docs/stores.md, with fewer kills and jobs and a lost answer, comes to a verdict and leaves nothing of its etcd behind. How
// fast the machine is decides whether takeovers are within their limit: what is wrong with a lock would be an overlap or a second end.
func TestLiveTheEtcdExampleRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	t.Parallel()
	redistest.Need(t)
	etcdtest.Need(t)
	page := read(t, "../../docs/stores.md")
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the page has no example")
	}
	text = edit(t, text, "repeat: {count: 2, every: 9s}, kill: {holder_of: leader}", "kill: {holder_of: leader}", "at: 6s, repeat: {count: 2, every: 9s}", "at: 6s", "jobs: 60", "jobs: 16",
		"faults:\n", "faults:\n  - {id: lost, at: 10s, for: 5s, renew_failures: {all: true, lock: leader, mode: lost_reply, count: 1, via: proxy}}\n")
	dir := t.TempDir()
	file, run := filepath.Join(dir, "etcd-crash.yaml"), filepath.Join(dir, "run")
	write(t, file, []byte(text))
	out, err := lockdrill("run", "--log-level", "debug", "--out", run, file).CombinedOutput()
	if code := statusOfRun(err); code != 0 && code != 10 && code != 11 {
		t.Fatalf("run: %v\n%s", err, out)
	}
	said := string(out)
	for _, want := range []string{`locks in etcd`, `lost#1 +confirmed: hit 1 of 1 renewals, counted on the way`, `kill-leader#\d+  confirmed`, `nothing left behind`} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("the run does not say %q:\n%s", want, said)
		}
	}
	judged, _ := lockdrill("judge", run).CombinedOutput()
	for _, line := range strings.Split(string(judged), "\n") {
		if strings.Contains(line, "FAIL") && !strings.Contains(line, "takeover") && !strings.HasPrefix(line, "FAIL  etcd") {
			t.Errorf("the lock broke a promise that has nothing to do with time: %s", line)
		}
	}
	if left, err := filepath.Glob(filepath.Join(run, "stores", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func statusOfRun(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return 0
}
