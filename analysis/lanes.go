package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// Lanes arranges what was read for pictures. j is its judgement.
func (ix *Facts) Lanes(j *verdict.Judgement) *verdict.Lanes {
	l := &verdict.Lanes{
		Seconds: seconds(ix.last), TimeScale: cmp.Or(j.Run.TimeScale, 1), Live: j.Run.Live,
		RTT50: seconds(ix.cal.RTT50), RTT99: seconds(ix.cal.RTT99),
	}
	for _, name := range []string{history.PhaseSteady, history.PhaseFaults, history.PhaseRevert, history.PhaseSettle, history.PhaseFinal} {
		if p := ix.phases[name]; p != nil {
			l.Phases = append(l.Phases, verdict.PhaseLane{Name: name, At: seconds(p.From)})
		}
	}
	for _, s := range ix.shots {
		l.Faults = append(l.Faults, ix.faultLane(s))
	}
	l.Locks = ix.lockLanes()
	l.Replicas = ix.replicaLanes()
	l.RoundTrips = ix.roundTrips()
	l.Trials = ix.trialLanes()
	for i := range l.Trials {
		l.Trials[i].Limit = longestPromised(j, l.Trials[i].Lock)
	}
	l.Signals = ix.signalLanes()
	return l
}

// momentOf is s in seconds.
func momentOf(s history.Span) verdict.Moment {
	m := verdict.Moment{From: seconds(s.From), To: math.Inf(1)}
	if s.To != open {
		m.To = seconds(s.To)
	}
	return m
}

// lasted is when the fault was over; a process in a pod lived until its last sign of life, whenever the call was made.
func (s *shot) lasted() verdict.Moment {
	over := s.over
	if d := s.death(); d != nil {
		over.From = min(max(over.From, d.Sign), over.To)
	}
	return momentOf(over)
}

func (ix *Facts) faultLane(s *shot) verdict.FaultLane {
	f := verdict.FaultLane{Op: s.op, FaultResult: s.result(ix), Over: s.lasted()}
	if s.applied != nil {
		at := momentOf(s.applied.Span)
		f.Applied = &at
	}
	if s.void != nil {
		at := momentOf(s.void.Span)
		f.Missed = &at
	}
	return f
}

func (ix *Facts) lockLanes() []verdict.LockLane {
	var out []verdict.LockLane
	for _, k := range ix.keyOrder {
		i := slices.IndexFunc(out, func(l verdict.LockLane) bool { return l.Lock == k.lock })
		if i < 0 {
			i = len(out)
			out = append(out, verdict.LockLane{Lock: k.lock, Loop: k.loop})
		}
		key := verdict.KeyLane{Key: k.name}
		for _, e := range k.epochs {
			key.Holds = append(key.Holds, e.hold())
		}
		out[i].Keys = append(out[i].Keys, key)
		out[i].Again = append(out[i].Again, k.again()...)
	}
	return out
}

func (e *epoch) hold() verdict.Hold {
	h := verdict.Hold{Epoch: e.id, Rank: e.rank, Replica: e.replica, Granted: momentOf(e.granted), End: momentOf(e.life.end), Stranger: e.stranger}
	if e.belief != nil {
		end := momentOf(e.belief.end)
		h.Belief = &end
	}
	return h
}

// again lists the terminal states of the key's jobs beyond the first, and the effects of superseded epochs.
func (k *keyIndex) again() []verdict.Mark {
	var out []verdict.Mark
	for _, j := range k.jobs {
		for i, f := range j.terminals {
			if i > 0 {
				out = append(out, verdict.Mark{What: "duplicate", Who: f.epoch.replica, Key: k.name, At: momentOf(f.span), Note: "job " + j.id + " " + f.State + " again"})
			}
		}
	}
	top := 0
	for _, f := range k.effects {
		if f.fresh() && f.epoch.rank > 0 && f.epoch.rank < top {
			out = append(out, verdict.Mark{What: "stale", Who: f.epoch.replica, Key: k.name, At: momentOf(f.span), Note: f.State + " of " + f.Subject})
		}
		if f.fresh() {
			top = max(top, f.epoch.rank)
		}
	}
	return out
}

// roundTrips lists the calls to the locks' store, and the looks of the probe.
func (ix *Facts) roundTrips() []verdict.RoundTrip {
	n := 0
	for _, k := range ix.keyOrder {
		n += len(k.attempts) + len(k.looks)
		for _, e := range k.all {
			n += len(e.renewals) + len(e.releases)
		}
	}
	out := make([]verdict.RoundTrip, 0, n)
	add := func(cs []*call) {
		for _, c := range cs {
			t := verdict.RoundTrip{At: seconds(c.sent.From), Took: math.Inf(1)}
			if c.exited && c.result != history.ResultError {
				t.Took = seconds(c.span.To - c.sent.From)
			}
			out = append(out, t)
		}
	}
	for _, k := range ix.keyOrder {
		add(k.attempts)
		for _, e := range k.all {
			add(e.renewals)
			add(e.releases)
		}
		for _, s := range k.looks {
			out = append(out, verdict.RoundTrip{At: seconds(s.first.From), Took: seconds(s.first.Width()), Look: true})
		}
	}
	slices.SortFunc(out, func(a, b verdict.RoundTrip) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Took, b.Took)) })
	return out
}
