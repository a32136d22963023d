package conductor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// restarts ends the victims of shots as they are asked to.
func restarts(s *stage) {
	s.onFire = func(f Fire, body *history.Fault) {
		if f.Why != "" {
			s.see(history.Event{Kind: history.FaultVoid, Fault: body})
			return
		}
		victim := f.Victims[0]
		body.Victim = victim
		s.alive = slices.DeleteFunc(s.alive, func(inc string) bool { return inc == victim })
		if s.leader == victim {
			s.see(history.Event{Kind: history.ReleaseInvoke, Source: victim, Lock: "loop", Key: "the-loop", Epoch: s.epoch})
			s.leader, s.freeAt = "", s.now+int64(50*time.Millisecond)
		}
		name, _, _ := strings.Cut(victim, ".")
		s.see(history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: name, Incarnation: victim, Exit: "exit status 0"}})
		s.see(history.Event{Kind: history.FaultConfirmed, Fault: body})
	}
}

func rolled(order fault.Order) *experiments.Experiment {
	r := &fault.RollingRestart{Order: order, Pause: time.Second, Within: time.Minute}
	if order != fault.ByIndex {
		r.Lock = "loop"
	}
	e := drillOf(experiments.Fault{ID: "roll", At: time.Second, Spec: r, Repeat: experiments.Repeat{Count: 3, Settled: true}})
	e.Limits.MaxKills = 6
	return e
}

func victimsOf(s *stage) string {
	var all []string
	for _, f := range s.fires {
		all = append(all, f.Victims...)
	}
	return strings.Join(all, " ")
}

// The toy system's first ready replica leads, so r1 does first, and who leads next is who has lived longest.
func TestARollingRestartGoesThroughAllReplicasInItsOrder(t *testing.T) {
	for order, want := range map[fault.Order]string{
		fault.ByIndex: "r1.1 r2.1 r3.1", fault.LeaderFirst: "r1.1 r2.1 r3.1", fault.LeaderLast: "r2.1 r3.1 r1.1",
	} {
		s := play(t, rolled(order), func(s *stage) { restarts(s) })
		if got := victimsOf(s); got != want {
			t.Errorf("%s: %s, want %s", order, got, want)
		}
		for i := range s.firedAt[1:] {
			if apart := time.Duration(s.firedAt[i+1] - s.firedAt[i]); apart < s.e.System.Restart+time.Second {
				t.Errorf("%s: %s after the last: it neither waited for the replica nor paused", order, apart)
			}
		}
	}
	// Whoever leads when the first one is due is the first.
	s := play(t, rolled(fault.LeaderFirst), func(s *stage) {
		restarts(s)
		s.onPhase = func(phase string) {
			if phase == history.PhaseFaults {
				s.see(history.Event{Kind: history.ReleaseInvoke, Source: s.leader, Lock: "loop", Key: "the-loop", Epoch: s.epoch})
				slices.Reverse(s.alive)
				s.leader, s.freeAt = "", s.now+int64(50*time.Millisecond)
			}
		}
	})
	if got := victimsOf(s); got != "r3.1 r1.1 r2.1" {
		t.Errorf("leader first: %s, and r3.1 led", got)
	}
}

func TestAReplicaThatDoesNotComeBackEndsTheRollingRestart(t *testing.T) {
	e := rolled(fault.ByIndex)
	e.System.Restart = 2 * time.Minute
	s := play(t, e, func(s *stage) { restarts(s) })
	last := s.fires[len(s.fires)-1]
	if len(s.fires) != 2 || last.Word != history.NotReturned || !strings.Contains(last.Why, "r1.1") {
		t.Errorf("%d shots, the last: %q %s", len(s.fires), last.Word, last.Why)
	}
	if late := time.Duration(s.firedAt[1] - s.firedAt[0]); late < time.Minute || late > time.Minute+2*time.Second {
		t.Errorf("given up after %s", late)
	}
	if s.abort != "" {
		t.Errorf("the run was aborted: %s", s.abort)
	}
}

// The last one, too: one more shot says so, whatever the caps.
func TestTheLastReplicaOfARollingRestartHasToComeBack(t *testing.T) {
	e := rolled(fault.ByIndex)
	e.Limits.MaxKills = 3
	s := play(t, e, func(s *stage) {
		restarts(s)
		fire := s.onFire
		s.onFire = func(f Fire, body *history.Fault) {
			if slices.Contains(f.Victims, "r3.1") {
				s.e.System.Restart = 2 * time.Minute
			}
			fire(f, body)
		}
	})
	last := s.fires[len(s.fires)-1]
	if len(s.fires) != 4 || last.Word != history.NotReturned || !strings.Contains(last.Why, "r3.1") {
		t.Errorf("%d shots, the last: %q %s", len(s.fires), last.Word, last.Why)
	}
}

func TestCapsHoldForARollingRestart(t *testing.T) {
	for name, limits := range map[string]experiments.RunLimits{
		"max_kills":   {MaxKills: 2, MaxRun: 5 * time.Minute},
		"max_targets": {MaxKills: 6, MaxTargets: 2, MaxRun: 5 * time.Minute},
	} {
		e := rolled(fault.ByIndex)
		e.Limits = limits
		if s := play(t, e, func(s *stage) { restarts(s) }); len(s.fires) != 2 {
			t.Errorf("%s of 2: %d shots", name, len(s.fires))
		}
	}
}
