package reports

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// shots are one of each kind of fault, as their bodies are when they are confirmed.
func shots() []history.Fault {
	on := []string{"r1.2", "r2.1", "r3.1"}
	return []history.Fault{
		{ID: "pause", Kind: "pause", Victim: "r1.1", Declared: 2e9, Expected: 2e9, Observed: 2_000_312_000, Hits: 1},
		{ID: "latency", Kind: "latency", Form: "downstream", Victims: on, Configured: "+400ms ± 50ms downstream", Declared: 120e9, Baseline: 210e3, Expected: 350e6, Observed: 412e6},
		{ID: "jitter", Kind: "jitter", Form: "both", Victim: "r1.1", Configured: "± 200ms both", Declared: 10e9, Baseline: 210e3, Expected: 110e6, Observed: 391e6},
		{ID: "bandwidth", Kind: "bandwidth", Form: "upstream", Victim: "r1.1", Configured: "8 kB/s upstream", Declared: 10e9, Baseline: 1e6, Expected: 180e6, Observed: 203e6},
		{ID: "black-hole", Kind: "black_hole", Victim: "r1.1", Declared: 70e9, Baseline: 210e3},
		{ID: "slow-close", Kind: "slow_close", Form: "both", Victim: "r1.1", Configured: "3s both", Declared: 10e9, Baseline: 1e6, Expected: 6e9, Observed: 6_002e6},
		{ID: "renewals", Kind: "renew_failures", Form: "error", Victim: "r1.1", Via: "worker", Want: 3, Declared: 9e9, Hits: 3},
		{ID: "acquires", Kind: "acquire_failures", Form: "lost_reply", Victims: on, Via: "proxy", Want: 1, Declared: 9e9, Hits: 1},
		{ID: "releases", Kind: "release_failures", Form: "delay", Configured: "+1s", Victims: on, Via: "worker", Declared: 30e9, Hits: 1000},
		{ID: "store-pause", Kind: "store", Form: "pause", Victim: "store", Declared: 2e9, Expected: 2e9, Observed: 2_001e6},
		{ID: "freeze", Kind: "store", Form: "freeze", Victim: "store", Declared: 2e9, Expected: 2e9, Observed: 1_999e6},
		{ID: "restart", Kind: "store", Form: "restart", Victim: "store", Observed: 31e6},
		{ID: "restart-keep", Kind: "store", Form: "restart", Victim: "store", Observed: 31e6},
		{ID: "stop", Kind: "store", Form: "stop", Victim: "store", Declared: 5e9, Expected: 5e9, Observed: 4_998e6},
		{ID: "flush", Kind: "store", Form: "flush", Victim: "store"},
		{ID: "failover", Kind: "store", Form: "failover", Victim: "store", Configured: "lag 500ms", Observed: 40e6},
		{ID: "vanish", Kind: "delete_key", Form: "vanish", Victim: "r1.1", Hits: 1},
		{ID: "stranger", Kind: "delete_key", Form: "stranger", Victim: "r1.1", Declared: 10e9, Hits: 1},
		{ID: "clock", Kind: "clock", Victim: "r1.1", Configured: "-5s", Declared: 60e9, Expected: -5e9, Observed: -5e9},
	}
}

// Every fault is told with whom it strikes, what it does and for how long, what was seen of it, and its end.
func TestStoryOfEveryFault(t *testing.T) {
	e := drill()
	e.Faults = append(e.Faults, experiments.Fault{ID: "restart-keep", Spec: &fault.Store{Do: fault.StoreRestart, Keep: true}})
	story := NewStory(e)
	var b strings.Builder
	tell := func(at float64, e history.Event) {
		e.Span, e.Source = when(at), "runner"
		if line := story.Line(e); line != "" {
			b.WriteString(line + "\n")
		}
	}
	tell(0, history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", PID: 4711}})
	for i, f := range shots() {
		at := float64(i + 1)
		ev := history.Event{Op: f.ID + "#1", Fault: &f}
		if f.Victim == "r1.1" {
			ev.Lock, ev.Key = "job", "job:1"
		}
		ev.Kind = history.FaultApplied
		tell(at, ev)
		ev.Kind = history.FaultConfirmed
		tell(at+0.1, ev)
		ev.Kind = history.FaultReverted
		tell(at+0.2, ev)
	}
	isGolden(t, "story-faults.txt", b.String())
}

// The closing summary says of each shot what was configured, expected and observed, and when it was meant and when it was felt.
func TestValidityOfEveryFault(t *testing.T) {
	j := passed()
	j.Faults = nil
	seconds := func(ns int64) *float64 {
		if ns == 0 {
			return nil
		}
		return at(float64(ns) / 1e9)
	}
	for i, f := range shots() {
		from := float64(10 * (i + 1))
		declared, felt := from+float64(f.Declared)/1e9, from+float64(f.Declared)/1e9+0.15
		j.Faults = append(j.Faults, verdict.FaultResult{
			ID: f.ID, Shot: 1, Shots: 1, Kind: f.Kind, Form: f.Form, Via: f.Via, Victim: f.Victim, Victims: f.Victims, Confirmed: true, Hits: f.Hits, Want: f.Want,
			Configured: f.Configured, Baseline: seconds(f.Baseline), Expected: seconds(f.Expected), Observed: seconds(f.Observed),
			Declared: &verdict.Window{From: from, To: &declared}, Effective: &verdict.Window{From: from + 0.1, To: &felt},
		})
	}
	for i := range 5 {
		j.Faults = append(j.Faults, verdict.FaultResult{ID: "many", Shot: i + 1, Shots: 5, Kind: "pause", Victim: "r1.1", Confirmed: true,
			Effective: &verdict.Window{From: 300}})
	}
	theft, store := takeover("job", "vanish#1", 1, 1.001), takeover("job", "restart#1", 1, 1.001)
	theft.Class, store.Class = verdict.ClassTheft, verdict.ClassStore
	unexplained := theft
	unexplained.Fault = ""
	hole := takeover("job", "black-hole#1", 50, 50.001)
	hole.Class = verdict.ClassPause
	j.Takeovers = append(j.Takeovers, theft, store, unexplained, hole)
	var b strings.Builder
	if err := Terminal(&b, j, Options{Width: 120, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	isGolden(t, "faults.txt", b.String())
}

// What an object or a hook strikes is known to its author alone, and each is called by its name.
func TestWhatNobodyKnowsIsCalledByTheFault(t *testing.T) {
	for kind, want := range map[string]string{"object": "what the object strikes", "hook": "what the hook strikes", "kill": "nobody"} {
		if got := targets(fault.Seen(kind, "", "").Traits(), "", nil); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// A drill of effects alone has neither takeovers nor debts to tell of, and says so once.
func TestADrillOfEffectsAloneTellsOfNoLock(t *testing.T) {
	r := recorded(t, "pass-1")
	page := htmlOf(t, r)
	e := *r.Experiment
	e.System.Locks = nil
	r.Experiment = &e
	alone := htmlOf(t, r)
	for _, id := range []string{`id="takeovers"`, `id="debt"`} {
		if !strings.Contains(page, id) || strings.Contains(alone, id) {
			t.Errorf("%s is on a page without a lock, or not on one with locks", id)
		}
	}
	if !strings.Contains(alone, "The experiment has no lock") {
		t.Error("the page does not say that there is no lock")
	}
}
