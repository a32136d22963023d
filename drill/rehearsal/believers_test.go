package rehearsal

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// What the replicas of a world that is only watched say of whether they hold a lock, as the probes of gauges and of logs tell it.

// believing is how the replicas of a world are asked.
type believing struct {
	every, late time.Duration // from one look to the next; how long an answer may take
	maxGap      time.Duration
	unanswered  float64 // share of the answers that are missing
	lost        float64 // share of the lines that are cut
	goesOn      bool    // the lives of a replica write to one log
}

func randomBelieving(r *rand.Rand, s *swarm) believing {
	b := believing{every: between(r, 40*time.Millisecond, 250*time.Millisecond), late: 2 * time.Millisecond, goesOn: s.has(logsGoOn)}
	b.maxGap = b.every * time.Duration(2+r.IntN(8))
	if s.has(answersLate) {
		b.late = between(r, 2*time.Millisecond, 400*time.Millisecond)
	}
	if s.has(answersMissing) {
		b.unanswered = 0.2 * r.Float64()
	}
	if s.has(linesLost) {
		b.lost = 0.1 * r.Float64()
	}
	return b
}

// life is one life of a replica, by the history.
type life struct {
	who         string
	since, died int64
}

func livesOf(d *Drill) (all []life) {
	for i := range d.History.Events {
		if ev := &d.History.Events[i]; ev.Kind == history.ReplicaReady {
			died, dead := d.Truth.Deaths[ev.Source]
			if !dead {
				died = sim.Never
			}
			all = append(all, life{ev.Source, ev.To, died})
		}
	}
	return all
}

// beliefs are the events of the probes, in the order in which they are recorded, up to the end of the history.
func (b believing) beliefs(d *Drill, says map[string]string, locks []experiments.Lock, r *rand.Rand) []history.Event {
	var out []history.Event
	end := d.History.Events[len(d.History.Events)-1].At
	for i := range locks {
		l := &locks[i]
		var told []history.Event
		switch says[l.Name] {
		case experiments.HolderByMetric:
			told = b.gauges(d, l.Name, end, r)
		case experiments.HolderByLog:
			told = b.lines(d, l, end, r)
		default:
			continue
		}
		slices.SortStableFunc(told, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
		probe := history.BeliefProbe(l.Name)
		for i := range told {
			told[i].Source = "probe:" + probe
		}
		out = append(append(out, told...), history.Event{Kind: history.CoverageKind, Span: history.Span{To: end}, At: end, Source: "probe:" + probe,
			Coverage: &history.Coverage{Probe: probe, Samples: end / int64(b.every), Largest: int64(b.every + 2*b.late), Final: true}})
	}
	slices.SortStableFunc(out, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	return out
}

// holds reports that a life relied on a key of the lock at an instant.
func holds(t *sim.Truth, lock, who string, at int64) bool {
	return slices.ContainsFunc(t.Epochs, func(e sim.Epoch) bool { return e.Lock == lock && relies(&e, who, at) })
}

func relies(e *sim.Epoch, who string, at int64) bool {
	return e.Replica == who && e.Believed[0] <= at && at < e.Believed[1]
}

// gauges asks each life again and again.
func (b believing) gauges(d *Drill, lock string, end int64, r *rand.Rand) (out []history.Event) {
	for _, l := range livesOf(d) {
		var before *history.Event
		last := history.Span{}
		for at := l.since + int64(between(r, 0, b.every)); at < min(l.died, end); at += int64(b.every) {
			span := history.Span{From: at, To: at + int64(between(r, time.Millisecond, b.late))}
			instant := span.From + int64(between(r, 0, time.Duration(span.Width())))
			if instant >= l.died || span.To >= end {
				break
			}
			x := &history.Belief{Incarnation: l.who, Named: nameOf(l.who), By: experiments.HolderByMetric, Holds: holds(d.Truth, lock, l.who, instant)}
			if r.Float64() < b.unanswered {
				x.Holds, x.Gone = false, history.GoneUnreadable
			}
			for _, p := range d.Truth.Stops {
				if p.Replica == l.who && p.From <= instant && instant < p.To {
					x.Holds, x.Gone = false, history.GoneTimeout
				}
			}
			if before == nil || before.Belief.Holds != x.Holds || before.Belief.Gone != x.Gone {
				if before != nil {
					prev := last
					x.Prev = &prev
				}
				ev := history.Event{Kind: history.BeliefKind, Span: span, At: span.To, Lock: lock, Belief: x}
				out = append(out, ev)
				before = &ev
			}
			at, last = max(at, span.To-int64(b.every)), span
		}
	}
	return out
}

// lines are those by which lives begin and cease to rely on a lock, as one reads them who reads their logs now and then.
func (b believing) lines(d *Drill, l *experiments.Lock, end int64, r *rand.Rand) (out []history.Event) {
	type line struct {
		at    int64
		who   string
		key   string
		holds bool
	}
	var all []line
	lives := livesOf(d)
	for _, x := range lives {
		for i := range d.Truth.Epochs {
			e := &d.Truth.Epochs[i]
			if e.Lock != l.Name || e.Replica != x.who || e.Believed[0] == sim.Never {
				continue
			}
			all = append(all, line{e.Believed[0], x.who, e.Key, true})
			again := func(o sim.Epoch) bool { return o.Key == e.Key && relies(&o, x.who, e.Believed[1]) }
			if e.Believed[1] < x.died && !slices.ContainsFunc(d.Truth.Epochs, again) { // else it relies on a later grant
				all = append(all, line{e.Believed[1], x.who, e.Key, false})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	told := map[string]bool{}
	for _, x := range all {
		n := x.at/int64(b.every) + 1
		span := history.Span{From: (n - 1) * int64(b.every), To: n * int64(b.every)}
		if span.To >= end {
			continue
		}
		if r.Float64() < b.lost {
			out = append(out, history.Event{Kind: history.UnreadKind, Span: span, At: span.To,
				Unread: &history.Unread{Source: history.BeliefProbe(l.Name), Count: 1, Reason: history.CutOff}})
			continue
		}
		who := x.who
		if b.goesOn {
			who = writerOf(lives, x.who, span)
		}
		key := x.key
		if l.Loop() {
			key = ""
		}
		told[who] = true
		out = append(out, history.Event{Kind: history.BeliefKind, Span: span, At: span.To, Lock: l.Name, Key: key,
			Belief: &history.Belief{Incarnation: who, Named: nameOf(who), Holds: x.holds, By: experiments.HolderByLog, Direct: true}})
	}
	for _, x := range lives {
		at := (x.since/int64(b.every) + 1) * int64(b.every)
		early := slices.ContainsFunc(out, func(ev history.Event) bool { return ev.Belief != nil && ev.Belief.Incarnation == x.who && ev.At <= at })
		if l.Loop() && !early && at < min(x.died, end) {
			out = append(out, history.Event{Kind: history.BeliefKind, Span: history.Span{From: at, To: at + int64(time.Millisecond)}, At: at + int64(time.Millisecond), Lock: l.Name,
				Belief: &history.Belief{Incarnation: x.who, Named: nameOf(x.who), By: experiments.HolderByLog}})
		}
	}
	return out
}

// writerOf is whom the probe takes for the writer of a line: the last life of that replica that surely lived then, else the first.
func writerOf(lives []life, who string, at history.Span) string {
	first := ""
	for _, l := range slices.Backward(lives) {
		if nameOf(l.who) != nameOf(who) {
			continue
		}
		if first = l.who; l.since <= at.From {
			return l.who
		}
	}
	return first
}
