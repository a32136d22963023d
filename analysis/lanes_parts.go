package analysis

import (
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

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
		l := verdict.Life{Incarnation: incarnation, Extent: verdict.Extent{Start: momentOf(start), End: verdict.Moment{From: seconds(ix.claims[incarnation]), To: math.Inf(1)}}}
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
			gone := momentOf(history.At(ev.To)) // since when may be known as little as when it was last listed
			out[p[0]].Lives[p[1]].Object = &gone
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
		for _, w := range e.works {
			l.Work = append(l.Work, verdict.Extent{Start: momentOf(w.start), End: momentOf(w.end)})
		}
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
				t.Points = append(t.Points, verdict.SignalPoint{At: at, Value: p.Value, Absent: len(p.Series) == 0})
			}
			l.Targets = append(l.Targets, t)
		}
		if len(l.Targets) > 0 {
			out = append(out, l)
		}
	}
	return out
}
