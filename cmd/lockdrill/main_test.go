package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
