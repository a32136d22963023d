package conductor

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// drillOf is loopDrill under other faults, one shot each unless they say otherwise.
func drillOf(faults ...experiments.Fault) *experiments.Experiment {
	e := loopDrill(1)
	e.Faults = faults
	for i := range faults {
		if f := &e.Faults[i]; f.Repeat.Count == 0 {
			f.Repeat = experiments.Repeat{Count: 1, Settled: true}
		}
	}
	return e
}

// lasts answers shots as the runner does: confirmed after 20 ms, and reverted and verified when the fault's time is up.
func lasts(s *stage) {
	s.onFire = func(f Fire, body *history.Fault) {
		if f.Why != "" {
			s.see(history.Event{Kind: history.FaultVoid, Fault: body})
			return
		}
		s.after(20*time.Millisecond, func() { s.see(history.Event{Kind: history.FaultConfirmed, Fault: body}) })
		s.after(20*time.Millisecond+f.For, func() {
			s.see(history.Event{Kind: history.FaultReverted, Fault: body})
			s.see(history.Event{Kind: history.FaultVerified, Fault: body})
		})
	}
}

// faultsAt is when the phase of the faults begins in a stage without a time to get ready.
func faultsAt(s *stage) *int64 {
	var at int64
	s.onPhase = func(name string) {
		if name == history.PhaseFaults {
			at = s.now
		}
	}
	return &at
}

func TestWhomAFaultStrikes(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name    string
		fault   experiments.Fault
		key     string
		victims []string
	}{
		{"holder", experiments.Fault{Spec: &fault.Pause{Aim: fault.Aim{HolderOf: "loop"}}, For: second}, "the-loop", nil},
		{"replica", experiments.Fault{Spec: &fault.Clock{Aim: fault.Aim{Replica: "r2"}}, For: second}, "", []string{"r2.1"}},
		{"all", experiments.Fault{Spec: &fault.Cut{How: fault.Hole, Aim: fault.Aim{All: true}}, For: second}, "", []string{"r1.1", "r2.1", "r3.1"}},
		{"store", experiments.Fault{Spec: &fault.Store{Do: fault.StoreFlush}}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.fault.ID, c.fault.At = "f", 3*second
			var began *int64
			s := play(t, drillOf(c.fault), func(s *stage) { lasts(s); began = faultsAt(s) })
			if len(s.fires) != 1 {
				t.Fatalf("%d shots, want 1", len(s.fires))
			}
			f := s.fires[0]
			if f.Key != c.key || !reflect.DeepEqual(f.Victims, c.victims) || f.Why != "" || f.Timing != "" || f.For != c.fault.For {
				t.Errorf("fired %+v, want key %q, victims %v for %s", f, c.key, c.victims, c.fault.For)
			}
			if late := time.Duration(s.firedAt[0] - *began - int64(c.fault.At)); late < 0 || late > 10*time.Millisecond {
				t.Errorf("fired %s after its time: only kills have a random one", late)
			}
		})
	}
}

func TestAFaultWaitsForAHolder(t *testing.T) {
	// The kill leaves the lock free for a second; the pause is due within it.
	e := drillOf(
		experiments.Fault{ID: "kill", Spec: &fault.Kill{HolderOf: "loop", Phase: fault.AfterRenew, How: "crash"}},
		experiments.Fault{ID: "pause", At: 500 * time.Millisecond, For: time.Second, Spec: &fault.Pause{Aim: fault.Aim{HolderOf: "loop"}}})
	s := play(t, e, func(s *stage) {
		lasts(s)
		rest := s.onFire
		s.onFire = func(f Fire, b *history.Fault) {
			if !f.Fault.Traits().Kills {
				rest(f, b)
				return
			}
			s.onFire = rest
			s.shoot(f) // the answer to a pause, which also confirms
			s.leader, s.freeAt = "", s.now+int64(time.Second)
			for k := range s.c.world.held {
				delete(s.c.world.held, k)
			}
		}
	})
	if len(s.fires) != 2 || s.fires[1].Key != "the-loop" || s.fires[1].Why != "" {
		t.Fatalf("fires %+v, want a pause of the next holder", s.fires)
	}
	if gap := time.Duration(s.firedAt[1] - s.firedAt[0]); gap < 900*time.Millisecond {
		t.Errorf("the pause came %s after the kill, when nobody held the lock", gap)
	}
}

// Takeovers of the toy take a second and some milliseconds: 72 clean kills answer a p95 of two seconds, three misses answer one of half a
// second, and a limit that one kill misses takes more than the file allows.
func TestAFaultRepeatsUntilItsPercentileIsAnswered(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit time.Duration
		slow  int // kills after which the takeover takes long
		most  int
		want  int
		says  string
	}{
		{"kept", 2 * time.Second, 0, 200, 72, "kill: takeover 72 kills seen, none missed the limit: enough for a p95"},
		{"broken", 500 * time.Millisecond, 0, 200, 3, "3 missed the limit: that is too many for a p95"},
		{"one miss", 2 * time.Second, 1, 200, 130, "130 kills seen, 1 missed the limit: enough for a p95"},
		{"at most", 2 * time.Second, 1, 80, 80, "80 kills seen, 1 missed the limit: a p95 needs about 50 more that keep it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := loopDrill(c.most)
			e.Faults[0].Repeat.Answered = true
			e.SLOs = []experiments.SLO{{Lock: "loop", Takeover: &experiments.DurationLimits{P95: &c.limit}}}
			e.Limits.MaxRun = time.Hour
			said := ""
			s := play(t, e, func(s *stage) {
				n := 0
				s.onFire = func(f Fire, body *history.Fault) {
					then := s.onFire
					s.onFire = nil
					s.shoot(f)
					s.onFire = then
					if n++; n <= c.slow {
						s.freeAt = s.now + int64(3*time.Second)
					}
				}
				s.onEnter = func(p *history.Phase) {
					if p.Name == history.PhaseRevert {
						said = p.Why
					}
				}
			})
			if len(s.fires) != c.want || !strings.Contains(said, c.says) {
				t.Errorf("%d shots, %q; want %d and %q", len(s.fires), said, c.want, c.says)
			}
		})
	}
}

func TestNobodyToStrikeIsVoid(t *testing.T) {
	for name, aim := range map[string]fault.Aim{"replica": {Replica: "r9"}, "holder": {HolderOf: "other"}} {
		e := drillOf(experiments.Fault{ID: "pause", For: time.Second, Spec: &fault.Pause{Aim: aim}})
		e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "other", KeyPrefix: "o:", Policy: e.System.Locks[0].Policy})
		e.System.Locks[1].Policy.Loop = nil
		s := play(t, e, lasts)
		if len(s.fires) != 2 || s.fires[0].Why == "" || s.fires[0].Victims != nil || s.fires[0].Key != "" {
			t.Errorf("%s: fires %+v, want two shots without a target that say why", name, s.fires)
		}
	}
}

// The horizon counts from the end of the last fault: what it does may show as late.
func TestTheHorizonCountsFromTheEndOfTheFault(t *testing.T) {
	const long = 30 * time.Second
	e := drillOf(experiments.Fault{ID: "slow", For: long, Spec: &fault.Latency{Aim: fault.Aim{All: true}, Add: time.Millisecond}})
	s := play(t, e, lasts)
	if least := s.firedAt[0] + int64(long) + int64(s.c.horizon); s.now < least {
		t.Errorf("the drill ended at %s, before %s: fault, %s and horizon %s", time.Duration(s.now), time.Duration(least), long, s.c.horizon)
	}
}

func TestAFaultIsNotRepeatedWhileItLasts(t *testing.T) {
	const long = 10 * time.Second
	for _, repeat := range []experiments.Repeat{{Count: 3, Settled: true}, {Count: 3, Every: long}} {
		e := drillOf(experiments.Fault{ID: "slow", For: long, Repeat: repeat, Spec: &fault.Latency{Aim: fault.Aim{All: true}, Add: time.Millisecond}})
		s := play(t, e, lasts)
		if len(s.firedAt) != 3 {
			t.Fatalf("%+v: %d shots, want 3", repeat, len(s.firedAt))
		}
		for i := 1; i < 3; i++ {
			if gap := time.Duration(s.firedAt[i] - s.firedAt[i-1]); gap < long {
				t.Errorf("%+v: shot %d came %s after the one before", repeat, i+1, gap)
			}
		}
	}
}

// After a fault the steady state must be seen to hold again: what was seen before it says nothing.
func TestSettledNeedsNewTicks(t *testing.T) {
	e := drillOf(experiments.Fault{ID: "stop", For: time.Second, Repeat: experiments.Repeat{Count: 2, Settled: true}, Spec: &fault.Store{Do: fault.StoreStop}})
	s := play(t, e, func(s *stage) {
		lasts(s)
		rest := s.onFire
		s.onFire = func(f Fire, b *history.Fault) { // nobody ticks during the fault and for a while after it
			rest(f, b)
			s.nextRun = s.now + int64(f.For) + int64(500*time.Millisecond)
		}
	})
	if len(s.firedAt) != 2 {
		t.Fatalf("%d shots, want 2", len(s.firedAt))
	}
	if gap := time.Duration(s.firedAt[1] - s.firedAt[0]); gap < 1500*time.Millisecond {
		t.Errorf("the second shot came %s after the first, before a tick was seen", gap)
	}
}

// A fault whose end is never reported must not hold the drill for ever.
func TestAFaultThatIsNotVerifiedIsGivenUp(t *testing.T) {
	e := drillOf(experiments.Fault{ID: "slow", For: time.Second, Spec: &fault.Latency{Aim: fault.Aim{All: true}, Add: time.Millisecond}})
	s := play(t, e, func(s *stage) {
		s.onFire = func(_ Fire, b *history.Fault) { s.see(history.Event{Kind: history.FaultConfirmed, Fault: b}) }
	})
	if s.now > int64(2*time.Minute) {
		t.Errorf("the drill took %s", time.Duration(s.now))
	}
}

func TestMaxTargetsCountsWhoIsStruck(t *testing.T) {
	pause := func(id, replica string) experiments.Fault {
		return experiments.Fault{ID: id, For: time.Second, Repeat: experiments.Repeat{Count: 2, Settled: true}, Spec: &fault.Pause{Aim: fault.Aim{Replica: replica}}}
	}
	e := drillOf(pause("a", "r1"), pause("b", "r2"), pause("c", "r3"))
	e.Limits.MaxTargets = 2
	s := play(t, e, lasts)
	struck := map[string]int{}
	for _, f := range s.fires {
		struck[strings.Join(f.Victims, ",")]++
	}
	if want := map[string]int{"r1.1": 2, "r2.1": 2}; !reflect.DeepEqual(struck, want) {
		t.Errorf("struck %v, want %v: the cap is of replicas, not of shots", struck, want)
	}
}

// Times in the file keep faults of the network apart; a shot that is late must not break into the next.
func TestTwoNetworkFaultsNeverMeetOnOneWay(t *testing.T) {
	aim := fault.Aim{All: true}
	e := drillOf(
		experiments.Fault{ID: "slow", For: 5 * time.Second, Spec: &fault.Latency{Aim: aim, Add: time.Millisecond, Stream: fault.StreamDown}},
		experiments.Fault{ID: "hole", At: time.Second, For: time.Second, Spec: &fault.Cut{How: fault.Hole, Aim: aim}},
		experiments.Fault{ID: "up", At: time.Second, For: time.Second, Spec: &fault.Latency{Aim: aim, Add: time.Millisecond, Stream: fault.StreamUp}})
	e.AllowOverlap = [][2]string{{"slow", "hole"}, {"slow", "up"}, {"hole", "up"}}
	s := play(t, e, lasts)
	for i, f := range s.fires {
		early := s.firedAt[i] < s.firedAt[0]+int64(5*time.Second)
		switch {
		case f.Fault.ID == "hole" && early && !strings.Contains(f.Why, "slow was still in effect"):
			t.Errorf("the black hole was fired into the latency: %+v", f)
		case f.Fault.ID == "up" && f.Why != "":
			t.Errorf("the other stream is free: %s", f.Why)
		}
	}
	if !slices.ContainsFunc(s.fires, func(f Fire) bool { return f.Fault.ID == "hole" }) {
		t.Error("the black hole was not tried")
	}
}

// The file's times keep two faults apart that it does not allow together; another try of a void shot does not bring them together.
func TestAnotherTryMeetsNoFaultThatTheFileKeepsApart(t *testing.T) {
	clock := func(id string, at time.Duration) experiments.Fault {
		return experiments.Fault{ID: id, At: at, For: 2 * time.Second, Spec: &fault.Clock{Aim: fault.Aim{All: true}, Offset: time.Second}}
	}
	e := drillOf(clock("void", 0), clock("next", 3*time.Second), clock("beside", 3*time.Second))
	e.AllowOverlap = [][2]string{{"void", "beside"}, {"next", "beside"}}
	on := map[string]bool{}
	s := play(t, e, func(s *stage) {
		s.onFire = func(f Fire, b *history.Fault) {
			if on["void"] && f.Fault.ID == "next" || on["next"] && f.Fault.ID == "void" {
				t.Errorf("%s#%d was fired while the other was in effect", f.Fault.ID, f.Shot)
			}
			on[f.Fault.ID] = true
			s.after(f.For, func() {
				on[f.Fault.ID] = false
				kind := history.FaultConfirmed
				if f.Fault.ID == "void" {
					kind = history.FaultVoid
				}
				s.see(history.Event{Kind: kind, Fault: b})
				s.see(history.Event{Kind: history.FaultReverted, Fault: b})
				s.see(history.Event{Kind: history.FaultVerified, Fault: b})
			})
		}
	})
	var order []string
	for i, f := range s.fires {
		order = append(order, f.Fault.ID)
		if late := time.Duration(s.firedAt[i]-s.firedAt[0]) - f.Fault.At; f.Shot == 1 && late > 100*time.Millisecond {
			t.Errorf("the first shot of %s was %s late", f.Fault.ID, late)
		}
	}
	if want := 4; len(order) != want {
		t.Errorf("fired %v, want %d shots", order, want)
	}
}

func TestABurstWithACountHasALimit(t *testing.T) {
	for _, aim := range []fault.Aim{{HolderOf: "loop"}, {All: true}} {
		e := drillOf(experiments.Fault{ID: "burst", Spec: &fault.Failures{Of: lockcore.OpRenew, Aim: aim, Mode: fault.ModeError, Count: 3}})
		s := play(t, e, lasts)
		p := &e.System.Locks[0].Policy
		if len(s.fires) != 1 || s.fires[0].For < 3*p.RenewEvery || s.fires[0].For > 10*p.RenewEvery {
			t.Errorf("aimed at %+v: fires %+v, want one with a limit of some renewals", aim, s.fires)
		}
	}
}

func TestFaultsOfAllKindsAreRepeatable(t *testing.T) {
	e := drillOf(
		experiments.Fault{ID: "kill", Repeat: experiments.Repeat{Count: 3, Settled: true}, Spec: &fault.Kill{HolderOf: "loop", Phase: fault.RandomPhase, How: "crash"}},
		experiments.Fault{ID: "slow", At: 5 * time.Second, For: time.Second, Repeat: experiments.Repeat{Count: 2, Every: 2 * time.Second}, Spec: &fault.Latency{Aim: fault.Aim{All: true}, Add: 1}},
		experiments.Fault{ID: "burst", At: 9 * time.Second, Spec: &fault.Failures{Of: lockcore.OpRenew, Aim: fault.Aim{HolderOf: "loop"}, Count: 2}})
	e.Limits.MaxKills = 6
	again := func() *stage {
		return play(t, e, func(s *stage) {
			lasts(s)
			rest := s.onFire
			s.onFire = func(f Fire, b *history.Fault) {
				if !f.Fault.Traits().Kills {
					rest(f, b)
					return
				}
				was := s.onFire
				s.onFire = nil
				s.shoot(f)
				s.onFire = was
			}
		})
	}
	a, b := again(), again()
	if !reflect.DeepEqual(a.fires, b.fires) || !reflect.DeepEqual(a.firedAt, b.firedAt) || a.now != b.now || len(a.fires) < 6 {
		t.Errorf("two runs with one seed differ: %d and %d shots, ends %d and %d", len(a.fires), len(b.fires), a.now, b.now)
	}
}

// A key that a fault took away is free though its holder does not know it yet: the next shot is for another.
func TestAKeyThatWasTakenAwayIsNotHeld(t *testing.T) {
	e := drillOf(experiments.Fault{ID: "vanish", Spec: &fault.DeleteKey{HolderOf: "loop"}})
	s := play(t, e, func(s *stage) {
		s.onFire = func(f Fire, b *history.Fault) {
			for _, kind := range []history.Kind{history.FaultConfirmed, history.FaultReverted, history.FaultVerified} {
				s.see(history.Event{Kind: kind, Lock: "loop", Key: f.Key, Epoch: f.Epoch, Fault: b})
			}
			if keys := s.c.world.heldKeys("loop"); len(keys) != 0 {
				t.Errorf("%v are still held after the fault was confirmed", keys)
			}
		}
	})
	if len(s.fires) != 1 || s.fires[0].Key != "the-loop" {
		t.Fatalf("fires %+v, want one at the leader", s.fires)
	}
}

// A job whose work is longer than the horizon is waited for, as long as it may take.
func TestLongJobsAreWaitedFor(t *testing.T) {
	const hold = time.Minute
	e := drillOf(experiments.Fault{ID: "slow", For: time.Second, Spec: &fault.Latency{Aim: fault.Aim{All: true}, Add: time.Millisecond}})
	e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: lockcore.Policy{TTL: time.Second}})
	e.System.Work = []experiments.Work{{Lock: "job", Jobs: 2, Rate: 10, Hold: experiments.Hold{P50: hold}, Redeliver: 500 * time.Millisecond}}
	s := play(t, e, func(s *stage) {
		lasts(s)
		s.after(200*time.Millisecond, func() { // the other one is not done
			s.see(history.Event{Kind: history.JobAck, Lock: "job", Key: "job:job-00001", Job: &history.Job{ID: "job-00001", Ack: history.AckDone}})
		})
	})
	if least := s.firedAt[0] + int64(time.Second+hold) + int64(s.c.horizon); s.now < least {
		t.Errorf("the drill ended at %s, before %s: fault, horizon %s and %s of work", time.Duration(s.now), time.Duration(least), s.c.horizon, hold)
	}
}
