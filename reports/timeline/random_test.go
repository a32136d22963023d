package timeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// names that somebody could put into a file, a key or a log to break a report.
var names = []string{
	"leader", "r1", "job", "", "a b", `"><script>alert(1)</script>`, "]]>", "&amp;&#x3c;", "</svg>", "url(#x)", "javascript://x",
	strings.Repeat("very-long-", 60), strings.Repeat("W", 90), "ключ-замка", "锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁", "\u202egnp.exe", "nul\x00bel\a", "\xff\xfe broken",
	"tab\tline\nfeed", "🔒🔒🔒🔒🔒🔒🔒🔒🔒🔒🔒🔒🔒", strings.Repeat("👩\u200d👩\u200d👧", 9),
}

// dice make lanes that no run has to make sense of.
type dice struct {
	*rand.Rand
	length float64
}

func (d dice) name() string { return names[d.IntN(len(names))] }

func (d dice) replica() string { return fmt.Sprintf("r%d.%d", 1+d.IntN(9), 1+d.IntN(3)) }

func (d dice) moment() Moment {
	from := d.Float64() * d.length
	switch d.IntN(6) {
	case 0:
		return Moment{From: from, To: math.Inf(1)}
	case 1:
		return Moment{From: from, To: from + d.Float64()*d.length}
	}
	return Moment{From: from, To: from + 1e-3*d.Float64()}
}

func (d dice) some() *Moment {
	if d.IntN(4) == 0 {
		return nil
	}
	m := d.moment()
	return &m
}

func (d dice) part() *verdict.Range {
	if d.IntN(4) == 0 {
		return nil
	}
	r := verdict.Range{Lo: d.Float64() * d.length}
	if d.IntN(5) > 0 {
		hi := r.Lo * (1 + d.Float64())
		r.Hi = &hi
	}
	return &r
}

func several[T any](d dice, most int, one func() T) []T {
	var out []T
	for range d.IntN(most + 1) {
		out = append(out, one())
	}
	return out
}

func (d dice) extent() Extent { return Extent{Start: d.moment(), End: d.moment()} }

func (d dice) hold() Hold {
	h := Hold{Epoch: d.name(), Replica: d.replica(), Granted: d.moment(), Held: d.some(), End: d.moment()}
	if d.IntN(5) == 0 {
		h.Replica = ""
	}
	return h
}

func (d dice) takeover(lock string) verdict.Takeover {
	t := verdict.Takeover{
		Lock: lock, Key: d.name(), Fault: fmt.Sprintf("%s#%d", d.name(), d.IntN(40)), Victim: d.replica(), Successor: d.replica(),
		Residual: d.part(), Pickup: d.part(), Warmup: d.part(), TickGap: d.part(),
		Class: []string{"crash", "crash", "pause", "recovery", "theft", "store", "hand-over", "false"}[d.IntN(8)],
		End:   []string{"effect", "grant", "renewal", "censored"}[d.IntN(4)],
	}
	v := verdict.Range{Lo: d.Float64()}
	if p := d.part(); p != nil {
		v = *p
	}
	t.Lo, t.Hi = v.Lo, v.Hi
	if d.IntN(6) == 0 {
		t.Fault = ""
	}
	return t
}

func (d dice) trial(number int, lock string) TrialLane {
	next := d.hold()
	return TrialLane{
		Number: number, Takeover: d.takeover(lock), Struck: d.some(), Clock: d.moment(), Held: d.hold(), Renewed: d.some(),
		Next: &next, Ended: d.some(), Until: d.Float64() * d.length,
		Attempts: several(d, 30, func() Attempt {
			return Attempt{Who: d.replica(), At: d.extent(), Result: []string{"held", "granted", "error", ""}[d.IntN(4)]}
		}),
		Work: several(d, 3, d.extent), NextWork: several(d, 3, d.extent),
	}
}

func (d dice) fault() FaultLane {
	f := FaultLane{Op: d.name(), Applied: d.some(), Missed: d.some(), Over: d.moment(), FaultResult: verdict.FaultResult{
		ID: d.name(), Shot: d.IntN(9), Kind: d.name(), Victim: d.replica(), Configured: d.name(), Why: d.name(),
	}}
	if f.Applied != nil && d.IntN(3) > 0 {
		f.Effective = &verdict.Window{From: f.Applied.From}
		f.Confirmed = true
	}
	if d.IntN(2) == 0 {
		to := d.Float64() * d.length * 1.5
		f.Declared = &verdict.Window{From: d.Float64() * d.length * 1.5, To: &to}
	}
	if v := d.Float64(); v < 0.5 {
		f.Observed, f.Baseline = &v, &v
	}
	return f
}

func (d dice) replicaLane(name string) ReplicaLane {
	return ReplicaLane{Name: name, Paused: several(d, 2, d.extent), Marks: several(d, 3, d.mark), Lives: several(d, 4, func() Life {
		return Life{Incarnation: name + ".1", Extent: d.extent(), Killed: d.name(), Belief: several(d, 9, d.extent),
			Work: several(d, 9, d.extent), Effects: several(d, 9, d.moment), Refused: several(d, 9, d.moment)}
	})}
}

func (d dice) mark() Mark {
	return Mark{What: []string{"duplicate", "stale", "abandonment"}[d.IntN(3)], Who: d.replica(), Key: d.name(), At: d.moment(), Note: d.name()}
}

func (d dice) lanes() *Lanes {
	l := &Lanes{Seconds: d.length, TimeScale: []float64{1, 0.05}[d.IntN(2)], Live: d.IntN(2) == 0}
	l.Phases = several(d, 5, func() PhaseLane { return PhaseLane{Name: d.name(), At: d.Float64() * d.length} })
	l.Faults = several(d, 40, d.fault)
	for i := range d.IntN(9) {
		l.Replicas = append(l.Replicas, d.replicaLane(fmt.Sprintf("r%d", i+1)))
	}
	for range d.IntN(4) {
		lane := LockLane{Lock: d.name(), Again: several(d, 5, d.mark)}
		for range d.IntN(8) {
			lane.Keys = append(lane.Keys, KeyLane{Key: d.name(), Holds: several(d, 40, d.hold)})
		}
		l.Locks = append(l.Locks, lane)
		for range d.IntN(40) {
			l.Trials = append(l.Trials, d.trial(len(l.Trials)+1, lane.Lock))
		}
	}
	l.Signals = several(d, 2, func() SignalLane {
		return SignalLane{Metric: d.name(), Targets: several(d, 9, func() SignalTarget {
			return SignalTarget{Target: d.replica(), Last: d.Float64() * d.length, Points: several(d, 30, func() SignalPoint {
				return SignalPoint{At: d.moment(), Value: d.NormFloat64() * 1e3, Absent: d.IntN(9) == 0}
			})}
		})}
	})
	return l
}

func (d dice) judgement(l *Lanes) *verdict.Judgement {
	j := &verdict.Judgement{Run: verdict.RunInfo{TimeScale: l.TimeScale}}
	for i := range l.Trials {
		j.Takeovers = append(j.Takeovers, l.Trials[i].Takeover)
	}
	for _, lock := range l.Locks {
		j.Bands = append(j.Bands, verdict.Band{Lock: lock.Lock, Lo: d.Float64() * d.length, Hi: d.Float64() * d.length})
		for _, quantile := range []float64{0, 0.95, 0.5}[:d.IntN(4)] {
			q := experiments.Limit{Measure: "takeover", Trials: true, Quantile: quantile}
			j.SLOs = append(j.SLOs, verdict.SLOResult{Lock: lock.Lock, Question: &q, Limit: d.Float64() * d.length})
		}
	}
	return j
}

// Whatever the lanes hold, the pictures stay well formed and within their frames, and say as much in their tables.
func TestRandomLanes(t *testing.T) {
	for seed := range uint64(60) {
		d := dice{rand.New(rand.NewPCG(seed, 7)), 0}
		d.length = math.Pow(10, -3+8*d.Float64()) // 1ms to 28h
		l := d.lanes()
		e := &experiments.Experiment{}
		r := run{e, d.judgement(l), l}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			ps := r.pictures()
			check(t, ps)
			everyTakeover(t, r, ps)
		})
	}
}
