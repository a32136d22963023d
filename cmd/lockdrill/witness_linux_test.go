package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// witnessEnv is what these tests do beyond a sample: "all".
const witnessEnv = "LOCKDRILL_WITNESS"

// witnessScale is that of the times in scenarios/witness/*.lockdrill.yaml.
const witnessScale = "0.03"

// witnessCases are the witness's bugs, and which drill, by which row, finds each out.
var witnessCases = []struct {
	bug, file, lock, row string
	often                bool // in make test too
}{
	{"", "kills", "", "", true},
	{"", "pauses", "", "", true},
	{"no-stop", "pauses", "job", "duplicate_terminal_states", true},
	{"no-guard", "kills", "job", "duplicate_terminal_states", true},
	{"idle-leader", "kills", "reconciler", "takeover.max", true},
	{"renew-blind", "pauses", "job", "duplicate_terminal_states", false},
	{"release-blind", "pauses", "job", "logs.lost_early", false},
	{"double-terminal", "pauses", "job", "duplicate_terminal_states", false},
	{"short-ttl", "kills", "job", "duplicate_terminal_states", false},
	{"never-release", "pauses", "job", "metric.snapshots.rate.min", false},
	{"token-reuse", "pauses", "job", "duplicate_epochs", false},
	{"swallow-errors", "pauses", "job", "duplicate_terminal_states", false},
}

// A service in another language, that knows nothing of lockdrill, is drilled as it runs: it passes as it is, and each mistake in it fails
// the promise that it breaks.
func TestAServiceOfSomebodysOwnPassesAndItsBugsDoNot(t *testing.T) {
	if testing.Short() {
		t.Skip("drills of twenty seconds")
	}
	redistest.Need(t)
	witnesstest.Python(t)
	all := os.Getenv(witnessEnv) == "all"
	var known []string
	for _, c := range witnessCases {
		if known = append(known, c.bug); !c.often && !all {
			continue
		}
		times := 1
		if c.bug == "" && all {
			times = 3
		}
		t.Run(c.file+"/"+c.bug, func(t *testing.T) {
			t.Parallel()
			for range times {
				if c.bug == "" {
					drillWitness(t, c.file, verdict.ExitPass)
					continue
				}
				j := drillWitness(t, c.file, verdict.ExitSLOFailed, "--bug", c.bug)
				if !failed(j, c.lock, c.row) {
					t.Errorf("%s does not fail %s of %s:\n%s", c.bug, c.row, c.lock, allRows(j))
				}
			}
		})
	}
	for _, bug := range witnesstest.Bugs {
		if !slices.Contains(known, bug) {
			t.Errorf("no drill finds out %s", bug)
		}
	}
}

func failed(j *verdict.Judgement, lock, row string) bool {
	return slices.ContainsFunc(j.SLOs, func(r verdict.SLOResult) bool {
		return r.Lock == lock && r.Name() == row && r.Verdict == verdict.Fail
	})
}

func allRows(j *verdict.Judgement) string {
	var b strings.Builder
	for _, r := range j.SLOs {
		fmt.Fprintf(&b, "%s %s %s: %s\n", r.Verdict, r.Lock, r.Name(), r.Why)
	}
	return b.String()
}

// drillWitness starts the witness on a Redis of the test's own, drills it by one of its files, and gives the judgement.
func drillWitness(t *testing.T, file string, code int, args ...string) *verdict.Judgement {
	t.Helper()
	addr := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	if err := client.Set(t.Context(), "lockdrill:environment", "staging", 0).Err(); err != nil {
		t.Fatal(err)
	}
	w := witnesstest.Start(t, addr, append([]string{"--scale", witnessScale}, args...)...)
	_, port, _ := strings.Cut(addr, ":")
	text := strings.NewReplacer("6390", port, "/tmp/sched", w.Dir).Replace(string(read(t, filepath.Join(witnesstest.Folder(), file+".lockdrill.yaml"))))
	dir := t.TempDir()
	path := filepath.Join(dir, file+".lockdrill.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got := tryIn(t, dir, "run", path, "--confirm", "witness-"+file)
	if got.code != code {
		t.Fatalf("exit status %d, want %d\n%s\n%s\n%s", got.code, code, got.stdout, got.stderr, w.Log(t, 1))
	}
	j := &verdict.Judgement{}
	if err := json.Unmarshal(read(t, filepath.Join(dir, "runs", "latest", "verdict.json")), j); err != nil {
		t.Fatal(err)
	}
	return j
}
