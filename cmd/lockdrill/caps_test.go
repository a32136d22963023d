package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// What a file declares beyond its own caps, or at once without saying so, is refused before anything is touched.
func TestCapsAndOverlapsThatAFileBreaksAreRefused(t *testing.T) {
	t.Parallel()
	const kill, pause = "{id: k, repeat: {count: 3}, kill: {holder_of: loop}}", "{id: p, for: 10s, pause: {replica: r1}}"
	for name, c := range map[string]struct{ limits, faults, want string }{
		"max_kills":   {"max_run: 2h, max_kills: 2", kill, "under the 3 kills"},
		"max_targets": {"max_run: 2h, max_targets: 1", "{id: s, for: 1s, latency: {add: 1ms}}", "under the 2 replicas"},
		"overlap":     {"max_run: 2h", pause + "\n  - " + strings.Replace(kill, "repeat: {count: 3}", "at: 5s", 1), "allow_overlap: [[p, k]]"},
		"one way":     {"max_run: 2h", "{id: a, for: 10s, latency: {add: 1ms}}\n  - {id: b, at: 5s, for: 1s, down: {replica: r1}}\nallow_overlap: [[a, b]]", "disturb one another"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			yaml := strings.Replace(fmt.Sprintf(guardedDrill, embeddedRedis+"limits: {"+c.limits+"}\n"), "{id: slow, at: 1h, kill: {holder_of: loop}}", c.faults, 1)
			if err := os.WriteFile(filepath.Join(dir, "guarded.yaml"), []byte(yaml), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"validate", "plan", "run"} {
				if got := tryIn(t, dir, command, "guarded.yaml"); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, c.want) {
					t.Errorf("%s: %+v, want status %d and %q", command, got, verdict.ExitUsage, c.want)
				}
			}
			onlyFile(t, dir, "guarded.yaml")
		})
	}
}

// The cap on targets holds while the drill runs, whatever the faults ask for.
func TestMaxTargetsHoldsInARun(t *testing.T) {
	needDrill(t)
	t.Parallel()
	yaml := strings.Replace(fmt.Sprintf(guardedDrill, embeddedRedis+"limits: {max_run: 1m, max_targets: 1}\n"), "{id: slow, at: 1h, kill: {holder_of: loop}}",
		"{id: first, for: 300ms, pause: {replica: r1}}\n  - {id: second, at: 2s, for: 300ms, pause: {replica: r2}}", 1)
	o := runDrill(t, yaml, nil)
	h, err := readHistory(o.dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, o.text)
	}
	struck := map[string]bool{}
	for _, e := range h.Events {
		if e.Kind == history.FaultIntent {
			struck[e.Fault.Victim] = true
		}
	}
	if len(struck) != 1 || !struck["r1.1"] {
		t.Errorf("struck %v, want r1.1 only\n%s", struck, o.text)
	}
	if o.code == verdict.ExitPass {
		t.Error("a drill whose second fault was not fired passes")
	}
}

// An abort condition ends a run that goes wrong, whatever its SLOs would say of it.
func TestAnAbortConditionEndsARun(t *testing.T) {
	needDrill(t)
	t.Parallel()
	yaml := strings.Replace(fmt.Sprintf(guardedDrill, embeddedRedis+"abort_when: [{abandonments_above: 0}]\nlimits: {max_run: 1m}\nallow_overlap: [[burst, slow]]\n"),
		"- {id: slow, at: 1h,", "- {id: burst, for: 2s, renew_failures: {holder_of: loop}}\n  - {id: slow, at: 50s,", 1)
	o := runDrill(t, yaml, nil)
	h, err := readHistory(o.dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, o.text)
	}
	why := ""
	for _, e := range h.Events {
		if e.Kind == history.RunAbort {
			why = e.Note.What + ": " + e.Note.Why
		}
	}
	if o.code != verdict.ExitAborted || !strings.Contains(why, "abandonments") {
		t.Errorf("exit %d, aborted by %q\n%s", o.code, why, o.text)
	}
}
