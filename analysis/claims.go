package analysis

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Claims against evidence: what replicas say of a key is held against what looks showed of it. Where they disagree, the evidence is used,
// a finding says so, and nothing that leans on claims about that key can pass.

// doubt notes why nothing that leans on claims about the key can pass; the first of each reason is enough.
func (k *keyIndex) doubt(m verdict.Missing) {
	if !slices.ContainsFunc(k.doubts, func(d verdict.Missing) bool { return d.Code == m.Code }) {
		k.doubts = append(k.doubts, m)
	}
}

// doubted are the doubts about the keys of the lock, the first of each reason.
func (j *judging) doubted(lock string) []verdict.Missing {
	var all keyIndex
	for _, k := range j.ix.keysOf(lock) {
		for _, d := range k.doubts {
			all.doubt(d)
		}
	}
	return all.doubts
}

// announces reports that somebody says when the lock is asked for: without, a token that nobody announced is none to wonder about.
func (ix *Facts) announces(lock string) bool { return ix.asked[lock] && !ix.exp.Observed() }

// explain finds the epochs of k that looks showed and nobody claims.
func (ix *Facts) explain(k *keyIndex) {
	var used []*call
	for i, e := range k.epochs {
		if len(e.looks) == 0 || e.stranger || e.announced() {
			continue
		}
		if c := ix.leftOpen(k, e, used); c != nil {
			used = append(used, c)
			continue
		}
		e.unexplained = true
		said := "nobody had announced"
		if len(e.acquires) > 0 {
			said = "its own replica had announced as refused"
		}
		what := fmt.Sprintf("key %s carried epoch %s, which %s", k.name, e.id, said)
		evidence := []int64{e.looks[0].n}
		if of := k.preceding(i); of != nil && ix.robbed(of, e) {
			what += fmt.Sprintf(": it took the key from epoch %s, to which the store still owed %s", of.id, figures.Short(of.life.due.From-e.granted.To))
			evidence = append(evidence, of.n)
		}
		for _, c := range e.acquires {
			evidence = append(evidence, c.n)
		}
		ix.findAs(verdict.FindingUnannounced, what, evidence...)
		k.doubt(verdict.Lacking(verdict.MissingAnnouncement, k.name, e.id))
	}
}

// announced reports an acquire of e that its caller does not rule out to have succeeded.
func (e *epoch) announced() bool {
	return slices.ContainsFunc(e.acquires, func(c *call) bool { return c.outcome != history.Fail })
}

// leftOpen is an acquire that its caller took to the grave and that may have put e's token into the key; nil where there is none. Each
// explains one token, and its own if that was seen.
func (ix *Facts) leftOpen(k *keyIndex, e *epoch, used []*call) *call {
	flight := ix.flight(ix.policy(k.lock).Acquire.Timeout)
	for _, c := range k.attempts {
		if _, dead := ix.deaths[c.source]; c.exited || !dead || slices.Contains(used, c) || len(k.find(c.epoch).looks) > 0 {
			continue
		}
		if _, may := e.granted.Intersect(c.applied(flight)); may {
			return c
		}
	}
	return nil
}

// robbed reports that e was granted while the store still owed its lease to the one before, who had not given it back.
func (ix *Facts) robbed(of, e *epoch) bool {
	return e.granted.To < of.life.due.From && !of.stranger && of.life.gave == nil && !of.life.loss && ix.takenFrom(of) == nil
}

// seen adds a look to the epoch that it shows, and notes a token that comes back after it was gone: it names two holds, so nothing tells
// which of them a claim is about. What a store lost and got back with a standby is no such token.
func (ix *Facts) seen(k *keyIndex, s *stretch) {
	e := k.epoch(s.epoch)
	if n := len(e.looks); n > 0 && e.looks[n-1].next != s && !e.reused && !ix.exp.Observed() {
		gone := e.looks[n-1].next
		between := history.Span{From: gone.prev.From, To: s.first.To}
		forgot := func(l history.Span) bool { _, in := l.Intersect(between); return in }
		if !slices.ContainsFunc(ix.losses, forgot) {
			e.reused = true
			ix.findAs(verdict.FindingTokenReuse, "key "+k.name+": the token of epoch "+e.id+" came back after it had been gone", gone.n, s.n)
			k.doubt(verdict.Lacking(verdict.MissingNewToken, k.name, e.id))
		}
	}
	e.looks = append(e.looks, s)
}

// renewedAfterWork finds holders that renewed a key that they had stopped working under, and relying on.
func (ix *Facts) renewedAfterWork(k *keyIndex) {
	for _, e := range k.epochs {
		if e.belief == nil || e.ghost || len(e.works) == 0 {
			continue
		}
		o, _ := ix.doneWith(e)
		done := max(o.start.To, e.belief.end.To)
		if o.cause != causeRenewed || done == open {
			continue
		}
		n := 0
		var evidence []int64
		for _, c := range e.renewals {
			if c.sent.From > done && c.said == history.OK {
				n++
				evidence = append(evidence, c.n)
			}
		}
		if n > 0 {
			ix.findAs(verdict.FindingRenewedAfterWork, fmt.Sprintf("key %s: epoch %s was renewed %s after its holder was done with it at %s",
				k.name, e.id, figures.Plural(n, "time"), figures.Clock(done)), evidence...)
		}
	}
}
