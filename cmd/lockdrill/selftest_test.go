package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/selftest"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// live plays cases with real processes, a redis-server of their own and real faults.
type live struct{ t *testing.T }

// Play implements selftest.Player.
func (l live) Play(_ context.Context, c *selftest.Case, e *experiments.Experiment) ([]*verdict.Judgement, error) {
	e.Redis.Mode, e.TimeScale, e.System.Worker = experiments.RedisSpawn, 0.05, []string{"lockdrill", "worker"} // a lease of 1.5s out of 30s
	if c.Animal != "" {
		e.System.Worker = append(e.System.Worker, "--animal", c.Animal)
	}
	text, err := experiments.Marshal(e)
	must(l.t, err)
	dir := l.t.TempDir()
	write(l.t, filepath.Join(dir, "case.yaml"), text)
	got := tryIn(l.t, dir, "run", "case.yaml", "--quiet", "--seed", "1", "--out", "run")
	path := filepath.Join(dir, "run", verdictFile)
	switch _, err := os.Stat(path); {
	case got.code == verdict.ExitRefused:
		return nil, &selftest.NotPlayed{Why: got.stderr}
	case got.code == verdict.ExitDirty || err != nil:
		return nil, fmt.Errorf("%+v", got)
	}
	var j verdict.Judgement
	unmarshal(l.t, string(read(l.t, path)), &j)
	return []*verdict.Judgement{&j}, nil
}

// One animal with real processes; make selftest-live takes them all, but for those that are told by the record of a rehearsal.
func TestLiveSelftest(t *testing.T) {
	t.Parallel()
	atLength(t, "drills with real processes")
	redistest.Need(t)
	only := strings.Fields(cmp.Or(os.Getenv("LOCKDRILL_SELFTEST"), "fake-release"))
	if only[0] == "all" {
		only = nil
	}
	cases, err := selftestCases(only)
	must(t, err)
	cases = slices.DeleteFunc(cases, func(c selftest.Case) bool { return c.Scene.Tells })
	if all, err := selftestCases(nil); len(cases) == 0 || err != nil || only == nil && len(all)-len(cases) != 4 { // three animals and a control
		t.Fatalf("%d of %d cases are played live (%v)", len(cases), len(all), err)
	}
	results, err := selftest.Run(t.Context(), cases, live{t}, func(r selftest.Result) { t.Logf("%s, %s: %s", r.Animal, r.Fault, r.Outcome) })
	must(t, err)
	switch code := selftest.Verdict(results); code {
	case verdict.ExitPass:
	case verdict.ExitInconclusive:
		t.Skipf("NOT SHOWN: this machine was too late for a fault of these drills: %+v", results)
	default:
		t.Errorf("status %d: %+v", code, results)
	}
}

// What is printed is how an animal was found out.
func TestSelftest(t *testing.T) {
	t.Parallel()
	got := try(t, "selftest", "--only", "late-timers")
	got.ends(t, verdict.ExitPass, "fence_lag  red, 3 of 3 times\n      want  red\n")
	for line := range strings.Lines(got.stdout) {
		if len(line) > 101 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	got = try(t, "selftest", "--only", "critical", "--seeds", "1", "-f", "json")
	var doc selftestDoc
	unmarshal(t, got.stdout, &doc)
	if got.code != verdict.ExitPass || doc.Verdict != "pass" || len(doc.Cases) < 10 || !doc.Cases[0].Control || doc.Cases[0].Outcome != selftest.Right {
		t.Errorf("status %d\n%s", got.code, got.stdout)
	}
}
