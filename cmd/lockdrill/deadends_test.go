package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

// A drill that cannot be answered by its own times is no success before it has run, whoever is asked.
func TestADrillThatCannotBeAnsweredIsNoSuccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	drill, ok := scenarios.Get("first-drill")
	if !ok {
		t.Fatal("first-drill is not shipped")
	}
	short := strings.Replace(string(drill), "limits: {max_run: ", "limits: {max_run: 3s} # ", 1)
	if short == string(drill) {
		t.Fatal("first-drill has no max_run to shorten")
	}
	write(t, filepath.Join(dir, "short.yaml"), []byte(short))
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"plan first-drill", verdict.ExitPass, ""},
		{"plan nobody-home", verdict.ExitInconclusive, "L11"},
		{"plan short.yaml", verdict.ExitInconclusive, "L10"},
		{"validate --strict first-drill", verdict.ExitPass, ""},
		{"validate --strict nobody-home", verdict.ExitUsage, "L11: lock job: 1 of 1 shot of fault kill-holder will come"},
		{"validate --strict short.yaml", verdict.ExitUsage, "L10: the run: the run takes about"},
		{"rehearse first-drill --seeds 2", verdict.ExitPass, ""},
		{"rehearse nobody-home --seeds 2", verdict.ExitInconclusive, "no simulated run measured it, because no fault hit a lock holder"},
	} {
		got := tryIn(t, dir, strings.Fields(c.args)...)
		if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.says) {
			t.Errorf("%s: status %d, want %d with %q\n%s%s", c.args, got.code, c.code, c.says, got.stdout, got.stderr)
		}
	}
}
