package analysis

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

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
				hold := next.hold()
				end := hold.Granted
				lane.Held, lane.Due, lane.Next, lane.Clock, lane.Ended = e.hold(), momentOf(e.life.due), &hold, hold.Granted, &end
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
	struck, over := momentOf(t.shot.applied.Span), t.shot.lasted()
	l := verdict.TrialLane{
		Takeover: t.takeover(), Struck: &struck, Over: &over, Clock: momentOf(t.start), Held: t.e.hold(),
		Renewed: lastExtension(t.e, lastBefore(t)), Due: momentOf(t.e.life.due), Work: extents(t.e.works),
	}
	if t.next != nil {
		next := t.next.hold()
		l.Next = &next
	}
	until := t.x.To
	if t.censored() {
		l.Until = seconds(t.x.From)
		until = t.x.From
	} else {
		end := momentOf(t.x)
		l.Ended = &end
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
			m := momentOf(c.span)
			return &m
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
