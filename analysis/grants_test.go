package analysis

import (
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// A short lock may come and go between two looks. Whoever wrote while nobody was seen to hold the key is not known to have had none; while
// another's value was there, it is.
func TestAnEffectThatMayBeOfAHiddenGrantIsNotUnowned(t *testing.T) {
	for _, c := range []struct {
		name  string
		taken bool // by another, while r1.1 writes again
		token string
		want  int // unowned effects
	}{
		{"while the key was free", false, "", 0},
		{"while another held it", true, "", 1},
		{"while the key was free, with its token", false, "c1", 1},
	} {
		_, j := scheduled(t, experiments.SLO{Stranded: count(0)}, func(tp foreignTape) {
			tp.holds(6, 7, jobKey("7"), "c1", "r1.1")
			tp.effect(6.5, jobKey("7"), said{job: "7", state: "RUNNING", who: "r1.1"})
			if c.taken {
				tp.holds(7.5, 9, jobKey("7"), "c2", "r2.1")
			}
			tp.effect(8, jobKey("7"), said{job: "7", state: "DONE", who: "r1.1", token: c.token})
		})
		if j.Counts.UnownedEffects != c.want {
			t.Errorf("%s: %d unowned effects, want %d", c.name, j.Counts.UnownedEffects, c.want)
		}
	}
}

// A fence that an earlier holder has too tells a resource nothing.
func TestAFenceThatTwoHoldersHave(t *testing.T) {
	for _, second := range []int64{7, 8} {
		tp := newTape("a superseded holder writes")
		tp.start(0.1, "r1.1", "r2.1")
		tp.grant(10, "r1.1", jobs(1), "a1", 7)
		tp.begin(10.002, "a1", "j1")
		tp.grant(75, "r2.1", jobs(1), "b1", second)
		tp.begin(75.002, "b1", "j1")
		tp.write(80, "a1", "j1", "succeeded", "")
		tp.write(81, "a1", "j1", "succeeded", "")
		e, _ := load(t, "pause-90s-unfenced")
		found := 0
		for _, f := range Judge(e, tp.history(t)).Findings {
			if f.Code == verdict.FindingEqualFence {
				found++
			}
		}
		if want := b2i(second == 7); found != want {
			t.Errorf("fences 7 and %d: %d findings, want %d", second, found, want)
		}
	}
}

// A machine that is late makes somebody's own replicas late as well, where they run on it; elsewhere it makes nobody late.
func TestALateMachineMakesObservedReplicasLate(t *testing.T) {
	for fleet, want := range map[string]verdict.Verdict{history.FleetObservedProcesses: verdict.Inconclusive, history.FleetObservedPods: verdict.Fail} {
		e, h := load(t, "names-come-back")
		e.SLOs = []experiments.SLO{{Lock: "leader", Takeover: &experiments.DurationLimits{Bound: *experiments.AtMost(3 * time.Second)}}}
		h.Events[0].Environment.Fleet = fleet
		for _, at := range []int64{ns(12.9), ns(28.1)} {
			late := history.Late{Stall: 10e6, Waits: map[string]int64{"r1.2": 300e6, "r2.1": 300e6}}
			h.Events = append(h.Events, history.Event{Kind: history.MachineLate, Span: history.Span{From: at, To: at + 400e6}, Source: "runner", Late: &late})
		}
		r := row(t, Judge(e, h), "leader", "takeover.max")
		late := slices.ContainsFunc(r.Missing, func(m verdict.Missing) bool { return m.Code == verdict.MissingLateMachine })
		if r.Verdict != want || late != (want == verdict.Inconclusive) {
			t.Errorf("%s: %s, late %v: %s", fleet, r.Verdict, late, r.Why)
		}
	}
}

// The clock of a takeover begins when its job is due, and so do its parts: also after the lease's end.
func TestAJobThatIsNotDueIsNotAskedFor(t *testing.T) {
	for _, due := range []float64{0, 15, 19} {
		_, j := scheduled(t, experiments.SLO{Takeover: atMostSeconds(60)}, func(tp foreignTape) {
			taken(21, said{job: "1", state: "RUNNING", token: "a2"}, said{job: "1", state: "DONE", token: "a2"})(tp)
			if due > 0 {
				tp.schema = history.SchemaNumbered
				tp.effect(8.2, jobKey("1"), said{job: "1", state: "RUNNING", token: "a1"})
				tp.events[len(tp.events)-1].Entry.Due = &history.Span{From: ns(due), To: ns(due + 0.1)}
			}
		})
		if v := j.Takeovers[0]; v.Hi == nil || v.Lo > 21-max(due, 10) || *v.Hi < 21-max(due, 10)-0.1 || *v.Hi-v.Lo > 0.3 {
			t.Errorf("due at %g: [%g, %v]", due, v.Lo, v.Hi)
		}
		sum := 0.0
		for _, part := range j.Takeovers[0].Parts() {
			sum += part.Long.Lo
		}
		if whole := *j.Takeovers[0].Hi; sum > whole || sum < whole-0.3 {
			t.Errorf("due at %g: the parts of %g make at least %g", due, whole, sum)
		}
	}
}

// A takeover has the trace of the effect that ended it, and of no other.
func TestATakeoverHasTheTraceOfWhatEndedIt(t *testing.T) {
	_, j := scheduled(t, experiments.SLO{Takeover: atMostSeconds(60)}, func(tp foreignTape) {
		taken(21, said{job: "1", state: "RUNNING", token: "a2"}, said{job: "1", state: "DONE", token: "a2"})(tp)
		for i := range tp.events {
			if e := &tp.events[i]; e.Entry != nil {
				e.Entry.Trace = e.Entry.State + " by " + e.Epoch
			}
		}
	})
	if got := j.Takeovers[0]; got.End != "effect" || got.Trace != "RUNNING by a2" {
		t.Errorf("ended by %s, trace %q", got.End, got.Trace)
	}
}

// A holder whose value is its name, and whose next life renews the key before its lease is over, has lost nothing to anybody: its takeover is by
// that life. Another's value there is a theft all the same.
func TestTheNextLifeOfANameGoesOnWithItsLease(t *testing.T) {
	for _, c := range []struct {
		name      string
		value, by string
		want      verdict.Verdict
		n, falses int
		vanished  float64 // keys, at most
	}{
		{"its next life", "s1", "r1.2", verdict.Pass, 1, 0, 0},
		{"another", "s2", "r2.1", verdict.Fail, 0, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _ := load(t, "names-come-back")
			e.Faults[0].Repeat.Count = 1
			none := experiments.AtMost(time.Duration(0))
			lease := experiments.SLO{Lock: "leader", Overlap: &experiments.OverlapLimit{Level: verdict.LevelLease, Time: *none}}
			e.SLOs = append(e.SLOs, experiments.SLO{Lock: "leader", Vanished: count(0)}, lease)
			tp := watched("")
			w := want{"leader", "svc:leader", 3}
			tp.reign(1, 10, w, "s1", "r1.1")
			tp.kill(10.05, "kill-leader#1", "after_renew", "s1")
			tp.start(10.6, "r1.2")
			tp.reign(11, 70, w, c.value, c.by)
			j := Judge(e, tp.over(11, 72, experiments.ProbeKeys).history(t))
			r := row(t, j, "leader", "takeover.max")
			if r.Verdict != c.want || r.N != c.n || j.Counts.FalseTakeovers != c.falses {
				t.Errorf("%s of %d, %d false: %s", r.Verdict, r.N, j.Counts.FalseTakeovers, r.Why)
			}
			if v := row(t, j, "leader", "vanished"); v.Hi == nil || *v.Hi != c.vanished {
				t.Errorf("vanished: %s", figures.Seconds(v.Lo, v.Hi))
			}
			if v := row(t, j, "leader", "overlap.lease"); v.Hi == nil || *v.Hi > 0 != (c.falses > 0) {
				t.Errorf("overlap: %s", figures.Seconds(v.Lo, v.Hi))
			}
		})
	}
}

// What was over when the keys were looked at for the first time is not what is drilled: nobody could see whether its writer held the lock.
func TestWhatWasOverBeforeTheFirstLook(t *testing.T) {
	for at, want := range map[float64]verdict.Verdict{0.02: verdict.Pass, 4: verdict.Inconclusive} {
		none := experiments.SLO{Overlap: &experiments.OverlapLimit{Level: verdict.LevelEffect, Count: *experiments.AtMost(0)}}
		r, _ := scheduled(t, none, func(tp foreignTape) {
			tp.effect(at, jobKey("7"), said{job: "7", state: "DONE", token: "z1", op: "o1", who: "r1.1"})
			taken(21, said{job: "1", state: "RUNNING", token: "a2"}, said{job: "1", state: "DONE", token: "a2"})(tp)
		})
		if r.Verdict != want {
			t.Errorf("at %g: %s: %s %+v", at, r.Verdict, r.Why, r.Missing)
		}
	}
}
