package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sh(script string) Command {
	return Command{Words: []string{"sh", "-c", script}, Within: 20 * time.Second}
}

func TestACommandTellsItsEndAndItsOutput(t *testing.T) {
	c := sh(`echo "$GREETING in $(pwd)"; echo trouble >&2; exit 3`)
	c.Dir, c.Env = "/", []string{"GREETING=hello"}
	r, err := c.Run(t.Context())
	if err != nil || r.Exit != 3 || r.Stdout != "hello in /\n" || r.Stderr != "trouble\n" || r.Cut {
		t.Errorf("%+v, %v", r, err)
	}
	if r.Said() != "trouble hello in /" {
		t.Errorf("said %q", r.Said())
	}
	if _, err := (Command{Words: []string{"no-such-program"}, Within: time.Second}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("%v, want that there is no such program", err)
	}
}

func TestACommandThatTakesTooLongIsEndedWithAllOfItsGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	c := sh(`sleep 1000 & echo $! > "$FILE"; wait`)
	c.Env, c.Within = []string{"FILE=" + file}, 300*time.Millisecond
	began := time.Now()
	if _, err := c.Run(t.Context()); !errors.Is(err, ErrTime) {
		t.Errorf("%v, want that it took too long", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	gone(t, file)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sh("sleep 1000").Run(ctx); err == nil {
		t.Error("a command went on without its caller")
	}
}

// What a command leaves in its group ends with it: else a fault would go on that nobody has written down.
func TestWhatACommandLeavesInItsGroupEndsWithIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	c := sh(`sleep 1000 & echo $! > "$FILE"`)
	c.Env = []string{"FILE=" + file}
	if r, err := c.Run(t.Context()); err != nil || r.Exit != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	gone(t, file)
}

// gone waits until the process with the number in the file is gone, or a corpse.
func gone(t *testing.T, file string) {
	t.Helper()
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %s is still there", pid)
}

func TestOutputIsBoundedAndHidesSecrets(t *testing.T) {
	r, err := sh(`yes | head -c 100000`).Run(t.Context())
	if err != nil || len(r.Stdout) != most || !r.Cut || !strings.HasSuffix(r.Said(), " ...") {
		t.Errorf("%d bytes, cut %v, %v", len(r.Stdout), r.Cut, err)
	}
	t.Setenv("DB_PASSWORD", "hunter2000")
	t.Setenv("PLAIN", "s3")
	c := sh(`echo "at redis://me:you@host, token: abc123 and $DB_PASSWORD, $PLAIN"`)
	c.Secrets = []string{"PLAIN"}
	if r, err = c.Run(t.Context()); err != nil || r.Said() != "at redis://***@host, token: *** and ***, ***" {
		t.Errorf("%q, %v", r.Said(), err)
	}
}
