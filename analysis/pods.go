package analysis

import (
	"fmt"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Replicas in pods. A kill there is a call, the end of an object and the end of a process, at three different times: the call says what
// the victim held, the end of the process since when it could hold no more, and the object judges nothing (docs/judging.md).

// death is what was seen of the death that the shot brought about; nil where its victim is in no pod.
func (s *shot) death() *history.Death {
	if s.confirmed == nil {
		return nil
	}
	return s.confirmed.Fault.Death
}

// noteDeath takes over what the shot tells of its victim's life, where no event of the fleet does.
func (s *shot) noteDeath(ix *Facts) {
	d := s.death()
	if d == nil {
		return
	}
	ix.claims[s.victim] = max(ix.claims[s.victim], d.Sign)
	switch seen, known := ix.deaths[s.victim]; {
	case known: // it lived at the sign, whoever saw that
		seen.From = min(max(seen.From, d.Sign), seen.To)
		ix.deaths[s.victim] = seen
	case d.End != nil:
		end := history.Span{From: min(max(d.Sign, d.End.From), d.End.To), To: d.End.To}
		ix.deaths[s.victim] = death{Span: end, n: s.confirmed.N}
	}
}

// struckAt is from when on the holder of e could extend its lease no more: since the fault; in a pod, since its process ended. One that
// gave the lock back after the call did what it was asked to, and the clock runs from there. Where nobody knows whether it was given
// back, it is either.
func (ix *Facts) struckAt(s *shot, e *epoch) history.Span {
	d := s.death()
	if d == nil || s.handedOver(e) && e.life.gave.outcome == history.OK {
		return s.applied.Span
	}
	end := history.Span{From: d.Sign, To: open}
	if seen, known := ix.deaths[s.victim]; known { // it may have been seen when the shot was no longer waited for
		end = seen.Span
	}
	if s.handedOver(e) {
		end.From = min(end.From, s.applied.From)
	}
	return end
}

// handedOver reports that e was given back after the fault.
func (s *shot) handedOver(e *epoch) bool {
	gave := e.life.gave
	return gave != nil && gave.sent.From >= s.applied.From
}

// mayHaveGiven reports an epoch of an observed system that its holder may have given back without a word: nobody claims there, and what
// comes and goes between two looks is not seen. Where a watch saw the name of another pod written over its own, nothing came between, and
// the dead give nothing back.
func (ix *Facts) mayHaveGiven(e *epoch) bool {
	if !ix.exp.Observed() || e.life.gave != nil {
		return false
	}
	if n := len(e.looks); n > 0 {
		if next := e.looks[n-1].next; next != nil && next.direct && next.epoch != "" {
			if by := ix.keys[e.key].epoch(next.epoch).replica; by != "" && by != e.replica { // some write themselves a new term
				return false
			}
		}
	}
	d, dead := ix.deaths[e.replica]
	return !dead || len(e.looks) == 0 || e.looks[len(e.looks)-1].last().From < d.To
}

// unseenEnd is a victim that held a key of the lock and of whose process nobody saw the end; "" = there is none.
func (ix *Facts) unseenEnd(lock string) string {
	for _, s := range ix.shots {
		if _, seen := ix.deaths[s.victim]; s.death() != nil && !seen && s.locks[lock] {
			return s.victim
		}
	}
	return ""
}

// unheard holds the two witnesses of a life in a pod against one another: its log, and the stream of its events.
func (ix *Facts) unheard(exit *history.Event) {
	if r := exit.Replica; r.Unheard > 0 {
		ix.find(fmt.Sprintf("replica %s: its log shows %s as acknowledged, but the stream of its events does not have them", r.Incarnation, figures.Plural(r.Unheard, "line")), exit.N)
	}
}

// outlivesLease reports a lock whose object goes on naming its last holder when the lease has run out: a Lease of Kubernetes, which
// nobody but the next holder changes.
func (ix *Facts) outlivesLease(lock string) bool {
	l := ix.exp.Lock(lock)
	return l != nil && ix.exp.OnLease(l)
}

// extensions are the renewals of e that only looks show.
func (e *epoch) extensions() []*call {
	var cs []*call
	for i, s := range e.looks {
		if i > 0 && s.extended && s.prev.From != never { // the first shows the grant
			cs = append(cs, e.shown(s, history.ResultRenewed))
		}
	}
	return cs
}

// wrongVictim makes a trial void whose victim had been dead for longer than a call may be on its way when the lease of its epoch was
// extended. A name in the lock's own value may be that of a next life as well, and is not held to that.
func (ix *Facts) wrongVictim(t *trial) {
	d, dead := ix.deaths[t.e.replica]
	if !dead || !t.shot.does.Kills || t.e.named == "" || t.e.named == "value" {
		return
	}
	late := plus(d.To, ix.flight(ix.policy(t.e.lock).OpTimeout))
	for _, c := range t.e.extensions() {
		if c.span.From > late {
			t.void = verdict.Void{Code: verdict.VoidWrongVictim}
			ix.findAs(verdict.FindingWrongVictim, fmt.Sprintf("key %s: %s named %s as the holder of epoch %s, but the epoch was extended %s after its death: another replica held it",
				t.e.key, t.e.named, t.e.replica, t.e.id, figures.Short(c.span.From-d.To)), c.n, d.n)
			return
		}
	}
}

// shown is a call of e's holder that a look shows to have succeeded.
func (e *epoch) shown(s *stretch, result string) *call {
	at := s.first
	if s.prev.From != never {
		at.From = s.prev.From
	}
	return &call{source: e.replica, epoch: e.id, sent: at, span: at, outcome: history.OK, result: result, n: s.n, exited: true}
}

// handBack notes that a look showed e's holder to have given the lock back.
func (e *epoch) handBack(s *stretch) {
	e.back = e.shown(s, history.ResultReleased)
}

// gaveWhenAsked notes that e's holder gave its key back when it was asked to end: looks show the key after the call, and free before its
// lease ended and before its holder had. Nobody who is only watched tells of that.
func (ix *Facts) gaveWhenAsked(e *epoch) {
	if !ix.exp.Observed() || ix.outlivesLease(e.lock) || len(e.looks) == 0 {
		return
	}
	gone := e.looks[len(e.looks)-1].next
	if gone == nil || gone.epoch != "" || gone.first.To >= ix.dueOf(e).From {
		return
	}
	for _, s := range ix.shots {
		if d := s.death(); s.class() == verdict.ClassHandOver && s.victim == e.replica && d != nil && d.End != nil &&
			gone.prev.From >= s.applied.From && gone.prev.From <= d.End.To {
			e.handBack(gone)
		}
	}
}

// deathOf is d as verdict.json lists it.
func deathOf(d *history.Death) *verdict.Death {
	if d == nil {
		return nil
	}
	out := &verdict.Death{Call: *windowOf(d.Call), Sign: seconds(d.Sign), By: d.By, Means: d.Means}
	if d.Object != nil {
		out.Object = windowOf(*d.Object)
	}
	if d.End != nil {
		out.End = windowOf(*d.End)
	}
	return out
}
