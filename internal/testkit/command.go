package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// BuildAndTest builds lockdrill as a user has it, says where, and runs the tests; the variables of the CI that runs them are not theirs.
func BuildAndTest(m *testing.M, tags string, built *string) int {
	for _, name := range []string{"GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"} {
		_ = os.Unsetenv(name)
	}
	dir, err := os.MkdirTemp("", "lockdrill-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*built = filepath.Join(dir, "lockdrill")
	if err := Build(*built, tags); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Build builds lockdrill with build tags, wherever the test's own folder is.
func Build(path, tags string) error {
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-tags", tags, "-o", path, "github.com/lockdrill/lockdrill/cmd/lockdrill")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build lockdrill: %w\n%s", err, out)
	}
	return nil
}

// Ended runs a command in a folder, and waits for its end: one that hangs, on whatever machine, is killed.
func Ended(t testing.TB, dir string, cmd *exec.Cmd, within time.Duration) (code int, stdout, stderr string) {
	t.Helper()
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	limit := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%s: %v", cmd, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// Must ends a test that lacks what it needs.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// OnlyFor skips a test that takes long, unless a variable asks for it: by a value, or "" by any.
func OnlyFor(t testing.TB, variable, value, what string) {
	t.Helper()
	if got := os.Getenv(variable); got == "" || value != "" && got != value {
		t.Skipf("only with %s=%s: %s", variable, value, what)
	}
}

// AtLength skips a test where only quick ones are asked for.
func AtLength(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: " + what)
	}
}

// Folder is a new folder with files: names, and what is in them.
func Folder(t testing.TB, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := 0; i < len(files); i += 2 {
		Write(t, filepath.Join(dir, files[i]), []byte(files[i+1]))
	}
	return dir
}

// IsThere checks that a path exists, IsGone that it does not.
func IsThere(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// IsGone checks that a path does not exist.
func IsGone(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err == nil {
		t.Errorf("%s is there", path)
	}
}

// Says checks that a text has each of the words, wherever its lines are broken.
func Says(t testing.TB, text string, words ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(text), " ")
	for _, w := range words {
		if !strings.Contains(text, w) && !strings.Contains(flat, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

// Edit replaces pieces of a text; a piece that is not there is a mistake of the test.
func Edit(t testing.TB, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the drill has no %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// Unmarshal reads one JSON document.
func Unmarshal(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// Transcript is one of a page: its command, and what that printed.
func Transcript(t testing.TB, page, name string) (command, output string) {
	t.Helper()
	_, rest, _ := strings.Cut(string(Read(t, page)), "<!-- transcript:"+name+" -->\n```\n")
	block, _, closed := strings.Cut(rest, "```\n<!-- /transcript -->\n")
	if !closed {
		t.Fatalf("%s has no block between <!-- transcript:%s --> and <!-- /transcript -->", page, name)
	}
	command, output, _ = strings.Cut(block, "\n")
	return command, output
}

// Saying is what a command has said so far, and whether it has ended. It is safe for concurrent use.
type Saying struct {
	mu   sync.Mutex
	text bytes.Buffer
	over bool
}

func (s *Saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *Saying) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// End says that it has ended.
func (s *Saying) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// Over says whether it has ended.
func (s *Saying) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}
