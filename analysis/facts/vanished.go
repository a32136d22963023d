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

// vanishing is a key that ended before its lease did: by no release that its holder is known to have sent, by no shot of ours, and not
// because its store lost or brought back data.
type vanishing struct {
	e    *Epoch
	left Dur // of the lease
	// by is what its holder did under it afterwards, and n the event that says so. Where nothing is known of that, and releases cannot be
	// seen, it may have been released.
	by string
	n  int64
}

// findVanished tells of the keys that vanished for sure.
func (ix *Facts) findVanished() {
	for _, k := range ix.KeyOrder {
		for i, e := range k.Epochs {
			v, ok := ix.vanishing(k, e)
			if !ok {
				continue
			}
			if ix.vanishings[e] = v; v.by == "" {
				continue
			}
			if next := k.following(i); next != nil && next.unexplained && ix.robbed(e, next) { // told already, with who took it
				continue
			}
			ix.findAs(verdict.FindingVanished, fmt.Sprintf("key %s vanished by %s with %s of its lease left: nobody is known to have released it, and its holder, %s, %s after that",
				k.Name, figures.Clock(e.Lease.Freed.To), v.left, cmp.Or(ix.Writer(e.Replica), "of whom nothing is known"), v.by), e.N, v.n)
		}
	}
}

// vanishing says what is known of e's end; ok is false where it was none before its time.
func (ix *Facts) vanishing(k *Key, e *Epoch) (v vanishing, ok bool) {
	l := &e.Lease
	switch {
	case e.Stranger, e.Ghost, !l.lost, l.loss, l.gave != nil, !ix.Exp.Leases(), ix.OutlivesLease(k.Lock), ix.takenFrom(e) != nil, ix.takenDown(l.Freed.From):
		return v, false
	case l.Freed.To >= l.Expires.From:
		return v, false
	}
	v = vanishing{e: e, left: between(l.Freed, l.Expires)}
	if v.by, v.n = ix.actsAfter(e, l.Freed.To); v.by == "" {
		v.by, v.n = ix.believesAfter(k, e)
	}
	return v, v.by != "" || !ix.gaveBackDone(k, e)
}

// gaveBackDone reports that the holder of e, of somebody's own, had ended each job that it is known to have worked on under e when its key
// went, or had come when all jobs of the key were over and wrote nothing, and that it gives keys back: this was its release, as the rows of
// unowned effects take it (besideRelease).
func (ix *Facts) gaveBackDone(k *Key, e *Epoch) bool {
	if ix.policy(e.Lock).Release.Mode == lockcore.ReleaseNone {
		return false
	}
	if len(e.Effects) == 0 {
		return len(k.Jobs) > 0 && !slices.ContainsFunc(k.Jobs, func(j *job) bool {
			return len(j.Terminals) == 0 || j.Terminals[0].Span.From > e.Granted.To
		})
	}
	ended := map[string]bool{}
	for _, f := range e.Effects {
		if f.Terminal && f.Fresh() && f.named() {
			ended[f.Subject] = true
		}
	}
	return len(ended) > 0 && !slices.ContainsFunc(e.Effects, func(f *effect) bool { return f.begins && !ended[f.Subject] })
}

// actsAfter is what e's holder surely did, after t, that only one who relies on the key does; "" = nothing is known.
func (ix *Facts) actsAfter(e *Epoch, t int64) (what string, n int64) {
	for _, c := range e.Renewals {
		if c.Sent.From > t {
			return "renewed it", c.n
		}
	}
	for _, f := range e.Effects {
		if f.Span.From > t && f.Fresh() && (!f.Foreign || f.named()) {
			return "wrote", f.N
		}
	}
	if i := slices.IndexFunc(e.Works, func(w *Stint) bool { return w.End.From > t }); i >= 0 {
		return "worked under it", e.Works[i].N
	}
	if e.Belief != nil && e.Belief.End.From > t {
		return "relied on it", e.N
	}
	return "", 0
}

// believesAfter is what the holder of e of somebody's own said of itself when its key had gone, "" = nothing that tells. A belief that was
// there when the key ended, and for longer afterwards than a release may be on its way, is no holder's who has just given the key back; one
// that may be about a later grant, or another key, tells nothing of this one.
func (ix *Facts) believesAfter(k *Key, e *Epoch) (what string, n int64) {
	freed := e.Lease.Freed
	gone, looker := Plus(freed.To, ix.flight(ix.policy(k.Lock).OpTimeout)), ix.Looker(k.Lock)
	if _, blind := ix.Probes[looker].Blind(history.Span{From: freed.From, To: gone}, ix.MaxGap(looker)); blind || e.Replica == "" || ix.reliedBefore(k, e) {
		return "", 0
	}
	for _, b := range ix.believers(k.Lock) {
		if !b.of(k, e.Replica) {
			continue
		}
		until := ix.regrant(k, e, b).From
		if until != Open {
			until = b.until(until)
		}
		for _, s := range b.sure {
			if s.from <= freed.From && min(s.to, until) > gone {
				return "said that it led", b.saidBy(e.shownGone())
			}
		}
	}
	return "", 0
}

// reliedBefore reports that e's holder may have relied on a grant before that of e when e's key was freed: one that was cut short, of which it
// need not have known.
func (ix *Facts) reliedBefore(k *Key, e *Epoch) bool {
	return slices.ContainsFunc(k.Epochs, func(o *Epoch) bool {
		return o.Rank < e.Rank && o.Replica == e.Replica && o.Lease.cut() && o.Lease.Expires.To > e.Lease.Freed.From
	})
}

// saidBy is the event by which b had last begun to say that it held the key, before a look showed it gone.
func (b *believer) saidBy(gone *keyState) (n int64) {
	for _, seen := range b.seen {
		if n == 0 || gone == nil || seen < gone.n {
			n = seen
		}
	}
	return n
}

// VanishedOf counts the keys of the lock that vanished: for sure, and those that may have been released.
func (ix *Facts) VanishedOf(lock string) (t Tally, evidence []int64) {
	for _, e := range ix.EpochsOf(lock) {
		v, ok := ix.vanishings[e]
		if !ok {
			continue
		}
		if t.Hi++; v.by != "" {
			t.Lo++
		}
		evidence = append(evidence, v.e.N, v.n)
	}
	return t, evidence
}

// EarlyEnds tells of the keys of a lock that ended before their leases did, and of which nothing says whether they were given back.
func (ix *Facts) EarlyEnds(lock string) (texts []string) {
	for _, e := range ix.EpochsOf(lock) {
		if v, ok := ix.vanishings[e]; ok && v.by == "" {
			texts = append(texts, fmt.Sprintf("Key %s was released or vanished by %s, with %s of its lease left, and nothing tells which: its holder, %s, is not known to have gone on.",
				e.Key, figures.Clock(e.Lease.Freed.To), v.left, cmp.Or(ix.Writer(e.Replica), "of whom nothing is known")))
		}
	}
	return texts
}

// Writer is how texts call an incarnation; "" = it has no name.
func (ix *Facts) Writer(incarnation string) string {
	if incarnation == "" {
		return ""
	}
	w := verdict.TerminalWrite{Replica: incarnation, Called: ix.Called[incarnation]}
	return w.Writer()
}

// equalFences finds effects of superseded holders that the resource accepted since the fence was the same as the present holder's.
func (ix *Facts) equalFences(k *Key) {
	var top *effect // latest-granted epoch with an accepted effect so far
	told := map[[2]*Epoch]bool{}
	for _, f := range k.Effects {
		if !f.Fresh() || f.Epoch.Rank == 0 || f.Epoch.Ghost || f.Foreign && !f.named() {
			continue
		}
		if top == nil || f.Epoch.Rank > top.Epoch.Rank {
			top = f
			continue
		}
		pair := [2]*Epoch{f.Epoch, top.Epoch}
		if f.Epoch == top.Epoch || f.Fence == 0 || f.Fence != top.Fence ||
			told[pair] || !top.before(f) || !top.Epoch.surelyAfter(f.Epoch) {
			continue
		}
		told[pair] = true
		ix.findAs(verdict.FindingEqualFence, fmt.Sprintf("key %s: the resource accepted a write of %s, which had been superseded by %s, since both carry fence %d",
			k.Name, cmp.Or(ix.Writer(f.Epoch.Replica), "a holder"), cmp.Or(ix.Writer(top.Epoch.Replica), "another"), f.Fence), f.N, top.N)
	}
}
