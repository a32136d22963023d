package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/selftest"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// One animal with real processes; make selftest-live takes them all.
func TestLiveSelftest(t *testing.T) {
	t.Parallel()
	atLength(t, "drills with real processes")
	redistest.Need(t)
	got := try(t, "selftest", "--live", "-f", "json", "--only", "fake-release")
	var doc selftestDoc
	unmarshal(t, got.stdout, &doc)
	if got.code == verdict.ExitInconclusive && !slices.ContainsFunc(doc.Cases, func(r selftest.Result) bool { return r.Outcome != selftest.Right && r.Outcome != selftest.Void }) {
		t.Skipf("NOT SHOWN: this machine was too late for a fault of these drills\n%s", got.stderr)
	}
	if got.code != verdict.ExitPass || doc.Mode != "live" || len(doc.Cases) < 1 {
		t.Errorf("status %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// What is printed is how an animal was found out; what is written on the record of a rehearsal is not played live.
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
	f := selftestFlags{live: true, seeds: 1, scale: selftestScale}
	live, err := f.cases()
	f.live = false
	all, err2 := f.cases()
	if err != nil || err2 != nil || len(live) == 0 || len(all)-len(live) != 4 { // three animals and a control
		t.Errorf("%d of %d cases are played live (%v, %v)", len(live), len(all), err, err2)
	}
}
