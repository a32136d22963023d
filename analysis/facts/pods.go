package facts

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Replicas in pods. A kill there is a call, the end of an object and the end of a process, at three different times: the call says what
// the victim held, the end of the process since when it could hold no more, and the object judges nothing (docs/judging.md).

// death is what was seen of the death that the shot brought about; nil where its victim is in no pod.
func (s *Shot) death() *history.Death {
	if s.confirmed == nil {
		return nil
	}
	return s.confirmed.Fault.Death
}

// noteDeath takes over what the shot tells of its victim's life, where no event of the fleet does.
func (s *Shot) noteDeath(ix *Facts) {
	d := s.death()
	if d == nil {
		return
	}
	for _, v := range s.killed() {
		ix.LastWord[v] = max(ix.LastWord[v], d.Sign)
		switch seen, known := ix.Deaths[v]; {
		case known: // it lived at the sign, whoever saw that
			seen.From = min(max(seen.From, d.Sign), seen.To)
			ix.Deaths[v] = seen
		case d.End != nil:
			end := history.Span{From: min(max(d.Sign, d.End.From), d.End.To), To: d.End.To}
			ix.Deaths[v] = death{Span: end, n: s.confirmed.N}
		}
	}
}

// struckAt is from when on the holder of e could extend its lease no more: since the fault; in a pod, since its process ended. One that
// gave the lock back after the call did what it was asked to, and the clock runs from there. Where nobody knows whether it was given
// back, it is either.
func (ix *Facts) struckAt(s *Shot, e *Epoch) history.Span {
	d := s.death()
	if d == nil || s.handedOver(e) && e.Lease.gave.Outcome == history.OK {
		return s.Applied.Span
	}
	end := history.Span{From: d.Sign, To: Open}
	if seen, known := ix.Deaths[cmp.Or(s.Victim, e.Replica)]; known { // it may have been seen when the shot was no longer waited for
		end = seen.Span
	}
	if s.handedOver(e) {
		end.From = min(end.From, s.Applied.From)
	}
	return end
}

// handedOver reports that e was given back after the fault.
func (s *Shot) handedOver(e *Epoch) bool {
	gave := e.Lease.gave
	return gave != nil && gave.Sent.From >= s.Applied.From
}

// mayHaveGiven reports an epoch of an observed system that its holder may have given back without a word: nobody claims there, and what
// comes and goes between two looks is not seen. Where a watch saw the name of another pod written over its own, nothing came between, and
// the dead give nothing back.
func (ix *Facts) mayHaveGiven(e *Epoch) bool {
	if !ix.Exp.Observed() || e.Lease.gave != nil {
		return false
	}
	if next := e.shownGone(); next != nil && next.direct && next.epoch != "" {
		if by := ix.Keys[e.Key].of(next).Replica; by != "" && by != e.Replica { // some write themselves a new term
			return false
		}
	}
	d, dead := ix.Deaths[e.Replica]
	return !dead || len(e.Looks) == 0 || e.shownLast().last().From < d.To
}

// UnseenEnd is a victim that held a key of the lock and of whose process nobody saw the end; "" = there is none.
func (ix *Facts) UnseenEnd(lock string) string {
	for _, s := range ix.Shots {
		if s.death() == nil || !s.Locks[lock] { // what was never applied hit nobody
			continue
		}
		for _, v := range s.killed() {
			holds := func(e *Epoch) bool { return e.Replica == v && e.Lock == lock }
			if _, seen := ix.Deaths[v]; !seen && (s.Victim != "" || slices.ContainsFunc(s.MayHit(ix), holds)) {
				return v
			}
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

// OutlivesLease reports a lock whose object goes on naming its last holder when the lease has run out: a Lease of Kubernetes, which
// nobody but the next holder changes.
func (ix *Facts) OutlivesLease(lock string) bool {
	l := ix.Exp.Lock(lock)
	return l != nil && ix.Exp.OnLease(l)
}

// extensions are the renewals of e that only looks show.
func (e *Epoch) extensions() []*Call {
	var cs []*Call
	for i, s := range e.Looks {
		if i > 0 && s.extended && s.prev.From != never { // the first shows the grant
			cs = append(cs, e.shown(s, history.ResultRenewed))
		}
	}
	return cs
}

// wrongVictim makes a trial void where the lease of the victim's epoch was extended after its death.
func (ix *Facts) wrongVictim(t *Trial) {
	d, dead := ix.Deaths[t.E.Replica]
	if !dead || !t.Shot.Does.Kills || t.E.namedByValue() {
		return
	}
	if c := ix.extendedAfter(t.E, d); c != nil {
		t.Void = verdict.Void{Code: verdict.VoidWrongVictim}
		ix.findAs(verdict.FindingWrongVictim, fmt.Sprintf("key %s: %s named %s as the holder of epoch %s, but the epoch was extended %s after its death: another replica held it",
			t.E.Key, t.E.named, t.E.Replica, t.E.ID, figures.Short(c.Span.From-d.To)), c.n, d.n)
	}
}

// namedByValue reports that the lock's own value names its holder, which may be that of a next life as well.
func (e *Epoch) namedByValue() bool { return e.named == "" || e.named == "value" }

// HolderOf is who is known to have held e, and until when it relied on the lock; nil where it never did. Where nobody tells of belief,
// whoever is said to hold, or was found to by a fault, does so until its death or the end of the lease.
func (ix *Facts) HolderOf(e *Epoch) (who string, until *history.Span) {
	who = e.Replica
	switch {
	case e.Belief != nil:
		return who, &e.Belief.End
	case !ix.Exp.Observed() || e.Stranger:
		return who, nil
	}
	for _, s := range ix.Shots {
		if who == "" && s.Key == e.Key && s.Epoch == e.ID && s.Effective() && s.meant(ix.Keys[e.Key]) == e {
			who = s.Victim
		}
	}
	end := e.Lease.Freed
	switch d, dead := ix.Deaths[who]; {
	case !dead:
	case ix.extendedAfter(e, d) == nil:
		end = first(end, d.Span)
	case !e.namedByValue(): // it was another's all along
		who = ""
	}
	return who, &end
}

// extendedAfter is the first extension of e that its holder cannot have sent, because it was dead for longer than a call may be on its
// way; nil where there is none.
func (ix *Facts) extendedAfter(e *Epoch, d death) *Call {
	late := Plus(d.To, ix.flight(ix.policy(e.Lock).OpTimeout))
	for _, c := range e.extensions() {
		if c.Span.From > late {
			return c
		}
	}
	return nil
}

// shown is a call of e's holder that a look shows to have succeeded.
func (e *Epoch) shown(s *keyState, result string) *Call {
	at := s.First
	if s.prev.From != never {
		at.From = s.prev.From
	}
	return &Call{Source: e.Replica, Of: e, Sent: at, Span: at, Outcome: history.OK, Result: result, n: s.n, Returned: true}
}

// handBack notes that a look showed e's holder to have given the lock back.
func (e *Epoch) handBack(s *keyState) {
	e.back = e.shown(s, history.ResultReleased)
}

// gaveWhenAsked notes that e's holder gave its key back when it was asked to end: looks show the key after the call, and free before its
// lease ended and before its holder had. Nobody who is only watched tells of that. A loop that keeps its lock gives it back for no other reason,
// so of that one it is enough that the call came between the two looks.
func (ix *Facts) gaveWhenAsked(e *Epoch) {
	gone := e.shownGone()
	if !ix.Exp.Observed() || ix.OutlivesLease(e.Lock) || gone == nil || gone.epoch != "" || gone.First.To >= ix.dueOf(e).From {
		return
	}
	loop := ix.policy(e.Lock).Loop
	keeps := loop != nil && loop.Mode != lockcore.LoopExplicit && gone.First.To-gone.prev.From <= ix.MaxGap(ix.Looker(e.Lock))
	for _, s := range ix.Shots {
		d := s.death()
		if s.Class() != verdict.ClassHandOver || !slices.Contains(s.killed(), e.Replica) || d == nil || d.End == nil {
			continue
		}
		given := gone.prev.From
		if keeps && gone.First.To > s.Applied.To {
			given = max(given, s.Applied.From)
		}
		if given >= s.Applied.From && given <= d.End.To {
			e.handBack(gone)
			e.back.Sent.From, e.back.Span.From = given, given
		}
	}
}

// deathOf is d as verdict.json lists it.
func deathOf(d *history.Death) *verdict.Death {
	if d == nil {
		return nil
	}
	out := &verdict.Death{Call: *windowOf(d.Call), Sign: Seconds(d.Sign), By: d.By, Means: d.Means}
	if d.Object != nil {
		out.Object = windowOf(*d.Object)
	}
	if d.End != nil {
		out.End = windowOf(*d.End)
	}
	return out
}
