package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// Workers that were exported and applied by hand are drilled like those that a run makes itself, and are there for the next run.
func TestKubeRunsOnExportedWorkers(t *testing.T) {
	t.Parallel()
	r := newPodRig(t)
	path := filepath.Join(r.dir, "pods.yaml")
	write(t, path, []byte(edit(t, string(read(t, path)), "pods: apply", "pods: use")))
	got := tryIn(t, r.dir, "export", "deployment", "pods.yaml")
	if got.code != verdict.ExitPass || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	applyAll(t, r.admin, got.stdout)
	e, _, err := loadExperiment(path)
	if err != nil {
		t.Fatal(err)
	}
	file := r.shippedRole(t)
	var before []string
	for n := range 2 {
		poll(t, "ready workers", func(ctx context.Context) bool {
			pods, err := r.admin.Pods(ctx, deploy.WorkerLabels(e.Name), "")
			if err != nil {
				t.Fatal(err)
			}
			pods = slices.DeleteFunc(pods, func(p kube.Pod) bool { return !p.Ready || p.Ending })
			return len(pods) == e.System.Replicas
		})
		if n == 0 {
			before = r.standing(t)
		}
		got = tryIn(t, r.dir, "run", "pods.yaml", "--kubeconfig", file, "--environment", "staging", "--confirm", "pods", "--seed", "1")
		t.Logf("%s%s", got.stdout, got.stderr)
		if got.code != verdict.ExitPass {
			t.Fatalf("status %d", got.code)
		}
		if after := r.standing(t); !slices.Equal(after, before) {
			t.Errorf("before the run: %q, after it: %q", before, after)
		}
	}
}

// standing is what remains, without the pods that come and go.
func (r *podRig) standing(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(r.remaining(t), func(name string) bool { return strings.HasPrefix(name, "pods ") })
}
