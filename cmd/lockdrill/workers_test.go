package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// copied are the commands of the workers in scenarios/workers.
func copied(t *testing.T) map[string][]string {
	t.Helper()
	script, err := filepath.Abs("../../scenarios/workers/python/worker.py")
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]string{"go": {goWorker(t)}, "python": {witnesstest.Python(t), "-B", script}}
}

func goWorker(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "../../scenarios/workers/go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the worker in Go: %v\n%s", err, out)
	}
	return binary
}
