package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
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
	for _, name := range []string{"GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"} { // of the CI that runs these tests
		_ = os.Unsetenv(name)
	}
	_ = os.Setenv(passwordEnv, somebodysPassword) // here, since tests that set a variable cannot run beside others
	os.Exit(buildAndTest(m))
}

func buildAndTest(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockdrill-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built = filepath.Join(dir, "lockdrill")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-tags", buildTags, "-o", built, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build lockdrill: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// lockdrill is a command of the built binary that is not started yet.
func lockdrill(args ...string) *exec.Cmd { return exec.Command(built, args...) }

var (
	until = testkit.Until
	write = testkit.Write
	read  = testkit.Read
)

func kubeconfig(t *testing.T, dir, url string) { testkit.Kubeconfig(t, dir, url) }

// onlyFor skips a test that takes long, unless a variable asks for it: by a value, or "" by any.
func onlyFor(t testing.TB, variable, value, what string) {
	t.Helper()
	if got := os.Getenv(variable); got == "" || value != "" && got != value {
		t.Skipf("only with %s=%s: %s", variable, value, what)
	}
}

// atLength skips a test where only quick ones are asked for.
func atLength(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: " + what)
	}
}

// must ends a test that lacks what it needs.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folder is a new folder with files: names, and what is in them.
func folder(t testing.TB, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := 0; i < len(files); i += 2 {
		write(t, filepath.Join(dir, files[i]), []byte(files[i+1]))
	}
	return dir
}

// isThere checks that a path exists, isGone that it does not.
func isThere(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

func isGone(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err == nil {
		t.Errorf("%s is there", path)
	}
}

// says checks that a text has each of the words, wherever its lines are broken.
func says(t testing.TB, text string, words ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(text), " ")
	for _, w := range words {
		if !strings.Contains(text, w) && !strings.Contains(flat, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

// unmarshal reads one JSON document.
func unmarshal(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

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
func finish(t *testing.T, dir string, cmd *exec.Cmd) result {
	t.Helper()
	return finishWithin(t, dir, cmd, 5*time.Minute)
}

// finishWithin is finish with a limit: one that hangs, on whatever machine, is killed.
func finishWithin(t *testing.T, dir string, cmd *exec.Cmd, within time.Duration) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	limit := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%s: %v", cmd, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
