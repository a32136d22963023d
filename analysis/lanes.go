package analysis

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

// momentAt is momentOf for a field that may be left out.
func momentAt(s history.Span) *verdict.Moment {
	m := momentOf(s)
	return &m
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
		f.Applied = momentAt(s.applied.Span)
	}
	if s.void != nil {
		f.Missed = momentAt(s.void.Span)
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
			key.Holds = append(key.Holds, ix.holdOf(e))
		}
		out[i].Keys = append(out[i].Keys, key)
		out[i].Again = append(out[i].Again, k.again()...)
	}
	return out
}

func (ix *Facts) holdOf(e *epoch) verdict.Hold {
	h := verdict.Hold{Epoch: e.id, Rank: e.rank, Replica: e.replica, Granted: momentOf(e.granted), End: momentOf(e.life.end), Stranger: e.stranger}
	switch {
	case e.belief != nil:
		h.Held = momentAt(e.belief.end)
	case ix.exp.Observed() && !e.stranger:
		ix.holdsUntil(e, &h)
	}
	return h
}

// holdsUntil is holdOf where nobody tells of belief: whoever is said to hold, or was found to by a fault, does so until its death or the
// end of the lease.
func (ix *Facts) holdsUntil(e *epoch, h *verdict.Hold) {
	for _, s := range ix.shots {
		if h.Replica == "" && s.key == e.key && s.epoch == e.id && s.effective() && ix.keys[e.key].at(e.id, s.applied.Span) == e {
			h.Replica = s.victim
		}
	}
	h.Held = momentAt(e.life.end)
	switch d, dead := ix.deaths[h.Replica]; {
	case !dead:
	case ix.extendedAfter(e, d) == nil:
		h.Held = momentAt(first(e.life.end, d.Span))
	case !e.namedByValue(): // it was another's all along
		h.Replica = ""
	}
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
		l := verdict.Life{Incarnation: incarnation, Called: ix.called[incarnation], Extent: verdict.Extent{Start: momentOf(start), End: verdict.Moment{From: seconds(ix.claims[incarnation]), To: math.Inf(1)}}}
		if d, dead := ix.deaths[incarnation]; dead {
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
	for _, ev := range ix.exits {
		life(ev.Replica.Incarnation, history.Span{To: ev.To}).Exit = ev.Replica.Exit
	}
	for _, s := range ix.shots {
		if p, known := at[s.victim]; s.does.Kills && s.effective() && known {
			out[p[0]].Lives[p[1]].Killed = s.op
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
		if e.belief != nil {
			l.Belief = append(l.Belief, verdict.Extent{Start: momentOf(e.belief.start), End: momentOf(e.belief.end)})
		}
		l.Work = append(l.Work, extents(e.works)...)
		for _, f := range e.effects {
			if f.Accepted {
				l.Effects = append(l.Effects, momentOf(f.span))
			} else {
				l.Refused = append(l.Refused, momentOf(f.span))
			}
		}
		if e.abandoned != nil && !ix.afterRun(e.abandoned) {
			lane.Marks = append(lane.Marks, verdict.Mark{What: "abandonment", Who: l.Incarnation, Key: e.key, At: momentOf(e.abandoned.Span), Note: e.abandoned.Abandon.Reason})
		}
	}
	for _, p := range ix.pauses[l.Incarnation] {
		lane.Paused = append(lane.Paused, verdict.Extent{
			Start: verdict.Moment{From: seconds(p.widest.From), To: seconds(p.surest.From)},
			End:   momentOf(history.Span{From: p.surest.To, To: p.widest.To}),
		})
	}
}
func (ix *Facts) signalLanes() []verdict.SignalLane {
	var out []verdict.SignalLane
	for _, m := range ix.exp.Probes.Numbers() {
		l := verdict.SignalLane{Metric: m.Name}
		for _, s := range ix.samples[m.Name] {
			if len(s.Points) == 0 {
				continue
			}
			if s.Kind != "" {
				l.Kind = s.Kind
			}
			t := verdict.SignalTarget{Target: s.Name, Last: seconds(s.Last.To), Gone: s.Gone}
			for _, p := range s.Points {
				at := momentOf(p.Span)
				if p.Prev != nil {
					at.From = seconds(p.Prev.From)
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
	for _, s := range ix.shots {
		for _, t := range s.trials {
			if !t.void.IsVoid() {
				out = append(out, ix.trialLane(t))
			}
		}
	}
	for _, t := range ix.thefts() {
		k := ix.keys[t.Key]
		lane := verdict.TrialLane{Takeover: t}
		for _, e := range k.epochs {
			if next := k.next(e); next != nil && len(t.Evidence) == 2 && e.n == t.Evidence[0] && next.n == t.Evidence[1] {
				hold := ix.holdOf(next)
				end := hold.Granted
				lane.Held, lane.Due, lane.Next, lane.Clock, lane.Ended = ix.holdOf(e), momentOf(e.life.due), &hold, hold.Granted, &end
				lane.Renewed = lastExtension(e, open)
			}
		}
		out = append(out, lane)
	}
	for i := range out {
		out[i].Number = i + 1
	}
	return out
}

func (ix *Facts) trialLane(t *trial) verdict.TrialLane {
	over := t.shot.lasted()
	l := verdict.TrialLane{
		Takeover: t.takeover(), Struck: momentAt(t.shot.applied.Span), Over: &over, Clock: momentOf(t.start), Held: ix.holdOf(t.e),
		Renewed: lastExtension(t.e, lastBefore(t)), Due: momentOf(t.e.life.due), Work: extents(t.e.works),
	}
	if t.next != nil {
		next := ix.holdOf(t.next)
		l.Next = &next
	}
	until := t.x.To
	if t.censored() {
		l.Until = seconds(t.x.From)
		until = t.x.From
	} else {
		l.Ended = momentAt(t.x)
	}
	if t.after != nil && t.after != t.e {
		l.NextWork = extents(t.after.works)
	}
	l.Attempts = attempts(ix.keys[t.e.key], t, until)
	return l
}

// attempts lists the acquires of others from the victim's last extension on.
func attempts(k *keyIndex, t *trial, until int64) []verdict.Attempt {
	var out []verdict.Attempt
	for _, c := range k.attempts {
		if c.epoch == t.e.id || c.span.To < t.shot.applied.From || c.sent.From > until {
			continue
		}
		a := verdict.Attempt{Who: c.source, At: verdict.Extent{Start: momentOf(c.sent), End: momentOf(history.At(c.span.To))}, Result: c.result}
		if !c.exited {
			a.At.End = momentOf(history.Span{From: c.sent.From, To: open})
		}
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(a, b verdict.Attempt) int { return cmp.Compare(a.At.Start.From, b.At.Start.From) })
	return out
}

// lastBefore is until when renewals of the victim belong before the trial: a recovered victim goes on to renew.
func lastBefore(t *trial) int64 {
	if t.end == endRenewal {
		return t.shot.applied.From
	}
	return open
}

// lastExtension is the last renewal of e that was applied, and sent by until; nil where there was none.
func lastExtension(e *epoch, until int64) *verdict.Moment {
	for _, c := range slices.Backward(e.renewals) {
		if c.outcome == history.OK && c.span.From <= until {
			return momentAt(c.span)
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
