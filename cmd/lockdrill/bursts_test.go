package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// operationsDrill has a burst of failing operations on a loop that is held throughout; %s is the fault.
const operationsDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: burst
environment: local
redis: {mode: spawn}
system:
  mode: embedded
  replicas: 2
  restart: 100ms
  locks:
    - name: loop
      key: "the:loop"
      policy:
        ttl: 2s
        renew_every: 400ms
        class: standard
        op_timeout: 200ms
        stop_budget: 20ms
        release: {mode: single, timeout: 200ms}
        acquire: {mode: try, timeout: 200ms}
        loop: {poll: 50ms, mode: renewed, tick: 10ms}
steady_state: {for: 300ms, timeout: 20s}
faults:
  - id: burst
    at: 0s
    %s
probes:
  lock_keys: {every: 20ms, max_gap: 2s}
  ledger: {every: 20ms, max_gap: 2s}
limits: {max_run: 1m}
slos:
  - {lock: loop, overlap: {level: effect, max: 0}}
`

// A burst on the way strikes what the file says, is counted there, and its hits name the holder's epoch.
func TestLiveBurstsOnTheWay(t *testing.T) {
	t.Parallel()
	needDrill(t)
	for _, c := range []struct {
		name, fault string
		least       int64
		result      string // of a renewal that was hit
	}{
		{"lost replies by time", "for: 1500ms\n    renew_failures: {holder_of: loop, mode: lost_reply, via: proxy}", 1, history.ResultError},
		{"errors at everyone", "renew_failures: {all: true, mode: error, count: 2, via: proxy}", 2, history.ResultError},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := runDrillIn(t, t.TempDir(), fmt.Sprintf(operationsDrill, c.fault), nil)
			if o.code != verdict.ExitPass {
				t.Fatalf("exit %d\n%s", o.code, o.text)
			}
			h, err := readHistory(o.dir)
			if err != nil {
				t.Fatal(err)
			}
			var hits int64
			failed := map[string]bool{}
			var confirmed *history.Fault
			for _, e := range h.Events {
				switch {
				case e.Kind == history.FaultConfirmed:
					confirmed = e.Fault
				case e.Kind == history.FaultHit:
					hits++
					if e.Lock != "loop" || e.Key != "the:loop" || e.Epoch == "" || e.Source != "runner" || e.Fault.Via != "proxy" {
						t.Errorf("%+v %+v", e, e.Fault)
					}
				case e.Kind == history.RenewReturn:
					failed[e.Epoch] = failed[e.Epoch] || e.Call.Result == c.result
				}
			}
			if !strings.Contains(o.text, "each lock operation sent by itself") {
				t.Errorf("how lock operations were sent is not said\n%s", o.text)
			}
			if confirmed == nil || confirmed.Hits < c.least || hits != confirmed.Hits {
				t.Fatalf("%d hits, confirmed %+v\n%s", hits, confirmed, o.text)
			}
			for _, e := range h.Events {
				if e.Kind == history.FaultHit && c.result != "" && !failed[e.Epoch] {
					t.Errorf("epoch %s was hit, and no renewal of it failed", e.Epoch)
				}
			}
		})
	}
}

// A burst that hits nothing, or less than it was to hit, shows nothing; wherever it was made.
func TestLiveBurstsThatHitNothingAreInconclusive(t *testing.T) {
	t.Parallel()
	needDrill(t)
	for _, c := range []struct{ name, fault string }{
		{"nobody releases a renewed loop, on the way", "for: 500ms\n    release_failures: {all: true, mode: error, via: proxy}"},
		{"too few, in the replicas", "for: 1s\n    renew_failures: {holder_of: loop, mode: error, count: 50}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if o := runDrill(t, fmt.Sprintf(operationsDrill, c.fault), nil); o.code != verdict.ExitInconclusive {
				t.Errorf("exit %d\n%s", o.code, o.text)
			}
		})
	}
	t.Run("clients that go round the proxy", func(t *testing.T) {
		t.Parallel()
		o := runDrill(t, edit(t, fmt.Sprintf(operationsDrill, "for: 1s\n    renew_failures: {holder_of: loop, mode: delay, delay: 1ms, via: proxy}"),
			"  replicas: 2\n", fmt.Sprintf("  replicas: 2\n  worker: [%q, bypass]\n", os.Args[0])), nil)
		if !strings.Contains(o.text, "go round it") || o.code != verdict.ExitInconclusive {
			t.Errorf("exit %d\n%s", o.code, o.text)
		}
	})
}
