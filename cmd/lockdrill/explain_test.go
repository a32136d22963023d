package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// What explain profile prints can be pasted into a file, and is valid there.
func TestExplainProfile(t *testing.T) {
	t.Parallel()
	for _, name := range experiments.ProfileNames() {
		got := try(t, "explain", "profile", name)
		if got.code != verdict.ExitPass || !strings.HasPrefix(got.stdout, "# "+name+"\n# The lease is ") {
			t.Fatalf("%s: %+v", name, got)
		}
		l, err := experiments.Profile(name)
		must(t, err)
		lock := shortName(name)
		text := "apiVersion: lockdrill/v1\nkind: Experiment\nname: n\nsystem:\n  mode: embedded\n  replicas: 2\n"
		for line := range strings.Lines(got.stdout) {
			text += "  " + line
		}
		if !l.Loop() {
			text += "  work:\n    - {lock: " + lock + ", jobs: 5, rate: 1/s, hold: {p50: 4s}, redeliver: 5s}\n"
		}
		text += "faults:\n  - {id: k, kill: {holder_of: " + lock + "}}\nslos:\n  - {lock: " + lock + ", abandonments: {max: 0}}\n"
		e, err := experiments.Parse("pasted.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%s:\n%v", name, err)
		}
		if !reflect.DeepEqual(e.System.Locks[0].Policy, l.Policy) {
			t.Errorf("%s comes back as %+v", name, e.System.Locks[0].Policy)
		}
		var doc profileDoc
		decode(t, try(t, "explain", "profile", name, "-f", "json").stdout, &doc)
		for _, line := range doc.Beyond {
			if !strings.Contains(got.stdout, "# Not in these words: "+line+"\n") {
				t.Errorf("%s: not in the text: %s", name, line)
			}
		}
		for _, line := range doc.Errors {
			if !strings.Contains(got.stdout, "# Its callers read "+line+"\n") {
				t.Errorf("%s: not in the text: %s", name, line)
			}
		}
		if want := map[string]int{"cordum/approval": 2, "cordum/scheduler-job": 2, "cordum/workflow-run": 1}[name]; len(doc.Errors) != want {
			t.Errorf("%s: its callers read %q", name, doc.Errors)
		}
		if shipped := strings.HasPrefix(name, "lockdrill/"); (len(doc.Beyond) == 0) != shipped { // ours is what its policy says
			t.Errorf("%s says beyond its policy: %v", name, doc.Beyond)
		}
		if doc.Profile != name || !reflect.DeepEqual(doc.Policy, l.Policy) || len(doc.Words) < 4 {
			t.Errorf("document: %+v", doc)
		}
	}
}

// Budget lints are warnings with a place and a sum, in the sheet too; --strict makes them errors; run says them once. Which there are is the
// tests' of package forecast.
func TestValidateLints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := `apiVersion: lockdrill/v1
kind: Experiment
name: lints
system: {mode: embedded, replicas: 3, policy_sheet: sheet.yaml, locks: [{name: job, profile: cordum/scheduler-job}], work: [{lock: job, jobs: 5, rate: 1/s, hold: {p50: 4s}, redeliver: 5s}]}
faults: [{id: k, kill: {holder_of: replayer}}]
slos: [{lock: replayer, takeover: {p95: 94s}}]
`
	sheet := "leader_election:\n  replayer: {poll_interval: 30s, lock_key: k, lock_ttl: 60s, renew_every: 0s, release_mode: ttl_hold}\n"
	for name, text := range map[string]string{"lints.yaml": data, "sheet.yaml": sheet} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	got, lines := tryIn(t, dir, "validate", "lints.yaml"), 0
	for _, want := range []string{
		"warning: lints.yaml:4:73: L1: lock job: acquire 2s + 3 failures * 20s + op timeout 2s = 64s, over ttl 60s",
		"warning: sheet.yaml:2:3: L5: lock replayer: ttl_hold: one replica runs every 60s (poll 30s * 2). ttl 60s is an exact multiple of poll 30s",
		"warning: sheet.yaml:2:3: L8: lock replayer: takeover p95: 1 kill is declared, and an answer needs at least 59",
	} {
		if lines++; !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in %s", want, got.stderr)
		}
	}
	if got.code != verdict.ExitPass || strings.Count(got.stderr, "\n") != lines || !strings.HasPrefix(got.stdout, "lints.yaml: ok: ") {
		t.Errorf("%+v", got)
	}
	if strict := tryIn(t, dir, "validate", "--strict", "lints.yaml"); strict.code != verdict.ExitUsage || strict.stdout != "" || strict.stderr != got.stderr {
		t.Errorf("strict: %+v", strict)
	}
	var doc validateDoc
	decode(t, tryIn(t, dir, "validate", "-f", "json", "--strict", "lints.yaml").stdout, &doc)
	if f := doc.Files[0]; f.OK || len(f.Warnings) != lines || f.Warnings[1].File != "sheet.yaml" || f.Warnings[0].Line != 4 || f.Warnings[0].Rule != "L1" {
		t.Errorf("document: %+v", f)
	}
}

func TestExplainWord(t *testing.T) {
	t.Parallel()
	const mode = "redis.mode (auto, embedded, spawn, external, default auto): auto: a redis-server on the PATH"
	answers(t, t.TempDir(), "explain", []answer{
		{"Fence-Lag", verdict.ExitPass, []string{"fence_lag (measure): work stop minus validity end"}},
		{"tick gap", verdict.ExitPass, []string{"tick_gap (measure): "}},
		{"redis.mode", verdict.ExitPass, []string{mode}},
		{"spawn", verdict.ExitPass, []string{mode}},
		{"limits.max_run", verdict.ExitPass, []string{"limits.max_run (duration above 0, default 10m): the run is aborted after this"}},
		{"max_gap", verdict.ExitPass, []string{"probes.lock_keys.max_gap, probes.ledger.max_gap, probes.leases.max_gap (duration above 0): longest time without a good look; not scaled\n", "system.effects[].max_gap (duration above 0, default 500ms): "}},
		{"holder", verdict.ExitPass, []string{"system.holder (list): how to find who holds a key, in this order (only with system.mode observe)\n"}},
		{"faults[].kill", verdict.ExitPass, []string{"faults[].kill (section): SIGKILL of the replica that holds a lock"}},
		{"", verdict.ExitUsage, []string{"lockdrill explain: which word? There are L1, L10, "}},
	})
	var doc wordDoc
	decode(t, try(t, "explain", "L1", "-f", "json").stdout, &doc)
	if doc.SchemaVersion != 1 || doc.Word != "L1" || doc.Kind != "lint" {
		t.Errorf("%+v", doc)
	}
}
