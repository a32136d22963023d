package conductor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// loopDrill is a renewed leader loop under kills.
func loopDrill(kills int) *experiments.Experiment {
	takeover := 3 * time.Second
	return &experiments.Experiment{
		Name: "t", TimeScale: 1,
		System: experiments.System{
			Mode: "embedded", Replicas: 3, Restart: 300 * time.Millisecond,
			Locks: []experiments.Lock{{Name: "loop", Key: "the-loop", Policy: lockcore.Policy{
				TTL: time.Second, RenewEvery: 300 * time.Millisecond, OpTimeout: 100 * time.Millisecond, Class: lockcore.Standard,
				Loop: &lockcore.Loop{Poll: 200 * time.Millisecond, Mode: lockcore.LoopRenewed},
			}}},
		},
		SteadyState: experiments.SteadyState{For: time.Second, Timeout: 10 * time.Second},
		Faults: []experiments.Fault{{
			ID: "kill", Spec: &fault.Kill{HolderOf: "loop", Phase: fault.AfterRenew, How: "crash"},
			Repeat: experiments.Repeat{Count: kills, Settled: true},
		}},
		Limits: experiments.RunLimits{MaxKills: 2 * kills, MaxRun: 5 * time.Minute},
		SLOs:   []experiments.SLO{{Lock: "loop", Takeover: experiments.Within(takeover)}},
	}
}

// stage is a toy system in virtual time that answers the conductor's actions: replicas get ready after 5 ms, the first ready one
// leads, renews and ticks, and after a kill the next one leads one TTL later.
type stage struct {
	t       *testing.T
	c       *Conductor
	e       *experiments.Experiment
	now     int64
	epochs  int
	leader  string
	epoch   string
	freeAt  int64
	nextRun int64
	alive   []string
	due     []pending // answers on their way
	offers  []Offer
	fires   []Fire
	firedAt []int64
	phases  []string
	holds   *bool
	abort   string

	onOffer    func(Offer)
	onFire     func(Fire, *history.Fault) // instead of a kill
	onPhase    func(string)
	onEnter    func(*history.Phase)
	neverReady bool
	voidKills  bool
}

type pending struct {
	at int64
	do func()
}

func (s *stage) after(d time.Duration, do func()) {
	s.due = append(s.due, pending{s.now + int64(d), do})
}

func (s *stage) see(e history.Event) {
	if e.Span == (history.Span{}) {
		e.Span = history.At(s.now)
	}
	e.At = s.now
	s.c.Observe(e)
}

// run plays until the conductor finishes, at most for a virtual hour.
func (s *stage) run() {
	for s.now < int64(time.Hour) {
		s.answers()
		for _, a := range s.c.Step(s.now) {
			if a.Finish {
				return
			}
			s.act(a)
		}
		next := s.c.Next(s.now)
		if next <= s.now {
			s.t.Fatalf("Next(%d) = %d: time stands still", s.now, next)
		}
		s.now = max(min(next, s.nextAnswer()), s.now+1)
	}
	s.t.Fatal("the conductor never finished")
}

// nextAnswer is when the system does something by itself.
func (s *stage) nextAnswer() int64 {
	next := never
	for _, p := range s.due {
		next = min(next, p.at)
	}
	switch {
	case s.leader != "":
		next = min(next, s.nextRun)
	case len(s.alive) > 0:
		next = min(next, s.freeAt)
	}
	return next
}

func (s *stage) answers() {
	for i := 0; i < len(s.due); i++ {
		if s.due[i].at <= s.now {
			do := s.due[i].do
			s.due = slices.Delete(s.due, i, i+1)
			i--
			do()
		}
	}
	if s.leader == "" && len(s.alive) > 0 && s.now >= s.freeAt {
		s.leader = s.alive[0]
		s.epochs++
		s.epoch = fmt.Sprintf("e%d", s.epochs)
		s.see(history.Event{Kind: history.AcquireInvoke, Source: s.leader, Lock: "loop", Key: "the-loop", Epoch: s.epoch, Call: &history.Call{}})
		s.see(history.Event{Kind: history.AcquireReturn, Source: s.leader, Lock: "loop", Key: "the-loop", Epoch: s.epoch, Outcome: history.OK, Call: &history.Call{}})
		s.nextRun = s.now
	}
	if s.leader != "" && s.now >= s.nextRun {
		s.nextRun = s.now + int64(200*time.Millisecond)
		s.see(history.Event{Kind: history.RenewReturn, Source: s.leader, Lock: "loop", Key: "the-loop", Epoch: s.epoch, Outcome: history.OK, Call: &history.Call{}})
		s.see(history.Event{Kind: history.LedgerEntry, Lock: "loop", Key: "the-loop", Epoch: s.epoch, Entry: &history.Entry{Loop: true, State: "tick", Accepted: true}})
	}
}

func (s *stage) act(a Action) {
	switch {
	case a.Phase != nil:
		s.phases = append(s.phases, a.Phase.Name)
		if s.onEnter != nil {
			s.onEnter(a.Phase)
		}
		if s.onPhase != nil {
			s.onPhase(a.Phase.Name)
		}
		if a.Phase.Holds != nil {
			s.holds = a.Phase.Holds
		}
	case a.Start != nil:
		inc := a.Start.Incarnation
		rep := &history.Replica{Name: a.Start.Name, Incarnation: inc}
		s.after(5*time.Millisecond, func() {
			if s.neverReady {
				s.see(history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: rep.Name, Incarnation: inc, Exit: "exit status 3"}})
				return
			}
			s.alive = append(s.alive, inc)
			s.inPod(rep.Name, inc)
			s.see(history.Event{Kind: history.ReplicaReady, Source: inc, Replica: rep})
		})
	case a.Offer != nil:
		s.offers = append(s.offers, *a.Offer)
		if s.onOffer != nil {
			s.onOffer(*a.Offer)
		}
	case a.Fire != nil:
		s.fires, s.firedAt = append(s.fires, *a.Fire), append(s.firedAt, s.now)
		s.shoot(*a.Fire)
	case a.Abort != nil:
		s.abort = a.Abort.What
	}
}

func (s *stage) shoot(f Fire) {
	body := &history.Fault{ID: f.Fault.ID, Shot: f.Shot, Kind: f.Fault.Kind()}
	if s.onFire != nil {
		s.onFire(f, body)
		return
	}
	if f.Key == "" || s.voidKills {
		s.see(history.Event{Kind: history.FaultVoid, Fault: body})
		return
	}
	victim := s.leader
	s.alive = slices.DeleteFunc(s.alive, func(inc string) bool { return inc == victim })
	s.leader, s.freeAt = "", s.now+int64(time.Second)
	name, _, _ := strings.Cut(victim, ".")
	s.see(history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: name, Incarnation: victim, Exit: "signal: killed"}})
	s.see(history.Event{Kind: history.FaultConfirmed, Fault: body})
}

func play(t *testing.T, e *experiments.Experiment, edit func(*stage)) *stage {
	t.Helper()
	s := &stage{t: t, e: e, c: New(e, 1), now: 1}
	if edit != nil {
		edit(s)
	}
	s.run()
	return s
}

func TestPhasesAndShotsOfAWholeDrill(t *testing.T) {
	s := play(t, loopDrill(4), nil)
	want := []string{"steady", "faults", "revert", "settle", "final"}
	if !reflect.DeepEqual(s.phases, want) {
		t.Errorf("phases %v, want %v", s.phases, want)
	}
	if s.holds == nil || !*s.holds {
		t.Error("the steady state was not said to hold")
	}
	if len(s.fires) != 4 {
		t.Fatalf("%d kills, want 4", len(s.fires))
	}
	seen := map[string]bool{}
	for _, f := range s.fires {
		if f.Key != "the-loop" || seen[f.Epoch] {
			t.Errorf("shot %d aims at key %q epoch %q", f.Shot, f.Key, f.Epoch)
		}
		seen[f.Epoch] = true
	}
}

// A kill is not followed by the next before its takeover was seen: they would censor one another.
func TestSettledWaitsForTheTakeover(t *testing.T) {
	e := loopDrill(3)
	at := play(t, e, nil).firedAt
	if len(at) != 3 {
		t.Fatalf("%d kills, want 3", len(at))
	}
	for i := 1; i < len(at); i++ {
		if gap := time.Duration(at[i] - at[i-1]); gap < time.Second {
			t.Errorf("kill %d came %s after the one before, inside its takeover of 1s", i+1, gap)
		}
	}
}

// A kill that is to come before a renewal waits for the next one where the step came too late for this one.
func TestBeforeRenewIsCountedFromTheLastRenewal(t *testing.T) {
	e := loopDrill(3)
	e.Faults[0].Spec.(*fault.Kill).Phase = fault.BeforeRenew
	c := New(e, 1)
	s := c.series[0]
	s.state = armed
	ep := &epoch{id: "e", lock: "loop", key: "the-loop"}
	c.world.held[ep.key] = ep
	for _, at := range []int64{100, 200} {
		c.moment(ep, history.Event{Kind: history.RenewReturn, Span: history.Span{From: at, To: at + 5}})
		if want := at + int64(forecast.BeforeRenew*float64(s.lock.Policy.RenewEvery)); s.target != ep || s.due != want || s.anchor != at+5 {
			t.Errorf("after a renewal at %d: due %d, anchor %d, want %d and %d", at, s.due, s.anchor, want, at+5)
		}
	}
	due := s.due
	if c.moment(&epoch{id: "other", lock: "loop"}, history.Event{Kind: history.RenewReturn, Span: history.At(300)}); s.target != ep || s.due != due {
		t.Error("the renewal of another key moves the moment")
	}
	next := &epoch{id: "next", lock: "loop", key: ep.key} // the lease ran out, and another has the key
	c.world.held[ep.key], s.until = next, due+1
	if c.kill(s, due); s.state != armed || s.target != nil || len(c.out) > 0 || s.due != s.until {
		t.Errorf("a moment of a lease that is over: state %v, target %+v, %d actions", s.state, s.target, len(c.out))
	}
	s.target = ep // its loss and the next grant are told at once, before the next step
	if c.moment(next, history.Event{Kind: history.AcquireReturn, Span: history.At(due)}); s.target != next {
		t.Errorf("the next holder is not aimed at: %+v", s.target)
	}
	delete(c.world.held, next.key)
	if c.kill(s, s.until); s.state != flying || len(c.out) != 1 || c.out[0].Fire.Why == "" {
		t.Errorf("a shot whose targets are lost waits for ever: state %v, %d actions", s.state, len(c.out))
	}
}

func TestVoidShotsAreRepeatedAtMostTwiceTheCount(t *testing.T) {
	s := play(t, loopDrill(3), func(s *stage) { s.voidKills = true })
	if len(s.fires) != 6 {
		t.Errorf("%d shots for a count of 3 that never succeed, want 6", len(s.fires))
	}
}

func TestMaxKillsHoldsWhateverTheFaultsAsk(t *testing.T) {
	e := loopDrill(5)
	e.Limits.MaxKills = 2
	if s := play(t, e, nil); len(s.fires) != 2 {
		t.Errorf("%d kills, want limits.max_kills = 2", len(s.fires))
	}
}

// TestTriesAtRandomMomentsAreACycleApart: between two holders nobody holds for up to a lease and a poll, and the tries of a shot are not all
// spent in that gap.
func TestTriesAtRandomMomentsAreACycleApart(t *testing.T) {
	e := loopDrill(2)
	e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "other", KeyPrefix: "o:", Policy: lockcore.Policy{TTL: 4 * time.Second}})
	kill := e.Faults[0].Spec.(*fault.Kill)
	kill.HolderOf, kill.Phase = "other", fault.RandomPhase
	for seed := range int64(50) {
		s := play(t, e, func(s *stage) { s.c = New(s.e, seed) })
		if len(s.firedAt) != 4 {
			t.Fatalf("seed %d: %d tries, want 4", seed, len(s.firedAt))
		}
		for i, at := range s.firedAt {
			if after := time.Duration(at - s.firedAt[0]); after < time.Duration(i-1)*4*time.Second {
				t.Errorf("seed %d: try %d comes %s after the first", seed, i+1, after)
			}
		}
	}
}

func TestReplicasThatCannotStartEndTheRunWithoutASteadyState(t *testing.T) {
	s := play(t, loopDrill(1), func(s *stage) { s.neverReady = true })
	if s.holds == nil || *s.holds || len(s.fires) != 0 {
		t.Errorf("holds %v, %d shots; want an unsteady end without a shot", s.holds, len(s.fires))
	}
	if !slices.Contains(s.phases, history.PhaseFinal) {
		t.Errorf("phases %v do not reach the final looks", s.phases)
	}
}

func TestAnInterruptRevertsAndLooksALastTime(t *testing.T) {
	s := play(t, loopDrill(50), func(s *stage) {
		s.after(5*time.Second, func() { s.c.Abort("signal", "test") })
	})
	if s.abort != "signal" || len(s.fires) >= 50 {
		t.Errorf("abort %q after %d shots", s.abort, len(s.fires))
	}
	if got := s.phases[len(s.phases)-3:]; !reflect.DeepEqual(got, []string{"revert", "settle", "final"}) {
		t.Errorf("phases end with %v", got)
	}
}

func TestMaxRunEndsADrillThatWouldGoOn(t *testing.T) {
	e := loopDrill(50)
	e.Limits.MaxRun = 10 * time.Second
	s := play(t, e, nil)
	if s.abort != "limit" || s.now > int64(12*time.Second) {
		t.Errorf("abort %q at %s", s.abort, time.Duration(s.now))
	}
}

func TestCountsAboveTheAbortConditionsEndTheRun(t *testing.T) {
	zero, two := 0, 2
	for _, c := range []struct {
		when  experiments.AbortCondition
		event func(n int) history.Event
	}{
		{experiments.AbortCondition{DuplicateTerminalStatesAbove: &zero}, func(n int) history.Event {
			return history.Event{Kind: history.LedgerEntry, Lock: "job", Key: "k", Epoch: fmt.Sprint(n), Entry: &history.Entry{Subject: "j", State: "done", Terminal: true, Accepted: true}}
		}},
		{experiments.AbortCondition{AbandonmentsAbove: &two}, func(int) history.Event {
			return history.Event{Kind: history.AbandonKind, Lock: "loop", Abandon: &history.Abandon{}}
		}},
	} {
		e := loopDrill(50)
		e.AbortWhen = []experiments.AbortCondition{c.when}
		s := play(t, e, func(s *stage) {
			for n := range 3 {
				s.after(4*time.Second, func() { s.see(c.event(n)) })
			}
		})
		if s.abort != "condition" {
			t.Errorf("%+v: abort %q, want condition", c.when, s.abort)
		}
	}
}

// At a time scale everything that waits for the locks waits so much less.
func TestAScaledDrillSettlesInScaledTime(t *testing.T) {
	e := loopDrill(1)
	real := play(t, e, nil).now
	e.TimeScale = 0.25
	scaled := play(t, experiments.Scale(e), nil).now
	if scaled > real*3/4 {
		t.Errorf("at a quarter of the time the drill took %s instead of %s", time.Duration(scaled), time.Duration(real))
	}
}

// Several series may be armed when the last allowed kill is spent: the cap holds for each shot.
func TestMaxKillsHoldsBetweenSeries(t *testing.T) {
	e := loopDrill(2)
	e.Faults = append(e.Faults, e.Faults[0], e.Faults[0])
	e.Faults[1].ID, e.Faults[2].ID = "b", "c"
	e.Limits.MaxKills = 3
	s := play(t, e, nil)
	kills := 0
	for _, f := range s.fires {
		if f.Key != "" {
			kills++
		}
	}
	if kills > 3 {
		t.Errorf("%d kills, limits.max_kills is 3", kills)
	}
}

// A store that dies while late breaches are waited for leaves the question open.
func TestAStoreThatIsLostWhileSettlingAborts(t *testing.T) {
	s := play(t, loopDrill(1), func(x *stage) {
		x.onPhase = func(name string) {
			if name == history.PhaseSettle {
				x.after(10*time.Millisecond, func() { x.c.StoreLost("gone") })
			}
		}
	})
	if s.abort != "store_lost" {
		t.Errorf("abort %q, want store_lost", s.abort)
	}
}
