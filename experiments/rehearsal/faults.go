package rehearsal

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// image is what a kind of fault is in the simulated world.
type image struct {
	do  func(*shot)
	why string // it cannot be rehearsed
}

// images is each kind's image; one that has none says why.
func images() map[string]image {
	return map[string]image{
		experiments.KindKill:            {do: (*shot).kill},
		experiments.KindPause:           {do: (*shot).pause},
		experiments.KindRenewFailures:   {do: (*shot).burst},
		experiments.KindAcquireFailures: {do: (*shot).burst},
		experiments.KindReleaseFailures: {do: (*shot).burst},
		experiments.KindLatency:         {do: (*shot).network},
		experiments.KindJitter:          {do: (*shot).network},
		experiments.KindBandwidth:       {do: (*shot).network},
		experiments.KindBlackHole:       {do: (*shot).network},
		experiments.KindReset:           {do: (*shot).network},
		experiments.KindDown:            {do: (*shot).network},
		experiments.KindStore:           {do: (*shot).store},
		experiments.KindDeleteKey:       {do: (*shot).takeKey},
		experiments.KindClock:           {do: (*shot).clock},
		experiments.KindSlowClose: {do: (*shot).unable,
			why: "messages are simulated and connections are not: how long one takes to close changes no message"},
	}
}

// Why says why faults of a kind cannot be rehearsed; "" = they can.
func Why(kind string) string {
	if i, known := images()[kind]; known {
		return i.why
	}
	return "fault " + kind + " has no image in the simulated world"
}

func (s *shot) unable() {
	s.void(history.FaultFailed, "cannot be rehearsed: "+WhyNot(s.f))
	s.revert()
}

func (s *shot) kill() {
	if WhyNot(s.f) != "" {
		s.unable()
		return
	}
	victim := s.e.Fault.Victim
	s.apply(callTakes, func() string {
		if !s.w.Kill(victim) {
			return "kill " + victim + ": it is gone"
		}
		return ""
	}, func() {
		s.w.After(deathTakes, func() {
			at := history.Span{From: s.applied.From, To: s.w.Now()}
			s.exited(victim, "signal: killed", at)
			if gave, known := s.gaveUp[s.e.Epoch]; known && gave <= s.applied.To {
				s.void(history.Moved, victim+" gave the lock up before the kill")
				s.revert()
				return
			}
			s.confirm(at, history.Fault{Hits: 1})
		})
	})
}

func (s *shot) pause() {
	victim, lasts := s.e.Fault.Victim, s.f.For
	s.apply(callTakes, func() string {
		if !s.w.Pause(victim) {
			return "pause " + victim + ": it is gone"
		}
		s.undo = func() { s.w.Resume(victim) }
		return ""
	}, func() {
		s.w.After(lasts-callTakes, func() {
			if !s.w.Alive(victim) {
				s.void(history.Moved, victim+" died during the pause")
				s.revert()
				return
			}
			s.confirm(history.Span{From: s.applied.To, To: s.w.Now()},
				history.Fault{Hits: 1, Expected: int64(lasts), Observed: s.w.Now() - s.applied.To})
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
	by := s.f.Clock.Offset
	tell := func(victim string, k history.Kind, detail string) {
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
				tell(v, history.FaultHit, "observed offset "+off.String())
			}
		}
		if len(set) == 0 {
			return "nobody could be armed"
		}
		s.undo = func() {
			for _, v := range set {
				if _, ok := s.w.SetClock(v, -by); ok {
					tell(v, history.FaultReverted, "its time was up")
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
	if s.f.DeleteKey.To != "" {
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
	f, lasts := s.f.Store, s.f.For
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
			s.tellAt(history.FaultApplied, s.applied, nil)
			s.w.After(time.Millisecond, confirm(history.Fault{Hits: 1, Observed: s.applied.Width()}))
		})
	}
	switch f.Do {
	case experiments.StorePause:
		through(s.w.PauseWrites, s.w.ResumeWrites)
	case experiments.StoreFreeze:
		through(s.w.Freeze, s.w.Thaw)
	case experiments.StoreStop:
		through(func() { s.w.StopStore(f.Keep) }, s.w.StartStore)
	case experiments.StoreRestart:
		again(0, func() {}, s.w.StartStore)
	case experiments.StoreFailover:
		again(f.Lag, s.w.CutStandby, s.w.FailOver)
	case experiments.StoreFlush:
		s.apply(time.Millisecond, func() string { s.w.Flush(); return "" }, func() {
			s.w.After(time.Millisecond, confirm(history.Fault{Hits: 1}))
		})
	default:
		panic(fmt.Sprintf("rehearsal: store fault %q", f.Do))
	}
}

// network is a fault of the ways between replicas and the store.
func (s *shot) network() {
	f := s.f
	var link sim.Link
	least := time.Duration(0)
	delay := func(add, jitter time.Duration, stream experiments.Stream) {
		for d, on := range streams(stream) {
			if on {
				link.Add[d], link.Jitter[d] = add, jitter
				least += max(0, add-jitter)
			}
		}
	}
	switch {
	case f.Latency != nil:
		delay(f.Latency.Add, f.Latency.Jitter, f.Latency.Stream)
	case f.Jitter != nil:
		delay(f.Jitter.By, f.Jitter.By, f.Jitter.Stream)
	case f.Bandwidth != nil:
		for d, on := range streams(f.Bandwidth.Stream) {
			if on {
				link.Rate[d] = f.Bandwidth.Rate
			}
		}
	default:
		link.Cut = f.Kind()
	}
	var names []string
	if a := f.Aim(); a.All || a == (experiments.Aim{}) {
		for i := range s.drill.e.System.Replicas {
			names = append(names, fmt.Sprintf("r%d", i+1))
		}
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
		s.w.After(min(took, f.For-time.Millisecond), func() { s.confirm(history.Span{From: s.applied.From, To: s.w.Now()}, saw) })
	})
}

// streams are the directions that a fault of the network changes; downstream where it says none.
func streams(s experiments.Stream) [2]bool {
	return [2]bool{s == experiments.StreamUp || s == experiments.StreamBoth, s != experiments.StreamUp}
}
