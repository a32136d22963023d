package timeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Read arranges for pictures what was read of a run. j is its judgement.
func Read(run *facts.Facts, j *verdict.Judgement) *Lanes {
	l := &Lanes{
		Seconds: facts.Seconds(run.Last), TimeScale: cmp.Or(j.Run.TimeScale, 1), Live: j.Run.Live,
	}
	for _, name := range []string{history.PhaseSteady, history.PhaseFaults, history.PhaseRevert, history.PhaseSettle, history.PhaseFinal} {
		if p := run.Phases[name]; p != nil {
			l.Phases = append(l.Phases, PhaseLane{Name: name, At: facts.Seconds(p.From)})
		}
	}
	for _, s := range run.Shots {
		l.Faults = append(l.Faults, faultLane(run, s))
	}
	l.Locks = lockLanes(run)
	l.Replicas = replicaLanes(run)
	l.Trials = trialLanes(run)
	for i := range l.Trials {
		l.Trials[i].Limit = longestPromised(j, l.Trials[i].Lock)
	}
	l.Signals = signalLanes(run)
	return l
}

// momentOf is s in seconds.
func momentOf(s history.Span) Moment {
	m := Moment{From: facts.Seconds(s.From), To: math.Inf(1)}
	if s.To != facts.Open {
		m.To = facts.Seconds(s.To)
	}
	return m
}

// momentAt is momentOf for a field that may be left out.
func momentAt(s history.Span) *Moment {
	m := momentOf(s)
	return &m
}

func faultLane(run *facts.Facts, s *facts.Shot) FaultLane {
	f := FaultLane{Op: s.Op, FaultResult: s.Result(run), Over: momentOf(s.Lasted())}
	if s.Applied != nil {
		f.Applied = momentAt(s.Applied.Span)
	}
	if s.Voided != nil {
		f.Missed = momentAt(s.Voided.Span)
	}
	return f
}

func lockLanes(run *facts.Facts) []LockLane {
	var out []LockLane
	superseded := map[string]map[int64]bool{} // by lock, the events of effects that surely came after one of a later holder
	for _, k := range run.KeyOrder {
		if superseded[k.Lock] == nil {
			superseded[k.Lock] = map[int64]bool{}
			for _, n := range run.EffectOverlap(k.Lock).Superseded {
				superseded[k.Lock][n] = true
			}
		}
	}
	for _, k := range run.KeyOrder {
		i := slices.IndexFunc(out, func(l LockLane) bool { return l.Lock == k.Lock })
		if i < 0 {
			i = len(out)
			of := run.Exp.Lock(k.Lock)
			out = append(out, LockLane{Lock: k.Lock, None: of != nil && of.Keyless()})
		}
		key := KeyLane{Key: k.Name}
		for _, e := range k.Epochs {
			if !out[i].None {
				key.Holds = append(key.Holds, holdOf(run, e))
			}
		}
		out[i].Keys = append(out[i].Keys, key)
		out[i].Again = append(out[i].Again, again(k, superseded[k.Lock])...)
	}
	for i := range out {
		for _, t := range run.Together(out[i].Lock) {
			out[i].Both = append(out[i].Both, Both{Key: t.Key, A: t.A, B: t.B, Refs: t.Evidence,
				Extent: Extent{Start: momentOf(history.At(t.From)), End: momentOf(history.At(t.To))}})
		}
	}
	return out
}

func holdOf(run *facts.Facts, e *facts.Epoch) Hold {
	who, until := run.HolderOf(e)
	h := Hold{Epoch: e.ID, Replica: who, Granted: momentOf(e.Granted), End: momentOf(e.Lease.Freed)}
	if until != nil {
		h.Held = momentAt(*until)
	}
	return h
}

// again lists the terminal states of the key's jobs beyond the first, and the effects of superseded epochs: nobody is accused of one that
// may have come in time.
func again(k *facts.Key, superseded map[int64]bool) []Mark {
	var out []Mark
	for _, j := range k.Jobs {
		for i, f := range j.Terminals {
			if i > 0 {
				out = append(out, Mark{What: "duplicate", Who: f.Epoch.Replica, Key: k.Name, At: momentOf(f.Span), Note: "job " + j.ID + " " + f.State + " again"})
			}
		}
	}
	for _, f := range k.Effects {
		if superseded[f.N] {
			out = append(out, Mark{What: "stale", Who: f.Epoch.Replica, Key: k.Name, At: momentOf(f.Span), Note: f.State + " of " + f.Subject})
		}
	}
	return out
}

// replicaLanes gathers the lives of the replicas, in the order in which they were first heard of.
func replicaLanes(run *facts.Facts) []ReplicaLane {
	var out []ReplicaLane
	at := map[string][2]int{} // lane and life of an incarnation
	life := func(incarnation string, start history.Span) *Life {
		if p, ok := at[incarnation]; ok {
			return &out[p[0]].Lives[p[1]]
		}
		name := history.ReplicaOf(incarnation)
		i := slices.IndexFunc(out, func(l ReplicaLane) bool { return l.Name == name })
		if i < 0 {
			i = len(out)
			out = append(out, ReplicaLane{Name: name})
		}
		l := Life{Incarnation: incarnation, Called: run.Called[incarnation], Extent: Extent{Start: momentOf(start), End: Moment{From: facts.Seconds(run.LastWord[incarnation]), To: math.Inf(1)}}}
		if d, dead := run.Deaths[incarnation]; dead {
			l.End = momentOf(d.Span)
		}
		out[i].Lives = append(out[i].Lives, l)
		at[incarnation] = [2]int{i, len(out[i].Lives) - 1}
		return &out[i].Lives[len(out[i].Lives)-1]
	}
	for _, l := range run.Lives {
		life(l.Incarnation, l.Start)
	}
	for _, ev := range run.Gone {
		if p, known := at[ev.Object.Incarnation]; known && !run.AfterRun(ev) {
			out[p[0]].Lives[p[1]].Object = momentAt(history.At(ev.To)) // since when may be known as little as when it was last listed
		}
	}
	for _, ev := range run.Exits {
		life(ev.Replica.Incarnation, history.Span{To: ev.To}).Exit = ev.Replica.Exit
	}
	for _, s := range run.Shots {
		if p, known := at[s.Victim]; s.Does.Kills && s.Effective() && known {
			out[p[0]].Lives[p[1]].Killed = s.Op
		}
	}
	for i := range out {
		for k := range out[i].Lives {
			fillLife(run, &out[i], &out[i].Lives[k])
		}
	}
	for i := range run.Exp.System.Locks {
		for who, said := range run.Believed(run.Exp.System.Locks[i].Name) {
			p, known := at[who]
			for _, s := range said {
				if known {
					l := &out[p[0]].Lives[p[1]]
					l.Belief = append(l.Belief, Extent{Start: momentOf(history.At(s.From)), End: momentOf(history.At(s.To))})
				}
			}
		}
	}
	return out
}

// fillLife adds what the incarnation did, and what befell it.
func fillLife(run *facts.Facts, lane *ReplicaLane, l *Life) {
	for _, e := range run.Epochs[l.Incarnation] {
		if e.Belief != nil {
			l.Belief = append(l.Belief, Extent{Start: momentOf(e.Belief.Start), End: momentOf(e.Belief.End)})
		}
		l.Work = append(l.Work, extents(e.Works)...)
		for _, f := range e.Effects {
			if f.Accepted {
				l.Effects = append(l.Effects, momentOf(f.Span))
			} else {
				l.Refused = append(l.Refused, momentOf(f.Span))
			}
		}
		if e.Abandoned != nil && !run.AfterRun(e.Abandoned) {
			lane.Marks = append(lane.Marks, Mark{What: "abandonment", Who: l.Incarnation, Key: e.Key, At: momentOf(e.Abandoned.Span), Note: e.Abandoned.Abandon.Reason})
		}
	}
	for _, p := range run.Pauses[l.Incarnation] {
		lane.Paused = append(lane.Paused, Extent{
			Start: Moment{From: facts.Seconds(p.Widest.From), To: facts.Seconds(p.Surest.From)},
			End:   momentOf(history.Span{From: p.Surest.To, To: p.Widest.To}),
		})
	}
}

func signalLanes(run *facts.Facts) []SignalLane {
	var out []SignalLane
	for _, m := range run.Exp.Probes.Numbers() {
		l := SignalLane{Metric: m.Name}
		for _, s := range run.Samples[m.Name] {
			if len(s.Points) == 0 {
				continue
			}
			if s.Kind != "" {
				l.Kind = s.Kind
			}
			t := SignalTarget{Target: s.Name, Last: facts.Seconds(s.Last.To), Gone: s.Gone}
			for _, p := range s.Points {
				at := momentOf(p.Span)
				if p.Prev != nil {
					at.From = facts.Seconds(p.Prev.From)
				}
				x := SignalPoint{At: at, Value: p.Value, Absent: len(p.Series) == 0}
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
func trialLanes(run *facts.Facts) []TrialLane {
	var out []TrialLane
	for _, s := range run.Shots {
		for _, t := range s.Trials {
			if !t.Void.IsVoid() {
				out = append(out, trialLane(run, t))
			}
		}
	}
	for _, t := range run.Thefts() {
		k := run.Keys[t.Key]
		lane := TrialLane{Takeover: t}
		for _, e := range k.Epochs {
			if next := k.Next(e); next != nil && len(t.Evidence) == 2 && e.N == t.Evidence[0] && next.N == t.Evidence[1] {
				hold := holdOf(run, next)
				end := hold.Granted
				lane.Held, lane.Next, lane.Clock, lane.Ended = holdOf(run, e), &hold, hold.Granted, &end
				lane.Renewed = lastExtension(e, facts.Open)
			}
		}
		out = append(out, lane)
	}
	for i := range out {
		out[i].Number = i + 1
	}
	return out
}

func trialLane(run *facts.Facts, t *facts.Trial) TrialLane {
	l := TrialLane{
		Takeover: t.Takeover(), Struck: momentAt(t.Shot.Applied.Span), Clock: momentOf(t.Start), Held: holdOf(run, t.E),
		Renewed: lastExtension(t.E, lastBefore(t)), Work: extents(t.E.Works),
	}
	if t.Next != nil {
		next := holdOf(run, t.Next)
		l.Next = &next
	}
	until := t.Ended.To
	if t.Censored() {
		l.Until = facts.Seconds(t.Ended.From)
		until = t.Ended.From
	} else {
		l.Ended = momentAt(t.Ended)
	}
	if t.After != nil && t.After != t.E {
		l.NextWork = extents(t.After.Works)
	}
	l.Attempts = attempts(run.Keys[t.E.Key], t, until)
	return l
}

// attempts lists the acquires of others from the victim's last extension on.
func attempts(k *facts.Key, t *facts.Trial, until int64) []Attempt {
	var out []Attempt
	for _, c := range k.Attempts {
		if c.Of == t.E || c.Span.To < t.Shot.Applied.From || c.Sent.From > until {
			continue
		}
		a := Attempt{Who: c.Source, At: Extent{Start: momentOf(c.Sent), End: momentOf(history.At(c.Span.To))}, Result: c.Result}
		if !c.Returned {
			a.At.End = momentOf(history.Span{From: c.Sent.From, To: facts.Open})
		}
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(a, b Attempt) int { return cmp.Compare(a.At.Start.From, b.At.Start.From) })
	return out
}

// lastBefore is until when renewals of the victim belong before the trial: a recovered victim goes on to renew.
func lastBefore(t *facts.Trial) int64 {
	if t.End == facts.EndRenewal {
		return t.Shot.Applied.From
	}
	return facts.Open
}

// lastExtension is the last renewal of e that was applied, and sent by until; nil where there was none.
func lastExtension(e *facts.Epoch, until int64) *Moment {
	for _, c := range slices.Backward(e.Renewals) {
		if c.Outcome == history.OK && c.Span.From <= until {
			return momentAt(c.Span)
		}
	}
	return nil
}

func extents(ws []*facts.Stint) []Extent {
	var out []Extent
	for _, w := range ws {
		out = append(out, Extent{Start: momentOf(w.Start), End: momentOf(w.End)})
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
