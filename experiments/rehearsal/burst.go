package rehearsal

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// burst makes operations fail: in each victim by itself, or counted together on their ways.
func (s *shot) burst() {
	b := s.f.Spec.(*fault.Failures)
	arm := sim.Arm{
		Op: s.e.Op, What: b.Of, Mode: string(b.Mode), Share: b.Share, Delay: b.Delay,
		Count: b.Count, Fault: history.Fault{
			ID: s.e.Fault.ID, Shot: s.e.Fault.Shot, Kind: s.e.Fault.Kind, Form: s.e.Fault.Form, Via: s.e.Fault.Via,
			Declared: s.e.Fault.Declared, Want: s.e.Fault.Want,
		},
	}
	arm.For = time.Duration(s.e.Fault.Declared)
	switch {
	case b.HolderOf == "":
		arm.Lock = b.Lock
	case arm.What == lockcore.OpAcquire:
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
	hits, want, died, over := hitsOf(bursts), s.e.Fault.Want, 0, true
	for _, b := range bursts {
		over = over && b.Ended()
	}
	for _, v := range s.victims() {
		if !s.w.Alive(v) {
			died++
		}
	}
	together := len(bursts) > 1 && want > 0 && hits >= want
	window, hit := s.hits[s.e.Op]
	if !hit {
		window = s.applied
	}
	switch {
	case !over && !together:
	case died == len(s.victims()) && s.e.Fault.Via != fault.ViaProxy:
		s.void("moved", strings.Join(s.victims(), ", ")+" died during the burst")
		s.revert()
	case hits == 0:
		s.unconfirmed("the burst hit no operation")
	case hits < want:
		s.unconfirmed(fmt.Sprintf("the burst hit %d of %d operations", hits, want))
	default:
		s.confirm(window, history.Fault{Hits: hits})
	}
}
