package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

// plan and rehearse say that a fault cannot provoke what the file expects of it, and end with 11; of the file as it is they do not.
func TestWhatFaultsCannotProvokeIsSaidBeforehand(t *testing.T) {
	t.Parallel()
	healthy, _ := scenarios.Get("cordum-scheduler-job")
	mutant := strings.Replace(string(healthy), "cordum/scheduler-job}", "cordum/scheduler-job, class: legacy_warn}", 1)
	for _, c := range []struct {
		args []string
		text string
		code int
		says string
	}{
		{[]string{"plan"}, string(healthy), verdict.ExitPass, "renewals-fail provokes abandonments >= 1: in all of them"},
		{[]string{"plan"}, mutant, verdict.ExitInconclusive, "in none of them. The drill did not provoke"},
		{[]string{"rehearse", "--seeds", "3"}, string(healthy), verdict.ExitPass, "abandonments >= 1: in each of 3 simulated runs"},
		{[]string{"rehearse", "--seeds", "3"}, mutant, verdict.ExitInconclusive, "not in 3 of 3 simulated runs"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "x.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := lockdrill(append(c.args, file)...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		said := strings.Join(strings.Fields(string(out)), " ")
		if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%v: exit status %d, want %d and %q\n%s", c.args, got, c.code, c.says, out)
		}
	}
}
