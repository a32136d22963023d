package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Every measure that an SLO can bound, every lint, class, release and loop mode has a word.
func TestEveryMeasureAndLintHasAWord(t *testing.T) {
	t.Parallel()
	want := []string{"L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L11", "L12"}
	for _, w := range []any{lockcore.Critical, lockcore.Standard, lockcore.Continuity, lockcore.LegacyCount, lockcore.LegacyWarn,
		lockcore.ReleaseNone, lockcore.ReleaseSingle, lockcore.ReleaseBoundedRetry, lockcore.LoopTTLHold, lockcore.LoopExplicit, lockcore.LoopRenewed,
		fault.Crash, fault.Graceful, fault.Evict, fault.ForceDelete, fault.Drain, fault.Cordon, fault.SlowAPI, fault.ReadOnly, fault.AwayAPI} {
		want = append(want, fmt.Sprint(w))
	}
	want = append(want, "stale", "superseded", "repeated", "unattributed", "conflicting") // as verdicts and legends say
	slo := reflect.TypeFor[experiments.SLO]()
	for i := range slo.NumField() {
		if slo.Field(i).Type.Kind() == reflect.Pointer {
			var s experiments.SLO
			reflect.ValueOf(&s).Elem().Field(i).Set(reflect.New(slo.Field(i).Type.Elem()))
			want = append(want, s.Measure())
		}
	}
	seen := map[string]bool{}
	for _, w := range words() {
		if seen[w.name] || w.kind == "" || len(w.meaning) < 10 {
			t.Errorf("%q is there twice, or not whole: %+v", w.name, w)
		}
		seen[w.name] = true
	}
	for _, w := range want {
		if !seen[w] && !explained(w) {
			t.Errorf("%q is not explained", w)
		}
	}
}

func TestExplainWord(t *testing.T) {
	t.Parallel()
	if got := try(t, "explain", "Fence-Lag"); got.code != verdict.ExitPass || !strings.HasPrefix(got.stdout, "fence_lag (measure): work stop minus validity end") {
		t.Errorf("%+v", got)
	}
	var doc wordDoc
	decode(t, try(t, "explain", "L1", "-f", "json").stdout, &doc)
	if doc.SchemaVersion != 1 || doc.Word != "L1" || doc.Kind != "lint" {
		t.Errorf("%+v", doc)
	}
	for word, want := range map[string]string{
		"redis.mode":    "redis.mode (auto, embedded, spawn, external): auto: a redis-server on the PATH",
		"spawn":         "redis.mode (auto, embedded, spawn, external): auto: ",
		"max_gap":       "system.effects[].max_gap, probes.lock_keys.max_gap, probes.ledger.max_gap, probes.leases.max_gap (duration above 0): longest time without a good look; not scaled\n",
		"holder":        "system.holder (list): how to find who holds a key, in this order (only with system.mode observe)\n",
		"faults[].kill": "faults[].kill (section): SIGKILL of the replica that holds a lock",
	} {
		if got := try(t, "explain", word); got.code != verdict.ExitPass || !strings.Contains(got.stdout, want) {
			t.Errorf("explain %s: %+v, want %s", word, got, want)
		}
	}
	misused(t, t.TempDir(), "", map[string]string{
		"explain":                                  "lockdrill explain: which word? There are L1, L10, ",
		"explain takover":                          `lockdrill explain: unknown word "takover", did you mean "takeover"?; see lockdrill explain --help`,
		"explain cordum/approval":                  "lockdrill explain: cordum/approval is a profile: lockdrill explain profile cordum/approval\n",
		"explain profile":                          "lockdrill explain profile: no argument given, usage: lockdrill explain profile NAME",
		"explain profile cordum/aproval":           `lockdrill explain profile: unknown profile "cordum/aproval": did you mean "cordum/approval"?`,
		"tune --profile x":                         `lockdrill tune: unknown profile "x"`,
		"tune --profile cordum/approval --p99 -3s": "lockdrill tune: --p99 -3s: want",
	})
}

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

func TestTuneSumsUpAProfile(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"--profile cordum/pending-replayer --takeover 30s": {
			"L5 WARN pending-replayer ttl_hold: one replica runs every 60s (poll 30s * 2)", "L3 WARN pending-replayer takeover max 30s", "Your timings do not guarantee it. In the file, keep"},
		"--profile kubernetes/leader-election --takeover 35s": {
			"L1 ok leader-election gives up ttl 15s - drift 0s - stop budget 3s = 12s after its last success was sent",
			"to 33.8s (ttl 15s + in flight 5s + seen by a contender 4.4s + poll 4.4s + acquire 5s)"},
		"--profile cordum/approval --p99 9s": {"L4 WARN approval wait 2s, under ttl 10s", "L7 WARN approval never renewed: work p99 9s + acquire 2s = 11s, over ttl 10s"},
	} {
		got := try(t, append([]string{"tune"}, strings.Fields(args)...)...)
		for _, w := range want {
			if got.code != verdict.ExitPass || !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), w) {
				t.Errorf("%s: %+v, want %q", args, got, w)
			}
		}
	}
	var doc sumsDoc
	decode(t, try(t, "tune", "--profile", "cordum/approval", "--p99", "18s", "-f", "json").stdout, &doc)
	if len(doc.Sums) < 4 || doc.Profile != "cordum/approval" {
		t.Errorf("document: %+v", doc)
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
