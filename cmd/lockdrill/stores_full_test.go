//go:build full

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// The example of docs/stores.md comes to a verdict, from the file on the page as it stands, and leaves nothing of its etcd behind. How
// fast the machine is decides whether takeovers are within their limit: what is wrong with a lock would be an overlap or a second end.
func TestTheEtcdExampleRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	redistest.Need(t)
	etcdtest.Need(t)
	page, err := os.ReadFile("../../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the page has no example")
	}
	dir := t.TempDir()
	file, run := filepath.Join(dir, "etcd-crash.yaml"), filepath.Join(dir, "run")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := lockdrill("run", "--out", run, file).CombinedOutput()
	if code := statusOfRun(err); code != 0 && code != 10 && code != 11 {
		t.Fatalf("run: %v\n%s", err, out)
	}
	said := string(out)
	for _, want := range []string{"locks in etcd", "kill-leader#1  confirmed", "nothing left behind"} {
		if !strings.Contains(said, want) {
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
