package conductor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// fleetOf is a conductor of one shot, whose replicas are ready: so many of the run's own, or of somebody's.
func fleetOf(n int, observed bool, spec fault.Spec, limits experiments.RunLimits) *Conductor {
	e := loopDrill(1)
	e.System.Replicas, e.Limits = n, limits
	e.Faults[0].Spec = spec
	if observed {
		e.System.Mode = "observe"
	}
	c := New(e, 7)
	for i := range n {
		r := &replica{name: fmt.Sprintf("r%d", i+1), inc: fmt.Sprintf("r%d.1", i+1), alive: true, ready: true}
		if observed {
			c.world.replicas = append(c.world.replicas, r)
		} else {
			*c.world.replicas[i] = *r
			r = c.world.replicas[i]
		}
		c.world.byInc[r.inc] = r
	}
	return c
}

func firstFire(c *Conductor) (f *Fire) {
	c.arm(c.series[0], 1)
	for _, a := range c.out {
		if a.Fire != nil {
			f = a.Fire
		}
	}
	return f
}

// A fault of several replicas strikes as many as it says; a share is rounded up, is at least one, and no more than limits allow. What
// would take the last replica of somebody's own, or more than limits leave, strikes nobody.
func TestAFaultOfSeveralStrikesAsManyAsItSays(t *testing.T) {
	within := experiments.RunLimits{MaxKills: 100, MaxRun: time.Minute}
	capped := func(kills, targets int, last bool) experiments.RunLimits {
		return experiments.RunLimits{MaxKills: kills, MaxTargets: targets, LastReplica: last, MaxRun: time.Minute}
	}
	for _, x := range []struct {
		name     string
		replicas int
		observed bool
		spec     fault.Spec
		limits   experiments.RunLimits
		want     int
		says     string // of why it strikes fewer, or nobody
	}{
		{"count", 4, false, &fault.Kill{Count: 3}, within, 3, ""},
		{"count of a pause", 4, false, &fault.Pause{Count: 3}, within, 3, ""},
		{"more than there are", 2, false, &fault.Kill{Count: 3}, within, 0, "only 2 were alive and ready"},
		{"all", 4, false, &fault.Kill{All: true}, within, 4, ""},
		{"all, paused", 4, false, &fault.Pause{Aim: fault.Aim{All: true}}, within, 4, ""},
		{"a share is rounded up", 4, false, &fault.Kill{Percent: 26}, within, 2, ""},
		{"a whole share is not", 4, false, &fault.Pause{Percent: 50}, within, 2, ""},
		{"three times a third is all", 3, false, &fault.Kill{Percent: 100. / 3}, within, 1, ""},
		{"a small share is one", 4, false, &fault.Kill{Percent: 0.1}, within, 1, ""},
		{"a share and max_kills", 4, false, &fault.Kill{Percent: 100}, capped(2, 0, false), 2, "limits.max_kills leaves 2"},
		{"a share and max_targets", 4, false, &fault.Pause{Percent: 100}, capped(9, 3, false), 3, "limits.max_targets leaves 3"},
		{"a count and max_kills", 4, false, &fault.Kill{Count: 3}, capped(2, 0, false), 0, "strikes 3 replicas, and limits.max_kills"},
		{"all, somebody's", 3, true, &fault.Kill{All: true}, within, 0, "the last replica that lives"},
		{"all, somebody's, allowed", 3, true, &fault.Kill{All: true}, capped(9, 0, true), 3, ""},
		{"all, paused, somebody's", 3, true, &fault.Pause{Aim: fault.Aim{All: true}}, within, 0, "the last replica that lives"},
		{"a share, somebody's", 3, true, &fault.Pause{Percent: 100}, within, 2, "the last replica leaves 2"},
		{"a share of one, somebody's", 1, true, &fault.Pause{Percent: 100}, within, 0, "the last replica that lives"},
		{"a share, somebody's, allowed", 3, true, &fault.Kill{Percent: 100}, capped(9, 0, true), 3, ""},
	} {
		f := firstFire(fleetOf(x.replicas, x.observed, x.spec, x.limits))
		if f == nil {
			t.Errorf("%s: nothing was fired", x.name)
			continue
		}
		if said := f.Why + f.Said; len(f.Victims) != x.want || (f.Why == "") != (x.want > 0) || x.says == "" && said != "" || !strings.Contains(said, x.says) {
			t.Errorf("%s: struck %v, said %q; want %d and %q", x.name, f.Victims, said, x.want, x.says)
		}
	}
}

// What limits took off a share is told with the shot.
func TestAShareThatLimitsCutSaysSo(t *testing.T) {
	c := fleetOf(3, true, &fault.Kill{Percent: 100}, experiments.RunLimits{MaxKills: 9, MaxRun: time.Minute})
	f := firstFire(c)
	shot := f.Event()
	if why, detail := c.Resolve(f, &shot, nil); why != "" || detail != "100% of 3 replicas are 3: the last replica leaves 2" || shot.Fault.Victim != "" || len(shot.Fault.Victims) != 2 {
		t.Errorf("%s %q, victim %q of %v", why, detail, shot.Fault.Victim, shot.Fault.Victims)
	}
}

// Each victim counts: the second shot of two finds the cap reached, however often it is tried.
func TestEachOfSeveralVictimsIsAKill(t *testing.T) {
	e := loopDrill(2)
	e.Faults[0].Spec, e.Limits.MaxKills = &fault.Kill{Count: 2, How: "crash"}, 3
	s := play(t, e, func(s *stage) {
		s.onFire = func(f Fire, body *history.Fault) {
			kind := history.FaultConfirmed
			if f.Why != "" {
				kind = history.FaultVoid
			}
			for _, v := range f.Victims {
				s.alive = slices.DeleteFunc(s.alive, func(inc string) bool { return inc == v })
				if s.leader == v {
					s.leader, s.freeAt = "", s.now+int64(time.Second)
				}
				s.see(history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: history.ReplicaOf(v), Incarnation: v, Exit: "signal: killed"}})
			}
			s.see(history.Event{Kind: kind, Fault: body})
		}
	})
	if len(s.fires) != 4 || len(s.fires[0].Victims) != 2 || len(s.fires[1].Victims) != 0 || s.fires[1].Why == "" {
		t.Fatalf("%d shots: %+v", len(s.fires), s.fires)
	}
}
