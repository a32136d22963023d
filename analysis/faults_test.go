package analysis

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// faulted are the facts of a tape under the good drill's experiment, which declares kills only.
func faulted(t *testing.T, play func(*tape)) *Facts {
	t.Helper()
	tp := newTape("a fault")
	tp.phase(0.2, history.PhaseFaults)
	play(tp)
	tp.finale(80, 120)
	e, _ := load(t, "good-drill")
	return FactsOf(e, tp.history(t))
}

func (ix *Facts) shot(t *testing.T, op string) *facts.Shot {
	t.Helper()
	i := slices.IndexFunc(ix.Shots, func(s *facts.Shot) bool { return s.Op == op })
	if i < 0 {
		t.Fatalf("no shot %s", op)
	}
	return ix.Shots[i]
}

func ids(es []*facts.Epoch) string {
	var names []string
	for _, e := range es {
		names = append(names, e.ID)
	}
	return strings.Join(names, " ")
}

// Which epochs a fault exposes: those that were surely held when it was applied, of the replicas that it struck; and a way is the
// name's, whichever life is on it.
func TestWhatAFaultExposes(t *testing.T) {
	key := func(n string) want { return want{"job", "drill:job:" + n, 60} }
	for _, c := range []struct {
		name    string
		f       history.Fault
		exposed string
	}{
		{"a pause strikes an incarnation", history.Fault{Kind: "pause", Victim: "r1.2", Declared: 5e9}, "second"},
		{"a way is the name's", history.Fault{Kind: "latency", Victims: []string{"r1.1"}, Declared: 5e9}, "second"},
		{"all ways", history.Fault{Kind: "black_hole", Victims: []string{"r1.2", "r2.1"}, Declared: 5e9}, "second other"},
		{"the store is everybody's", history.Fault{Kind: "store", Form: "freeze", Victim: "store", Declared: 5e9}, "second other"},
		{"a burst strikes what it hits", history.Fault{Kind: "release_failures", Via: "worker", Victims: []string{"r1.2", "r2.1"}, Declared: 5e9}, ""},
	} {
		ix := faulted(t, func(tp *tape) {
			tp.start(0.1, "r1.1", "r2.1")
			tp.grant(1, "r1.1", key("a"), "first", 1)
			tp.release(2, "first")
			tp.start(3, "r1.2")
			tp.grant(4, "r1.2", key("b"), "second", 2)
			tp.grant(5, "r2.1", key("c"), "other", 3)
			tp.strike(10, 15, "fault#1", "", c.f)
			tp.grant(12, "r2.1", key("d"), "later", 4)
		})
		if got := ids(ix.shot(t, "fault#1").Exposed); got != c.exposed {
			t.Errorf("%s: exposed %q, want %q", c.name, got, c.exposed)
		}
	}
}

// A lasting fault ends as its victims or the runner say; what lives in a replica ends with it, what is on its way does not.
func TestWhenAFaultEnds(t *testing.T) {
	both := []string{"r1.1", "r2.1"}
	says := func(tp *tape, at float64, who string) {
		f := tp.shots["fault#1"]
		tp.add(at, at, history.Event{Kind: history.FaultReverted, Source: who, Op: "fault#1", Fault: &f})
	}
	for _, c := range []struct {
		name string
		f    history.Fault
		play func(*tape)
		to   float64 // 0 = never seen
	}{
		{"the runner reverted it", history.Fault{Kind: "pause", Victim: "r1.1"}, func(tp *tape) { tp.lift(20, "fault#1", "") }, 20.001},
		{"the last of its victims says so", history.Fault{Kind: "renew_failures", Via: "worker", Victims: both}, func(tp *tape) { says(tp, 18, "r1.1"); says(tp, 25, "r2.1") }, 25},
		{"one of them never does", history.Fault{Kind: "renew_failures", Via: "worker", Victims: both}, func(tp *tape) { says(tp, 18, "r1.1") }, 0},
		{"and has died", history.Fault{Kind: "renew_failures", Via: "worker", Victims: both}, func(tp *tape) {
			says(tp, 18, "r1.1")
			tp.grant(2, "r2.1", leader, "b", 2)
			tp.kill(22, "kill#1", "random", "b")
		}, 22.002},
		{"a way outlives its replica", history.Fault{Kind: "latency", Victims: []string{"r2.1"}}, func(tp *tape) {
			tp.grant(2, "r2.1", leader, "b", 2)
			tp.kill(22, "kill#1", "random", "b")
			tp.lift(30, "fault#1", "")
		}, 30.001},
		{"so does a burst on it", history.Fault{Kind: "renew_failures", Via: "proxy", Victims: []string{"r2.1"}}, func(tp *tape) {
			tp.grant(2, "r2.1", leader, "b", 2)
			tp.kill(22, "kill#1", "random", "b")
		}, 0},
		{"read back, and nothing else", history.Fault{Kind: "down", Victims: both}, func(tp *tape) { tp.fault(33, 34, history.FaultVerified, "fault#1", "") }, 34},
		{"an instant", history.Fault{Kind: "delete_key", Form: "vanish", Victim: "r1.1"}, func(tp *tape) {}, 10.001},
	} {
		ix := faulted(t, func(tp *tape) {
			tp.start(0.1, both...)
			tp.inject(10, "fault#1", "", c.f)
			tp.fault(10, 10.002, history.FaultConfirmed, "fault#1", "")
			c.play(tp)
		})
		want := int64(facts.Open)
		if c.to > 0 {
			want = ns(c.to)
		}
		if got := ix.shot(t, "fault#1").Over.To; got != want {
			t.Errorf("%s: ended by %s, want %s", c.name, figures.Short(got), figures.Short(want))
		}
	}
}

// The clock of a lasting fault starts when the holder could extend its lease no more: at the fault, or at its last renewal during it.
func TestTakeoversUnderLastingFaults(t *testing.T) {
	hole := func(to float64) func(*tape) {
		return func(tp *tape) {
			tp.strike(10.1, to, "fault#1", "a", history.Fault{Kind: "jitter", Declared: 20e9})
		}
	}
	for _, c := range []struct {
		name  string
		play  func(*tape)
		class string
		lo    float64
	}{
		{"nothing gets through", func(tp *tape) { hole(30)(tp); tp.hold(17, 20, "r2.1", "b", 2) }, verdict.ClassPause, 6.902},
		{"one renewal does, and then no more", func(tp *tape) { hole(30)(tp); tp.renew(12, "a"); tp.hold(19, 20, "r2.1", "b", 2) }, verdict.ClassPause, 7.002},
		{"renewals go on", func(tp *tape) { hole(30)(tp); tp.renew(12, "a"); tp.renew(16, "a") }, verdict.ClassRecovery, 1.899},
		{"renewals go on after it, and the lease is lost later", func(tp *tape) { hole(11)(tp); tp.renew(12, "a"); tp.hold(19, 20, "r2.1", "b", 2) }, verdict.ClassRecovery, 1.899},
		{"the holder is killed meanwhile", func(tp *tape) {
			hole(30)(tp)
			tp.renew(12, "a")
			tp.kill(13, "kill#1", "random", "a")
			tp.hold(19, 20, "r2.1", "b", 2)
		}, verdict.ClassRecovery, 1.899},
	} {
		ix := faulted(t, func(tp *tape) { tp.hold(1, 10, "r1.1", "a", 1); c.play(tp) })
		s := ix.shot(t, "fault#1")
		if len(s.Trials) != 1 || s.Trials[0].Class != c.class || apart(facts.Seconds(s.Trials[0].Value.Lo), c.lo) > 2e-3 {
			t.Errorf("%s: %+v, want one %s of at least %gs", c.name, s.Trials, c.class, c.lo)
		}
	}
}

// A store fault after the fault censors a takeover, and so does a loss of data; the store's own fault is measured to its end.
func TestTheStoreCensors(t *testing.T) {
	lost := func(tp *tape) { tp.newLife(11, 11.4, "run_id_changed") }
	restart := history.Fault{Kind: "store", Form: "restart", Victim: history.VictimStore}
	for _, c := range []struct {
		name string
		play func(*tape)
		of   string
		end  string
	}{
		{"a kill", func(tp *tape) { tp.kill(10, "fault#1", "random", "a") }, verdict.ClassCrash, "effect"},
		{"a kill, then the store restarts", func(tp *tape) {
			tp.kill(10, "fault#1", "random", "a")
			tp.strike(11.1, 11.3, "restart#1", "", restart)
			lost(tp)
		}, verdict.ClassCrash, "censored"},
		{"a kill, then the store freezes with nobody's lease left", func(tp *tape) {
			tp.kill(10, "fault#1", "random", "a")
			tp.strike(15.5, 15.8, "freeze#1", "", history.Fault{Kind: "store", Form: "freeze", Victim: history.VictimStore, Declared: 3e8})
		}, verdict.ClassCrash, "censored"},
		{"a kill after it", func(tp *tape) {
			tp.strike(9.1, 9.3, "restart#1", "", restart)
			tp.newLife(9, 9.4, "run_id_changed")
			tp.renew(9.6, "a")
			tp.kill(10, "fault#1", "random", "a")
		}, verdict.ClassCrash, "effect"},
		{"the restart itself", func(tp *tape) { tp.strike(11.1, 11.3, "fault#1", "", restart); lost(tp) }, verdict.ClassStore, "effect"},
	} {
		ix := faulted(t, func(tp *tape) {
			tp.hold(1, 10, "r1.1", "a", 1)
			c.play(tp)
			tp.hold(16, 20, "r2.1", "b", 2)
		})
		s := ix.shot(t, "fault#1")
		if len(s.Trials) != 1 || s.Trials[0].Class != c.of || s.Trials[0].End != c.end {
			t.Errorf("%s: %+v, want one %s ended by %s", c.name, s.Trials, c.of, c.end)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// onFaults edits a copy of each fault's body.
func onFaults(h *history.History, edit func(*history.Fault)) {
	for i := range h.Events {
		if f := h.Events[i].Fault; f != nil {
			b := *f
			edit(&b)
			h.Events[i].Fault = &b
		}
	}
}

// The lints of the experiment stand among the warnings, in the numbers of the file.
func TestLintsAreWarnings(t *testing.T) {
	e, h := load(t, "black-hole-count")
	e.TimeScale = 0.5
	if ws := Judge(e, h).Warnings; !slices.ContainsFunc(ws, func(w string) bool {
		return strings.HasPrefix(w, "L1 lock job: ") && strings.Contains(w, "over ttl 60s")
	}) {
		t.Errorf("warnings %q", ws)
	}
}

// A process surely stands still from when it was seen to on, and may from when the signal was sent.
func TestPauseBrackets(t *testing.T) {
	ix := faulted(t, func(tp *tape) {
		tp.grant(1, "r1.1", leader, "a", 1)
		tp.inject(3, "stop#1", "a", history.Fault{Kind: "pause", Declared: 5e9})
		tp.fault(3.004, 7.9, history.FaultConfirmed, "stop#1", "a")
		tp.lift(8, "stop#1", "a")
	})
	want := facts.Pause{Widest: history.Span{From: ns(3), To: ns(8.001)}, Surest: history.Span{From: ns(3.004), To: ns(8)}}
	if got := ix.Pauses["r1.1"]; len(got) != 1 || got[0] != want {
		t.Errorf("pauses %+v, want %+v", got, want)
	}
}

// What takeover can be depends on what the fault leaves: a lease, none, or a store that is away for longer than any lease.
func TestBandsOfFaults(t *testing.T) {
	e, _ := load(t, "black-hole-standard") // ttl 60 s, redelivered after 30 s, timeouts of 2 s
	for _, c := range []struct {
		name   string
		f      experiments.Fault
		lo, hi float64
	}{
		{"pause", experiments.Fault{For: 90e9, Spec: &fault.Pause{Aim: fault.Aim{HolderOf: "job"}}}, 38, 94},
		{"nothing of anybody's gets through", experiments.Fault{For: 90e9, Spec: &fault.Cut{How: fault.Hole, Aim: fault.Aim{All: true}}}, 38, 122},
		{"calls wait for longer than their limit", experiments.Fault{For: 90e9, Spec: &fault.Latency{Aim: fault.Aim{All: true}, Add: 1e9, Stream: fault.StreamBoth}}, 38, 122},
		{"calls are slow", experiments.Fault{For: 90e9, Spec: &fault.Latency{Aim: fault.Aim{All: true}, Add: 1e9, Stream: fault.StreamDown}}, 38, 94},
		{"for a moment", experiments.Fault{For: 9e9, Spec: &fault.Cut{How: fault.Hole, Aim: fault.Aim{All: true}}}, 38, 94},
		{"store frozen", experiments.Fault{For: 90e9, Spec: &fault.Store{Do: fault.StoreFreeze}}, 38, 122},
		{"store stopped", experiments.Fault{For: 90e9, Spec: &fault.Store{Do: fault.StoreStop}}, 0, 122},
		{"store restarted", experiments.Fault{Spec: &fault.Store{Do: fault.StoreRestart}}, 0, 94},
		{"store emptied", experiments.Fault{Spec: &fault.Store{Do: fault.StoreFlush}}, 0, 32},
		{"key gone", experiments.Fault{Spec: &fault.DeleteKey{HolderOf: "job"}}, 0, 32},
		{"key a stranger's", experiments.Fault{For: 10e9, Spec: &fault.DeleteKey{HolderOf: "job", To: "stranger"}}, 0, 42},
	} {
		e.Faults = []experiments.Fault{c.f}
		if b := forecast.Bands(e, 0)[0]; b.Lo != c.lo || b.Hi != c.hi {
			t.Errorf("%s: %g to %g (%s), want %g to %g", c.name, b.Lo, b.Hi, b.Sum, c.lo, c.hi)
		}
	}
}

// A fault of a kind that this version does not know has no trials, and leaves every answer that depends on the run open: it is not
// judged as a pause, which it may be nothing like.
func TestAFaultOfAnUnknownKindIsNotJudged(t *testing.T) {
	known := edited(t, "good-drill", func(*experiments.Experiment, *history.Event) {})
	j := edited(t, "good-drill", func(_ *experiments.Experiment, ev *history.Event) {
		if ev.Fault != nil {
			ev.Fault.Kind = "melt"
		}
	})
	if known.Verdict != string(verdict.Pass) || j.Verdict != string(verdict.Inconclusive) {
		t.Errorf("known: %s, unknown: %s", known.Verdict, j.Verdict)
	}
	if last := len(j.Missing) - 1; last < 0 || j.Missing[last].Code != verdict.MissingKind || !strings.Contains(j.Missing[last].Why, "melt") {
		t.Errorf("missing %+v", j.Missing)
	}
	for _, f := range j.Faults {
		if f.Confirmed || !strings.Contains(f.Why, "melt") {
			t.Errorf("%s: confirmed %t, %s", f.ID, f.Confirmed, f.Why)
		}
	}
	for _, x := range j.Takeovers {
		if x.Fault != "" {
			t.Errorf("a takeover after %s, %s", x.Fault, x.Class)
		}
	}
}
