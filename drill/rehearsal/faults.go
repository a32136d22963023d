package rehearsal

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// simulation is what a fault is in the simulated world.
type simulation struct {
	do      func(*shot)
	simpler map[string]string // what the rehearsal of a form leaves out
}

// mechanisms are the simulations of all faults that are made by one mechanism, and ways those of kinds that are not like the others.
func mechanisms() map[fault.Mechanism]simulation {
	return map[fault.Mechanism]simulation{fault.Toxic: {do: (*shot).network}, fault.Burst: {do: (*shot).burst}}
}

func ways() map[string]simulation {
	return map[string]simulation{
		"kill": {do: (*shot).kill,
			simpler: map[string]string{
				fault.ForceDelete: "it is rehearsed as a death at the call: a process that outlives its pod's object, or hands over, is not simulated",
				fault.Evict:       "it is rehearsed as a graceful kill: disruption budgets are not simulated, and one may block it"}},
		"rolling_restart": {do: (*shot).kill},
		"pause":           {do: (*shot).pause},
		"starve":          {do: (*shot).starve},
		"store":           {do: (*shot).store},
		"delete_key":      {do: (*shot).takeKey},
		"clock":           {do: (*shot).clock},
	}
}

// simulationOf is the simulation of a fault; known is false where it has none, and its kind does not say why.
func simulationOf(f fault.Fault) (s simulation, known bool) {
	if f.Unplayed() != "" {
		return simulation{do: (*shot).unable}, true
	}
	if s, known = ways()[f.Kind()]; !known {
		s, known = mechanisms()[f.By()]
	}
	return s, known
}

func known(f fault.Fault) bool {
	_, known := simulationOf(f)
	return known
}

// WhyNot says why this fault cannot be rehearsed; "" = it can.
func WhyNot(f *experiments.Fault) string {
	of := fault.Of(f.Spec)
	if !known(of) {
		return "fault " + f.Kind() + " is not simulated"
	}
	return of.Unplayed()
}

// Simpler says what the rehearsal of a fault leaves out; "" = nothing.
func Simpler(f *experiments.Fault) string { return ways()[f.Kind()].simpler[f.Form()] }

func (s *shot) unable() {
	s.void(history.FaultFailed, "cannot be rehearsed: "+WhyNot(s.f))
	s.revert()
}

func (s *shot) kill() {
	victims := s.victims()
	if s.e.Fault.Form == fault.Graceful || s.e.Fault.Form == fault.Evict {
		s.ask(victims)
		return
	}
	s.apply(callTakes, func() string {
		for _, v := range victims {
			if !s.w.Kill(v) {
				return "kill " + v + ": it is gone"
			}
		}
		return ""
	}, func() {
		s.w.After(deathTakes, func() {
			at := history.Span{From: s.applied.From, To: s.w.Now()}
			for _, v := range victims {
				s.exited(v, "signal: killed", at)
			}
			if gave, known := s.gaveUp[s.e.Epoch]; known && gave <= s.applied.To {
				s.void(history.Moved, s.e.Fault.Victim+" gave the lock up before the kill")
				s.revert()
				return
			}
			s.confirm(at, history.Fault{Hits: int64(len(victims))})
		})
	})
}

// graceTakes is what a replica has from SIGTERM to SIGKILL, where the fault does not say.
const graceTakes = 10 * time.Second

// ask tells the victims to end, and kills each when its grace is over.
func (s *shot) ask(victims []string) {
	all, left := history.Span{}, len(victims) // from the first end to the last
	ended := func(victim, how string) {
		at := history.Span{From: s.w.Now()}
		s.w.After(callTakes+deathTakes, func() {
			at.To = s.w.Now()
			s.exited(victim, how, at)
			if all.To = at.To; all.From == 0 {
				all.From = at.From
			}
			if left--; left == 0 {
				d := &history.Death{Call: s.applied, Means: history.MeansSignal, Sign: all.From, End: &all}
				s.confirm(history.Span{From: s.applied.From, To: all.To}, history.Fault{Hits: int64(len(victims)), Death: d})
			}
		})
	}
	s.apply(callTakes, func() string {
		for _, v := range victims {
			if !s.w.Stop(v, func() { ended(v, "exit status 0") }) {
				return "ask " + v + " to end: it is gone"
			}
		}
		return ""
	}, func() {})
	s.w.After(cmp.Or(s.f.Traits().Grace, graceTakes), func() {
		for _, v := range victims {
			if s.w.Kill(v) {
				ended(v, "signal: killed")
			}
		}
	})
}

func (s *shot) pause() {
	victims, lasts := s.victims(), s.f.For
	s.apply(callTakes, func() string {
		var stopped []string // by this shot: what another one stopped is not its to continue
		s.undo = func() {
			for _, v := range stopped {
				s.w.Resume(v)
			}
		}
		for _, v := range victims {
			if !s.w.Pause(v) {
				return "pause " + v + ": it is gone"
			}
			stopped = append(stopped, v)
		}
		return ""
	}, func() {
		s.w.After(lasts-callTakes, func() {
			for _, v := range victims {
				if !s.w.Alive(v) {
					s.void(history.Moved, v+" died during the pause")
					s.revert()
					return
				}
			}
			s.confirm(history.Span{From: s.applied.To, To: s.w.Now()},
				history.Fault{Hits: int64(len(victims)), Expected: int64(lasts), Observed: s.w.Now() - s.applied.To})
		})
	})
}

// starve lets the victim stand still for its share of each period.
func (s *shot) starve() {
	victim, lasts, f := s.e.Fault.Victim, s.f.For, s.f.Spec.(*fault.Starve)
	var stood time.Duration
	var turn func()
	turn = func() {
		left := time.Duration(s.began + int64(lasts) - s.w.Now())
		if s.done || s.over || left <= 0 || !s.w.Pause(victim) {
			return
		}
		now := min(f.Stood(), left)
		s.w.After(now, func() {
			s.w.Resume(victim)
			stood += now
			s.w.After(f.Period-f.Stood(), turn)
		})
	}
	s.apply(callTakes, func() string {
		if !s.w.Alive(victim) {
			return "starve " + victim + ": it is gone"
		}
		s.undo = func() { s.w.Resume(victim) }
		turn()
		return ""
	}, func() {
		s.w.After(lasts-callTakes, func() {
			if !s.w.Alive(victim) {
				s.void("moved", victim+" died during the fault")
				s.revert()
				return
			}
			saw := history.Fault{Hits: 1, Expected: int64(f.Share * float64(lasts)), Observed: int64(stood)}
			if saw.Observed*10 < saw.Expected*8 { // another fault had it
				s.unconfirmed(victim + " was stopped by somebody else")
				return
			}
			s.confirm(history.Span{From: s.applied.To, To: s.w.Now()}, saw)
		})
	})
}

// victims are the incarnations that the shot strikes.
func (s *shot) victims() []string {
	if s.e.Fault.Victim != "" {
		return []string{s.e.Fault.Victim}
	}
	return s.e.Fault.Victims
}

// clock sets the victims' wall clocks off; each sets its own right when the time is up.
func (s *shot) clock() {
	by := s.f.Spec.(*fault.Clock).Offset
	note := func(victim string, k history.Kind, detail string) {
		e := s.e
		body := *s.e.Fault
		body.Victim, body.Detail, body.Hits, body.Form = victim, detail, 1, "offset"
		e.Kind, e.Span, e.Source, e.Clock, e.Fault = k, history.At(s.w.Now()), victim, history.ClockShared, &body
		e.Lock, e.Key, e.Epoch = "", "", ""
		s.w.Say(e)
	}
	var set []string
	s.apply(2*callTakes, func() string {
		for _, v := range s.victims() {
			if off, ok := s.w.SetClock(v, by); ok {
				set = append(set, v)
				note(v, history.FaultHit, "observed offset "+off.String())
			}
		}
		if len(set) == 0 {
			return "nobody could be armed"
		}
		s.undo = func() {
			for _, v := range set {
				if _, ok := s.w.SetClock(v, -by); ok {
					note(v, history.FaultReverted, "its time was up")
				}
			}
		}
		return ""
	}, func() {
		s.w.After(time.Millisecond, func() {
			s.confirm(s.applied, history.Fault{Hits: int64(len(set)), Expected: int64(by), Observed: int64(by)})
		})
	})
}

// takeKey takes the key from its holder.
func (s *shot) takeKey() {
	var lasts time.Duration
	if s.f.Traits().Plants {
		lasts = s.f.For
	}
	s.apply(time.Millisecond, func() string {
		stranger, ok := s.w.Take(s.e.Key, s.e.Epoch, lasts)
		if !ok {
			return "the lock was given up while its key was to be taken away"
		}
		if lasts > 0 {
			s.undo = func() { s.w.Untake(s.e.Key, stranger) }
		}
		return ""
	}, func() {
		s.w.After(time.Millisecond, func() {
			s.confirm(history.Span{From: s.applied.From, To: s.w.Now()}, history.Fault{Hits: 1})
		})
	})
}

const storeStarts = 50 * time.Millisecond // a server until it answers

// store is a fault of the locks' store itself.
func (s *shot) store() {
	f, lasts := s.f.Spec.(*fault.Store), s.f.For
	confirm := func(saw history.Fault) func() {
		return func() { s.confirm(history.Span{From: s.applied.From, To: s.w.Now()}, saw) }
	}
	through := func(begin, end func()) { // in effect until its time is up
		s.apply(time.Millisecond, func() string { begin(); s.undo = end; return "" }, func() {
			s.w.After(lasts-time.Millisecond, confirm(history.Fault{Hits: 1, Expected: int64(lasts), Observed: int64(lasts - time.Millisecond)}))
		})
	}
	again := func(lag time.Duration, begin, end func()) { // away until it is there again
		begin()
		from := s.w.Now() + int64(lag)
		s.w.After(lag, func() { s.w.StopStore(f.Keep || lag > 0) })
		s.w.After(lag+storeStarts, func() {
			end()
			s.applied = history.Span{From: from, To: s.w.Now()}
			s.recordAt(history.FaultApplied, s.applied, nil)
			s.w.After(time.Millisecond, confirm(history.Fault{Hits: 1, Observed: s.applied.Width()}))
		})
	}
	switch f.Do {
	case fault.StorePause:
		through(s.w.PauseWrites, s.w.ResumeWrites)
	case fault.StoreFreeze:
		through(s.w.Freeze, s.w.Thaw)
	// A leader's death takes all servers away at most until another leads; there is one server here.
	case fault.StoreFreezeLeader:
		through(s.w.Freeze, s.w.Thaw)
	case fault.StoreStopLeader:
		through(func() { s.w.StopStore(true) }, s.w.StartStore)
	case fault.StoreStop:
		through(func() { s.w.StopStore(f.Keep) }, s.w.StartStore)
	case fault.StoreRestart:
		again(0, func() {}, s.w.StartStore)
	case fault.StoreFailover:
		again(f.Lag, s.w.CutStandby, s.w.FailOver)
	case fault.StoreFlush:
		s.apply(time.Millisecond, func() string { s.w.Flush(); return "" }, func() {
			s.w.After(time.Millisecond, confirm(history.Fault{Hits: 1}))
		})
	default:
		panic(fmt.Sprintf("rehearsal: store fault %q", f.Do))
	}
}

// network is a fault of the ways between replicas and the store.
func (s *shot) network() {
	w, _ := s.f.Wire()
	link := sim.Link{Cut: string(w.Cut)}
	least := time.Duration(0)
	for d, one := range []fault.Stream{fault.StreamUp, fault.StreamDown} {
		if w.Stream.On(one) && w.Cut == "" {
			link.Add[d], link.Jitter[d], link.Rate[d] = w.Add, w.Jitter, w.Rate
			least += max(0, w.Add-w.Jitter)
		}
	}
	var names []string
	if a := s.f.Aim(); a.All || a == (fault.Aim{}) {
		names = s.drill.e.ReplicaNames()
	} else {
		for _, v := range s.victims() {
			names = append(names, nameOf(v))
		}
	}
	base, _ := s.w.RoundTrip(names[0])
	s.apply(time.Millisecond, func() string {
		for _, n := range names {
			s.w.Link(n, link)
		}
		s.undo = func() {
			for _, n := range names {
				s.w.Unlink(n)
			}
		}
		return ""
	}, func() {
		saw := history.Fault{Baseline: int64(base), Hits: 1}
		took := 10 * time.Millisecond
		if d, ok := s.w.RoundTrip(names[0]); ok {
			saw.Expected, saw.Observed = int64(least), int64(d)
			took += d
		}
		s.w.After(min(took, s.f.For-time.Millisecond), func() { s.confirm(history.Span{From: s.applied.From, To: s.w.Now()}, saw) })
	})
}
