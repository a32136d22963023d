package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/scenarios"
)

// runScenario runs a shipped scenario through the binary, shortened by the pairs, and returns what it concluded and what happened.
// With a smaller time scale go longer timeouts: a run whose timeouts a busy machine alone could exceed is refused.
func runScenario(t *testing.T, name string, code int, pairs ...string) (verdict.Judgement, *history.History) {
	t.Helper()
	shipped, ok := scenarios.Get(name)
	if !ok {
		t.Fatalf("no scenario is called %s", name)
	}
	file, dir := filepath.Join(t.TempDir(), name+".yaml"), filepath.Join(t.TempDir(), "run")
	text := edit(t, string(shipped), pairs...)
	write(t, file, []byte(strings.ReplaceAll(text, "max_gap: 250ms", "max_gap: 2s"))) // drills run beside this one
	drillEndsWith(t, code, 4*time.Minute, "run", file, "--out", dir)
	data := read(t, filepath.Join(dir, verdictFile))
	var j verdict.Judgement
	if err := json.Unmarshal(data, &j); err != nil {
		t.Fatal(err)
	}
	h, err := readHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	return j, h
}

// Where calls hang, the third failure comes an op timeout after the lease of the published policy has ended.
func TestThePublishedPolicyBelievesForAnOpTimeoutTooLong(t *testing.T) {
	needScenarios(t)
	t.Parallel()
	j, _ := runScenario(t, "black-hole-published-policy", verdict.ExitSLOFailed, "time_scale: 0.1", "time_scale: 0.05",
		"profile: cordum/scheduler-job,", "profile: cordum/scheduler-job, op_timeout: 6s,", "renew_every: 20s,", "renew_every: 20s, op_timeout: 6s, stop_budget: 6s,")
	gaveUp := 0
	for _, a := range j.Abandonments {
		if a.Lock == "published" && a.Reason == "count" {
			gaveUp++
		}
	}
	for _, o := range j.Overlap {
		if o.Level != "belief" || o.Hi == nil {
			continue
		}
		switch {
		case o.Lock == "standard" && *o.Hi > 0:
			t.Errorf("standard: belief overlaps for up to %gs", *o.Hi)
		case o.Lock == "published":
			// 6s at 1/20 of its time, for each key that was given up; as much again for a timer that is late.
			if most := 2 * 0.3 * float64(gaveUp); gaveUp == 0 || o.Lo < 0.02 || o.Lo > most {
				t.Errorf("published: belief overlaps for at least %gs, with %d keys given up: want some of it, at most %gs", o.Lo, gaveUp, most)
			}
		}
	}
	for _, d := range j.Duplicates {
		t.Errorf("%s was finished twice", d.Job)
	}
}
