package facts

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Lanes arranges what was read for pictures. j is its judgement.
func (ix *Facts) Lanes(j *verdict.Judgement) *verdict.Lanes {
	l := &verdict.Lanes{
		Seconds: Seconds(ix.Last), TimeScale: cmp.Or(j.Run.TimeScale, 1), Live: j.Run.Live,
		RTT50: Seconds(ix.Cal.RTT50), RTT99: Seconds(ix.Cal.RTT99),
	}
	for _, name := range []string{history.PhaseSteady, history.PhaseFaults, history.PhaseRevert, history.PhaseSettle, history.PhaseFinal} {
		if p := ix.Phases[name]; p != nil {
			l.Phases = append(l.Phases, verdict.PhaseLane{Name: name, At: Seconds(p.From)})
		}
	}
	for _, s := range ix.Shots {
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
	m := verdict.Moment{From: Seconds(s.From), To: math.Inf(1)}
	if s.To != Open {
		m.To = Seconds(s.To)
	}
	return m
}

// momentAt is momentOf for a field that may be left out.
func momentAt(s history.Span) *verdict.Moment {
	m := momentOf(s)
	return &m
}

// lasted is when the fault was over; a process in a pod lived until its last sign of life, whenever the call was made.
func (s *Shot) lasted() verdict.Moment {
	over := s.Over
	if d := s.death(); d != nil {
		over.From = min(max(over.From, d.Sign), over.To)
	}
	return momentOf(over)
}

func (ix *Facts) faultLane(s *Shot) verdict.FaultLane {
	f := verdict.FaultLane{Op: s.Op, FaultResult: s.Result(ix), Over: s.lasted()}
	if s.Applied != nil {
		f.Applied = momentAt(s.Applied.Span)
	}
	if s.void != nil {
		f.Missed = momentAt(s.void.Span)
	}
	return f
}

func (ix *Facts) lockLanes() []verdict.LockLane {
	var out []verdict.LockLane
	for _, k := range ix.KeyOrder {
		i := slices.IndexFunc(out, func(l verdict.LockLane) bool { return l.Lock == k.Lock })
		if i < 0 {
			i = len(out)
			out = append(out, verdict.LockLane{Lock: k.Lock, Loop: k.loop})
		}
		key := verdict.KeyLane{Key: k.Name}
		for _, e := range k.Epochs {
			key.Holds = append(key.Holds, ix.holdOf(e))
		}
		out[i].Keys = append(out[i].Keys, key)
		out[i].Again = append(out[i].Again, k.again()...)
	}
	return out
}

func (ix *Facts) holdOf(e *Epoch) verdict.Hold {
	h := verdict.Hold{Epoch: e.ID, Rank: e.rank, Replica: e.Replica, Granted: momentOf(e.Granted), End: momentOf(e.Life.end), Stranger: e.Stranger}
	switch {
	case e.Belief != nil:
		h.Held = momentAt(e.Belief.End)
	case ix.Exp.Observed() && !e.Stranger:
		ix.holdsUntil(e, &h)
	}
	return h
}

// holdsUntil is holdOf where nobody tells of belief: whoever is said to hold, or was found to by a fault, does so until its death or the
// end of the lease.
func (ix *Facts) holdsUntil(e *Epoch, h *verdict.Hold) {
	for _, s := range ix.Shots {
		if h.Replica == "" && s.key == e.Key && s.epoch == e.ID && s.Effective() && ix.Keys[e.Key].at(e.ID, s.Applied.Span) == e {
			h.Replica = s.victim
		}
	}
	h.Held = momentAt(e.Life.end)
	switch d, dead := ix.Deaths[h.Replica]; {
	case !dead:
	case ix.extendedAfter(e, d) == nil:
		h.Held = momentAt(first(e.Life.end, d.Span))
	case !e.namedByValue(): // it was another's all along
		h.Replica = ""
	}
}

// again lists the terminal states of the key's jobs beyond the first, and the effects of superseded epochs.
func (k *Key) again() []verdict.Mark {
	var out []verdict.Mark
	for _, j := range k.jobs {
		for i, f := range j.terminals {
			if i > 0 {
				out = append(out, verdict.Mark{What: "duplicate", Who: f.Epoch.Replica, Key: k.Name, At: momentOf(f.span), Note: "job " + j.id + " " + f.State + " again"})
			}
		}
	}
	top := 0
	for _, f := range k.effects {
		if f.fresh() && f.Epoch.rank > 0 && f.Epoch.rank < top {
			out = append(out, verdict.Mark{What: "stale", Who: f.Epoch.Replica, Key: k.Name, At: momentOf(f.span), Note: f.State + " of " + f.Subject})
		}
		if f.fresh() {
			top = max(top, f.Epoch.rank)
		}
	}
	return out
}

// roundTrips lists the calls to the locks' store, and the looks of the probe.
func (ix *Facts) roundTrips() []verdict.RoundTrip {
	n := 0
	for _, k := range ix.KeyOrder {
		n += len(k.attempts) + len(k.looks)
		for _, e := range k.All {
			n += len(e.Renewals) + len(e.Releases)
		}
	}
	out := make([]verdict.RoundTrip, 0, n)
	add := func(cs []*Call) {
		for _, c := range cs {
			t := verdict.RoundTrip{At: Seconds(c.sent.From), Took: math.Inf(1)}
			if c.exited && c.result != history.ResultError {
				t.Took = Seconds(c.Span.To - c.sent.From)
			}
			out = append(out, t)
		}
	}
	for _, k := range ix.KeyOrder {
		add(k.attempts)
		for _, e := range k.All {
			add(e.Renewals)
			add(e.Releases)
		}
		for _, s := range k.looks {
			out = append(out, verdict.RoundTrip{At: Seconds(s.first.From), Took: Seconds(s.first.Width()), Look: true})
		}
	}
	slices.SortFunc(out, func(a, b verdict.RoundTrip) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Took, b.Took)) })
	return out
}

// replicaLanes gathers the lives of the replicas, in the order in which they were first heard of.
func (ix *Facts) replicaLanes() []verdict.ReplicaLane {
	var out []verdict.ReplicaLane
	at := map[string][2]int{} // lane and life of an incarnation
	life := func(incarnation string, start history.Span) *verdict.Life {
		if p, ok := at[incarnation]; ok {
			return &out[p[0]].Lives[p[1]]
		}
		name := history.ReplicaOf(incarnation)
		i := slices.IndexFunc(out, func(l verdict.ReplicaLane) bool { return l.Name == name })
		if i < 0 {
			i = len(out)
			out = append(out, verdict.ReplicaLane{Name: name})
		}
		l := verdict.Life{Incarnation: incarnation, Called: ix.called[incarnation], Extent: verdict.Extent{Start: momentOf(start), End: verdict.Moment{From: Seconds(ix.claims[incarnation]), To: math.Inf(1)}}}
		if d, dead := ix.Deaths[incarnation]; dead {
			l.End = momentOf(d.Span)
		}
		out[i].Lives = append(out[i].Lives, l)
		at[incarnation] = [2]int{i, len(out[i].Lives) - 1}
		return &out[i].Lives[len(out[i].Lives)-1]
	}
	for _, l := range ix.lifeOrder {
		life(l.incarnation, l.start)
	}
	for _, ev := range ix.gone {
		if p, known := at[ev.Object.Incarnation]; known && !ix.afterRun(ev) {
			out[p[0]].Lives[p[1]].Object = momentAt(history.At(ev.To)) // since when may be known as little as when it was last listed
		}
	}
	for _, ev := range ix.Exits {
		life(ev.Replica.Incarnation, history.Span{To: ev.To}).Exit = ev.Replica.Exit
	}
	for _, s := range ix.Shots {
		if p, known := at[s.victim]; s.Does.Kills && s.Effective() && known {
			out[p[0]].Lives[p[1]].Killed = s.Op
		}
	}
	for i := range out {
		for k := range out[i].Lives {
			ix.fillLife(&out[i], &out[i].Lives[k])
		}
	}
	return out
}

// fillLife adds what the incarnation did, and what befell it.
func (ix *Facts) fillLife(lane *verdict.ReplicaLane, l *verdict.Life) {
	for _, e := range ix.replicas[l.Incarnation] {
		if e.Belief != nil {
			l.Belief = append(l.Belief, verdict.Extent{Start: momentOf(e.Belief.Start), End: momentOf(e.Belief.End)})
		}
		l.Work = append(l.Work, extents(e.Works)...)
		for _, f := range e.effects {
			if f.Accepted {
				l.Effects = append(l.Effects, momentOf(f.span))
			} else {
				l.Refused = append(l.Refused, momentOf(f.span))
			}
		}
		if e.abandoned != nil && !ix.afterRun(e.abandoned) {
			lane.Marks = append(lane.Marks, verdict.Mark{What: "abandonment", Who: l.Incarnation, Key: e.Key, At: momentOf(e.abandoned.Span), Note: e.abandoned.Abandon.Reason})
		}
	}
	for _, p := range ix.Pauses[l.Incarnation] {
		lane.Paused = append(lane.Paused, verdict.Extent{
			Start: verdict.Moment{From: Seconds(p.Widest.From), To: Seconds(p.Surest.From)},
			End:   momentOf(history.Span{From: p.Surest.To, To: p.Widest.To}),
		})
	}
}

func (ix *Facts) signalLanes() []verdict.SignalLane {
	var out []verdict.SignalLane
	for _, m := range ix.Exp.Probes.Numbers() {
		l := verdict.SignalLane{Metric: m.Name}
		for _, s := range ix.Samples[m.Name] {
			if len(s.Points) == 0 {
				continue
			}
			if s.Kind != "" {
				l.Kind = s.Kind
			}
			t := verdict.SignalTarget{Target: s.Name, Last: Seconds(s.Last.To), Gone: s.Gone}
			for _, p := range s.Points {
				at := momentOf(p.Span)
				if p.Prev != nil {
					at.From = Seconds(p.Prev.From)
				}
				x := verdict.SignalPoint{At: at, Value: p.Value, Absent: len(p.Series) == 0}
				if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
					x.Value, x.Absent, x.Odd = 0, true, figures.Decimal(p.Value)
				}
				t.Points = append(t.Points, x)
			}
			l.Targets = append(l.Targets, t)
		}
		if len(l.Targets) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// trialLanes follows Judge: the trials that count, by shot, then the thefts.
func (ix *Facts) trialLanes() []verdict.TrialLane {
	var out []verdict.TrialLane
	for _, s := range ix.Shots {
		for _, t := range s.Trials {
			if !t.Void.IsVoid() {
				out = append(out, ix.trialLane(t))
			}
		}
	}
	for _, t := range ix.Thefts() {
		k := ix.Keys[t.Key]
		lane := verdict.TrialLane{Takeover: t}
		for _, e := range k.Epochs {
			if next := k.next(e); next != nil && len(t.Evidence) == 2 && e.N == t.Evidence[0] && next.N == t.Evidence[1] {
				hold := ix.holdOf(next)
				end := hold.Granted
				lane.Held, lane.Due, lane.Next, lane.Clock, lane.Ended = ix.holdOf(e), momentOf(e.Life.Due), &hold, hold.Granted, &end
				lane.Renewed = lastExtension(e, Open)
			}
		}
		out = append(out, lane)
	}
	for i := range out {
		out[i].Number = i + 1
	}
	return out
}

func (ix *Facts) trialLane(t *Trial) verdict.TrialLane {
	over := t.Shot.lasted()
	l := verdict.TrialLane{
		Takeover: t.Takeover(), Struck: momentAt(t.Shot.Applied.Span), Over: &over, Clock: momentOf(t.Start), Held: ix.holdOf(t.E),
		Renewed: lastExtension(t.E, lastBefore(t)), Due: momentOf(t.E.Life.Due), Work: extents(t.E.Works),
	}
	if t.Next != nil {
		next := ix.holdOf(t.Next)
		l.Next = &next
	}
	until := t.x.To
	if t.Censored() {
		l.Until = Seconds(t.x.From)
		until = t.x.From
	} else {
		l.Ended = momentAt(t.x)
	}
	if t.After != nil && t.After != t.E {
		l.NextWork = extents(t.After.Works)
	}
	l.Attempts = attempts(ix.Keys[t.E.Key], t, until)
	return l
}

// attempts lists the acquires of others from the victim's last extension on.
func attempts(k *Key, t *Trial, until int64) []verdict.Attempt {
	var out []verdict.Attempt
	for _, c := range k.attempts {
		if c.epoch == t.E.ID || c.Span.To < t.Shot.Applied.From || c.sent.From > until {
			continue
		}
		a := verdict.Attempt{Who: c.source, At: verdict.Extent{Start: momentOf(c.sent), End: momentOf(history.At(c.Span.To))}, Result: c.result}
		if !c.exited {
			a.At.End = momentOf(history.Span{From: c.sent.From, To: Open})
		}
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(a, b verdict.Attempt) int { return cmp.Compare(a.At.Start.From, b.At.Start.From) })
	return out
}

// lastBefore is until when renewals of the victim belong before the trial: a recovered victim goes on to renew.
func lastBefore(t *Trial) int64 {
	if t.End == EndRenewal {
		return t.Shot.Applied.From
	}
	return Open
}

// lastExtension is the last renewal of e that was applied, and sent by until; nil where there was none.
func lastExtension(e *Epoch, until int64) *verdict.Moment {
	for _, c := range slices.Backward(e.Renewals) {
		if c.outcome == history.OK && c.Span.From <= until {
			return momentAt(c.Span)
		}
	}
	return nil
}

func extents(ws []*work) []verdict.Extent {
	var out []verdict.Extent
	for _, w := range ws {
		out = append(out, verdict.Extent{Start: momentOf(w.start), End: momentOf(w.end)})
	}
	return out
}

// longestPromised is the limit that every takeover of the lock must keep; nil where there is none.
func longestPromised(j *verdict.Judgement, lock string) *float64 {
	for i := range j.SLOs {
		if s := &j.SLOs[i]; s.Lock == lock && s.Measure == "takeover.max" {
			return &s.Limit
		}
	}
	return nil
}
