package facts

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// refute holds what is claimed of the key's epochs against the looks. A call that a look speaks against has no known outcome: it may
// have reached the store later, or never. One finding for each epoch and kind of call.
func (ix *Facts) refute(k *Key) {
	if len(k.Looks) == 0 || ix.OutlivesLease(k.Lock) {
		return
	}
	for i := 0; i < len(k.Looks); i++ {
		s := sighting{first: k.Looks[i], last: k.Looks[i]}
		if i > 0 {
			s.before = k.Looks[i-1]
		}
		for ; i+1 < len(k.Looks) && k.Looks[i+1].epoch == s.first.epoch; i++ {
			s.last = k.Looks[i+1]
		}
		e := k.Find(s.first.epoch)
		if s.first.epoch == "" || e == nil || ix.forgotten(e) {
			continue
		}
		ix.refuteEnds(e, s)
		ix.refuteKeeps(e, s)
	}
}

// sighting is one unbroken row of looks that show the same epoch.
type sighting struct {
	before      *keyState // what the key showed until then; nil where nobody had looked
	first, last *keyState
}

// forgotten reports that a fail-over may have brought e back, or an older end of its lease.
func (ix *Facts) forgotten(e *Epoch) bool {
	return ix.FailsOver() && slices.ContainsFunc(ix.losses, func(l history.Span) bool {
		return slices.ContainsFunc(e.Acquires, func(c *Call) bool { return l.To > c.Span.From })
	})
}

// sameStore reports that the store kept what it had from a to b.
func (ix *Facts) sameStore(a, b int64) bool {
	return !slices.ContainsFunc(ix.losses, func(l history.Span) bool { return l.To >= a && l.From <= b })
}

// refuteEnds finds what should have freed the key, or was told that it was free, while the looks go on to show e.
func (ix *Facts) refuteEnds(e *Epoch, s sighting) {
	seen := s.last.last().From
	var told *Call
	for _, c := range slices.Concat(e.Releases, e.Renewals) {
		ended := c.Outcome == history.OK && slices.Contains(e.Releases, c) || gone(c) && e.shownBy(c.Span.From)
		between := s.before != nil && s.before.last().To >= c.Span.From // it may have been free meanwhile
		if !ended || seen <= c.Span.To || between || !ix.sameStore(c.Span.From, seen) {
			continue
		}
		if told == nil {
			told = c
			what := "it gave back epoch %s"
			if gone(c) {
				what = "it was told that epoch %s is gone"
			}
			ix.findAs(verdict.FindingFeignedRelease, fmt.Sprintf("key %s: the holder says that "+what+", but the probe still saw it %s later",
				e.Key, e.ID, figures.Short(seen-c.Span.To)), c.n, s.last.n, s.last.after())
		}
		c.refute()
	}
}

// shownBy reports that e was surely granted by t, as its caller or a look says: a call that came before it shows nothing.
func (e *Epoch) shownBy(t int64) bool {
	return slices.ContainsFunc(e.Acquires, func(c *Call) bool { return c.Outcome == history.OK && c.Span.To <= t }) ||
		slices.ContainsFunc(e.Looks, func(s *keyState) bool { return s.First.To <= t })
}

// after is the look that ended the stretch, 0 where none did.
func (s *keyState) after() int64 {
	if s.next == nil {
		return 0
	}
	return s.next.n
}

func (c *Call) refute() {
	c.Outcome, c.Result, c.Refuted = history.Unknown, "", true
}

// refuteKeeps finds renewals that were claimed to have succeeded, while the lease ran down, or when e was gone for good.
func (ix *Facts) refuteKeeps(e *Epoch, s sighting) {
	kept := only(e.Renewals, func(c *Call) bool { return c.Outcome == history.OK })
	if len(kept) == 0 {
		return
	}
	slices.SortStableFunc(kept, func(a, b *Call) int { return cmp.Compare(a.Span.To, b.Span.To) })
	said := "" // a finding is made once
	var evidence []int64
	claimed := 0
	refute := func(c *Call, n int64, says string) {
		if claimed++; said == "" {
			said, evidence = says, []int64{n}
		}
		evidence = append(evidence, c.n)
		c.refute()
	}
	ttl := ix.shortestTTL(e)
	returned := 0
	for _, l := range s.remains() {
		for returned < len(kept) && kept[returned].Span.To < l.at.From {
			returned++
		}
		ends := l.at.To + l.pttl + 3*pttlRounding + ix.Cal.Expiry
		for i := returned - 1; i >= 0; i-- {
			c := kept[i]
			drift := (l.at.To - c.Span.From) / clockDrift
			if c.Refuted || c.Span.From+ttl <= ends+drift || !ix.sameStore(c.Span.From, l.at.To) {
				break
			}
			refute(c, l.n, fmt.Sprintf("the probe saw %s left of it at %s, where they leave at least %s",
				figures.Short(l.pttl), figures.Clock(l.at.From), figures.Short(c.Span.From+ttl-l.at.To)))
		}
	}
	if gone := s.last.next; gone != nil && e.shownLast() == s.last {
		for _, c := range kept {
			if !c.Refuted && c.Span.From > gone.First.To && ix.sameStore(gone.First.From, c.Span.To) && !e.askedAfter(gone.First.From) {
				refute(c, gone.n, fmt.Sprintf("the probe saw the key carry %s meanwhile", cmp.Or(gone.epoch, "nothing")))
			}
		}
	}
	if claimed > 0 {
		ix.findAs(verdict.FindingFeignedRenewal, fmt.Sprintf("key %s: the holder says that %s of epoch %s succeeded, but %s", e.Key, figures.Plural(claimed, "renewal"), e.ID, said), evidence...)
	}
}

// clockDrift is the part of a second by which the store's clock may go wrong in one.
const clockDrift = 500

// remaining is what a look showed to be left of a lease.
type remaining struct {
	at   history.Span
	pttl int64
	n    int64
}

// remains lists what the looks of a sighting say to be left, in their order.
func (s sighting) remains() []remaining {
	var out []remaining
	add := func(at history.Span, pttl, n int64) {
		if pttl > 0 {
			out = append(out, remaining{at, pttl, n})
		}
	}
	for l := s.first; ; l = l.next {
		add(l.First, l.pttl, l.n)
		if l.again.From != never {
			add(l.again, l.againLeft, l.n)
		}
		if l.next != nil {
			add(l.next.prev, l.next.prevLeft, l.next.n)
		}
		if l == s.last {
			return out
		}
	}
}

// shortestTTL is the least that any call of e asked for.
func (ix *Facts) shortestTTL(e *Epoch) int64 {
	least := int64(math.MaxInt64)
	for _, c := range slices.Concat(e.Acquires, e.Renewals) {
		least = min(least, cmp.Or(c.ttl, int64(ix.policy(e.Lock).TTL)))
	}
	return least
}

// askedAfter reports that e was, or may have been, acquired again after t.
func (e *Epoch) askedAfter(t int64) bool {
	return slices.ContainsFunc(e.Acquires, func(c *Call) bool { return c.Outcome != history.Fail && c.Span.To > t })
}
