package rehearsal

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// burst makes operations fail: in each victim by itself, or counted together on their ways.
func (s *shot) burst() {
	b := s.f.Spec.(*fault.Failures)
	arm := sim.Arm{
		Spec: burst.Spec{
			Op: string(b.Of), Mode: string(b.Mode), Share: b.Share, Delay: b.Delay, Count: b.Count,
			For: time.Duration(s.e.Fault.Declared),
		},
		Shot: s.e.Op, Fault: history.Fault{
			ID: s.e.Fault.ID, Shot: s.e.Fault.Shot, Kind: s.e.Fault.Kind, Form: s.e.Fault.Form, Via: s.e.Fault.Via,
			Declared: s.e.Fault.Declared, Want: s.e.Fault.Want,
		},
	}
	switch {
	case b.HolderOf == "":
		arm.Lock = b.Lock
	case arm.Op == burst.Acquire:
		arm.Lock = s.e.Lock
	default:
		arm.Lock, arm.Key = s.e.Lock, s.e.Key
	}
	var bursts []*sim.Burst
	check := func() { s.hitEnough(bursts) }
	s.apply(2*callTakes, func() string {
		if b.Via == fault.ViaProxy {
			s.armWay(&bursts, arm, check)
			return ""
		}
		for _, v := range s.victims() {
			if a, err := s.w.Arm(v, arm, check); err == nil {
				bursts = append(bursts, a)
			}
		}
		if len(bursts) == 0 {
			return "nobody could be armed"
		}
		return ""
	}, func() {
		s.undo = func() {
			for _, a := range bursts {
				a.End("disarmed")
			}
		}
		s.onExit = check
		check()
		s.giveUpAfter(func() string {
			return fmt.Sprintf("the end of the burst was not seen in time; %d operations failed so far", hitsOf(bursts))
		})
	})
}

// armWay arms the ways of the victims' names, or all.
func (s *shot) armWay(bursts *[]*sim.Burst, arm sim.Arm, check func()) {
	for _, v := range s.victims() {
		arm.Names = append(arm.Names, nameOf(v))
	}
	if s.f.Aim().All {
		arm.Names = nil
	}
	arm.Victim = func(name string) string {
		for _, v := range s.victims() {
			if nameOf(v) == name {
				return v
			}
		}
		return ""
	}
	a, _ := s.w.Arm("", arm, check)
	*bursts = append(*bursts, a)
}

func hitsOf(bursts []*sim.Burst) (n int64) {
	for _, b := range bursts {
		n += b.Hits()
	}
	return n
}

// hitEnough confirms the burst once it has ended everywhere, or several victims have hit the count together.
func (s *shot) hitEnough(bursts []*sim.Burst) {
	if s.done || s.applied == (history.Span{}) {
		return
	}
	victims := s.victims()
	t := burst.Tally{Victims: len(bursts), Hits: hitsOf(bursts), Want: s.e.Fault.Want}
	for _, b := range bursts {
		if b.Ended() {
			t.Over++
		}
	}
	if !t.Settled() {
		return
	}
	if t.Victims = len(victims); s.e.Fault.Via != fault.ViaProxy { // a way outlives the replicas that use it
		for _, v := range victims {
			if !s.w.Alive(v) {
				t.Died++
			}
		}
	}
	switch t.Outcome() {
	case burst.Moved:
		s.void(history.Moved, strings.Join(victims, ", ")+" died during the burst")
		s.revert()
	case burst.None:
		s.unconfirmed("the burst hit no operation")
	case burst.TooFew:
		s.unconfirmed(fmt.Sprintf("the burst hit %d of %d operations", t.Hits, t.Want))
	case burst.Confirmed:
		window, hit := s.hits[s.e.Op]
		if !hit {
			window = s.applied
		}
		s.confirm(window, history.Fault{Hits: t.Hits})
	}
}
