package facts

import (
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// Consequence is what one confirmed shot brought about at one lock: the part of the facts that a row of `expect` is about.
type Consequence struct {
	Shot *Shot
	Lock string
}

// BroughtAbout are the facts of one lock that may be due to the shot: of the keys that it struck, from when it was applied until the next
// one strikes them.
func (ix *Facts) BroughtAbout(c Consequence) *Facts {
	part := *ix
	part.Only, part.Findings, part.jobOrder = &c, nil, nil
	part.byLock = map[string][]*Key{}
	part.within = &history.Span{From: c.Shot.Applied.From, To: c.Shot.Applied.From}
	struck := ix.struckKeys(c.Shot)
	for _, k := range ix.KeysOf(c.Lock) {
		if !struck[k.Name] {
			continue
		}
		w := history.Span{From: c.Shot.Applied.From, To: Open}
		for _, o := range ix.Shots {
			if o.Effective() && o.Applied.From > w.From && ix.struckKeys(o)[k.Name] {
				w.To = min(w.To, o.Applied.From)
			}
		}
		part.within.To = max(part.within.To, w.To)
		part.byLock[c.Lock] = append(part.byLock[c.Lock], k.during(w))
		part.jobOrder = append(part.jobOrder, k.Jobs...)
	}
	return &part
}

// LeavesOut reports a shot that these facts are not about.
func (ix *Facts) LeavesOut(s *Shot) bool { return ix.Only != nil && ix.Only.Shot != s }

// struckKeys are the keys of which the shot struck an epoch, or an operation.
func (ix *Facts) struckKeys(s *Shot) map[string]bool {
	if s.struckKeys == nil {
		s.struckKeys = map[string]bool{}
		for _, h := range s.hits {
			s.struckKeys[h.Key] = true
		}
		for _, e := range s.MayHit(ix) {
			if s.struck(ix, e) {
				s.struckKeys[e.Key] = true
			}
		}
	}
	return s.struckKeys
}

// during is what happened at the key in w.
func (k *Key) during(w history.Span) *Key {
	out := *k
	in := func(from, to int64) bool { return to >= w.From && from <= w.To }
	out.Epochs = only(k.Epochs, func(e *Epoch) bool { return in(e.Granted.From, max(e.Lease.Freed.To, e.stop().To)) })
	out.Attempts = only(k.Attempts, func(c *Call) bool { return in(c.Sent.From, c.Span.To) })
	out.waits = only(k.waits, func(x *wait) bool { return in(x.begin.From, x.end.To) })
	out.Effects = only(k.Effects, func(f *effect) bool { return in(f.Span.From, f.Span.To) })
	out.Regressions = only(k.Regressions, func(r regression) bool { return slices.Contains(out.Epochs, r.Late) })
	return &out
}
