package reports

import (
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// Faults in words: whom they strike, what they do, what was measured of them. What depends on the kind is asked of the kind.

// targets are whom a fault strikes: "r1.1", "r1 r2 r3" (ways belong to names), "the locks' store", and "nobody" where a shot at a replica
// found none.
func targets(does fault.Traits, victim string, victims []string) string {
	switch {
	case victim == history.VictimStore, victim == "" && len(victims) == 0 && (does.AtStore || does.AtKey):
		return "the locks' store"
	case victim == "" && len(victims) == 0 && does.Elsewhere:
		return "what the " + does.Called + " strikes"
	case victim == "" && len(victims) == 0:
		return "nobody"
	case len(victims) == 0:
		victims = []string{victim}
	}
	var names []string
	for _, v := range victims {
		if does.OnTheWay {
			v = history.ReplicaOf(v)
		}
		names = append(names, v)
	}
	return strings.Join(names, " ")
}

// seen is the fault that an event tells of, as far as it does.
func seen(f *history.Fault) fault.Fault { return fault.Seen(f.Kind, f.Form, f.Via) }

// specOf is the fault of a judged shot, as far as its events told.
func specOf(f verdict.FaultResult) fault.Fault { return fault.Seen(f.Kind, f.Form, f.Via) }

// action is what a fault does, in the words of a story; victim carries its pid or its pod.
func action(e *history.Event, declared *experiments.Fault, victim string, pod bool) string {
	f := e.Fault
	return seen(f).Action(fault.Shot{
		Victim: victim, Key: e.Key, Holding: e.Key != "", Pod: pod, Lasts: time.Duration(f.Declared), Want: f.Want, Configured: f.Configured,
		KeptData: declared != nil && declared.Traits().KeepsData,
	})
}

// measuredOf is what was measured of a fault; "" where nothing was.
func measuredOf(f *history.Fault) string {
	s := func(ns int64) float64 { return float64(ns) / 1e9 }
	return seen(f).Measured(fault.Measured{Baseline: s(f.Baseline), Expected: s(f.Expected), Observed: s(f.Observed), Hits: f.Hits, Want: f.Want})
}

func measuredIn(f verdict.FaultResult) string {
	v := func(p *float64) float64 {
		if p == nil {
			return 0
		}
		return *p
	}
	return specOf(f).Measured(fault.Measured{Baseline: v(f.Baseline), Expected: v(f.Expected), Observed: v(f.Observed), Hits: f.Hits, Want: f.Want})
}
