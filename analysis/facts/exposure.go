package facts

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// What a fault does to whom: the class of its trials, where it lives, and which epochs it hits.

// Class is the series that the shot's takeovers belong to; "" where it keeps nobody from a lease, so that there are none.
func (s *Shot) Class() string { return s.Does.Class }

// cutsOff reports a fault that may cost a holder its lease, so that others take over.
func (s *Shot) cutsOff() bool { return s.Class() != "" }

// failures reports a burst of failing operations.
func (s *Shot) failures() bool { return s.Does.Fails != "" }

// strikes reports that the shot was meant for the incarnation, or for its way to the store.
func (s *Shot) strikes(incarnation string) bool {
	return slices.ContainsFunc(s.victims, func(v string) bool {
		return v == incarnation || s.Does.OnTheWay && history.ReplicaOf(v) == history.ReplicaOf(incarnation)
	})
}

// settle finds what the shot exposed and makes its trials.
func (s *Shot) settle(ix *Facts) {
	for _, v := range s.victims {
		if p, ok := s.pauseOf(ix, v); ok {
			ix.Pauses[v] = append(ix.Pauses[v], p)
		}
	}
	if !s.Effective() {
		s.idle = ix.idleAt(s)
		s.WhyVoid = s.ReasonVoid()
		return
	}
	for _, h := range s.hits {
		if k := ix.Keys[h.Key]; k != nil {
			s.Locks[k.Lock] = true
		}
	}
	for _, e := range s.MayHit(ix) {
		if e.Rank > 0 && s.found(ix, e) {
			s.Exposed = append(s.Exposed, e)
		}
		if s.struck(ix, e) {
			s.Locks[e.Lock] = true
			s.Contended[e.Lock] = s.Contended[e.Lock] || ix.wanted(s, e)
		}
	}
	for i := range ix.Exp.System.Effects {
		if x := &ix.Exp.System.Effects[i]; x.Lock == "" && !s.Does.Elsewhere && s.meetsJob(ix, x.Name) {
			s.Locks[x.Name] = true
		}
	}
	slices.SortStableFunc(s.Exposed, func(a, b *Epoch) int {
		return cmp.Or(cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Key, b.Key))
	})
	for _, e := range s.Exposed {
		switch {
		case !s.cutsOff():
		case ix.nothingOwed(s, e):
			s.NothingOwed++
		default:
			t := ix.newTrial(s, e)
			ix.wrongVictim(t)
			ix.lateTrial(ix.Keys[e.Key], t)
			s.Trials = append(s.Trials, t)
		}
	}
	if !s.Valid() {
		s.WhyVoid = s.ReasonVoid()
	}
}

// found reports that e surely owned its key throughout the bracket in which the fault was applied; or until it, where the fault itself
// took the key away.
func (s *Shot) found(ix *Facts, e *Epoch) bool {
	l := &e.Lease
	switch {
	case e.Granted.To > s.Applied.From, !s.Does.Kills && l.lastSeen < s.Applied.To && ix.doneBefore(s, e):
		return false
	case l.Freed.From >= s.Applied.To:
	case s.death() != nil && s.handedOver(e) && l.Freed.From >= s.Applied.From: // told to end, it gave the key back before the call had returned
	case s.Class() == verdict.ClassCrash && !ix.Exp.Leases() && l.Freed.From >= s.Applied.From: // its session went with it
	case !s.takes(e):
		return false
	default:
		kept := l.gave == nil || l.gave.Sent.From >= s.Applied.To
		if !kept || l.Expires.From < s.Applied.To || l.Freed.To < s.Applied.From {
			return false
		}
	}
	return !ix.goneBefore(s, e)
}

// doneBefore reports that a job of e, for which nobody claims, may have come to its end before the fault, also in a record that could not
// be read: who is done gives its lock back without a word. So does a loop that keeps its lock for a tick, and who does not know that it was
// granted it: no effect shows it at work. Who may have ceased before to say that it holds the key may have given it back, done or not.
func (ix *Facts) doneBefore(s *Shot, e *Epoch) bool {
	k := ix.Keys[e.Key]
	switch loop := ix.policy(e.Lock).Loop; {
	case !ix.Exp.Observed():
		return false
	case ix.Ledgered[e.Lock] && len(e.Effects) == 0:
		return true
	case k.Loop:
		return loop != nil && loop.Mode == lockcore.LoopExplicit
	case ix.ceasedBefore(k, e, s.Applied.To):
		return true
	}
	return ix.Unread[ix.LedgerOf(e.Lock)] > 0 || slices.ContainsFunc(k.Jobs, func(j *job) bool {
		return slices.ContainsFunc(j.Terminals, func(f *effect) bool { return f.Span.From <= s.Applied.To })
	})
}

// takes reports a fault that may take the key from under e.
func (s *Shot) takes(e *Epoch) bool {
	return s.Class() == verdict.ClassStore || s.Class() == verdict.ClassTheft && s.Key == e.Key
}

// goneBefore reports that e's key may have been taken away before s struck: by another fault, after which nobody saw e own it, or, since
// a standby may bring it back again, as a look at the key showed.
func (ix *Facts) goneBefore(s *Shot, e *Epoch) bool {
	taken := func(o *Shot) bool {
		if o == s || o.Applied == nil || !o.takes(e) || o.Applied.From > s.Applied.From || o.Applied.To < e.Granted.From {
			return false
		}
		if o.Does.FailsOver { // the standby may know of an older end
			return !slices.ContainsFunc(e.Renewals, func(c *Call) bool { return c.Outcome == history.OK && c.Span.From > o.Applied.To })
		}
		return e.Lease.lastSeen <= o.Applied.To
	}
	seen := func(l *keyState) bool {
		return l.epoch != e.ID && l.First.From >= e.Granted.To && l.First.To <= s.Applied.From
	}
	gave := func(c *Call) bool { return c.Outcome != history.Fail && c.Sent.From < s.Applied.To }
	if ix.cameBack(e) && slices.ContainsFunc(e.Releases, gave) {
		return true
	}
	return slices.ContainsFunc(ix.Shots, taken) || slices.ContainsFunc(ix.Keys[e.Key].Looks, seen) || ix.replacedBefore(s, e)
}

// replacedBefore reports that somebody else, by the effect's own word, may have written under e's key before s struck, since e was last seen
// to have it: of a system that is not ours nobody says that it gave its lock back.
func (ix *Facts) replacedBefore(s *Shot, e *Epoch) bool {
	return slices.ContainsFunc(ix.Keys[e.Key].Effects, func(f *effect) bool {
		return f.Foreign && (f.token != "" || f.Writer != "") && !f.mayBeOf(e) && f.Span.From <= s.Applied.To && f.Span.To >= e.Lease.lastSeen
	})
}

// struck reports that e, which may have been hit, surely was: an operation of it, or while it surely owned its key and the fault
// was in effect (docs/decisions/trials.md).
func (s *Shot) struck(ix *Facts, e *Epoch) bool {
	during := e.Granted.To <= s.Over.From && e.Lease.Freed.From >= s.Applied.To
	return s.failures() || e.Rank > 0 && (during || s.found(ix, e))
}

// hitEpochs is MayHit by key.
func (s *Shot) hitEpochs(ix *Facts) map[string][]*Epoch {
	if s.hit == nil {
		s.hit = map[string][]*Epoch{}
		for _, e := range s.MayHit(ix) {
			s.hit[e.Key] = append(s.hit[e.Key], e)
		}
	}
	return s.hit
}

// MayHit lists the epochs that the fault may have hit, whenever they were granted: of a burst those of which an operation failed, of
// a deleted key the one that had it, of a fault of the store all, of any other those of the replicas that it struck.
func (s *Shot) MayHit(ix *Facts) []*Epoch {
	var es []*Epoch
	seen := map[*Epoch]bool{}
	add := func(e *Epoch) {
		if e != nil && !seen[e] && !e.Stranger {
			seen[e] = true
			es = append(es, e)
		}
	}
	named := func(key, epoch string, when history.Span) {
		if k := ix.Keys[key]; k != nil {
			add(k.at(epoch, when))
		}
	}
	for _, incarnation := range slices.Sorted(maps.Keys(ix.Epochs)) {
		for _, e := range ix.Epochs[incarnation] {
			switch {
			case s.failures() && !s.failed(e), s.Does.AtKey:
			case s.failures(), s.Does.AtStore, s.strikes(incarnation):
				add(e)
			}
		}
	}
	switch {
	case s.failures():
		for _, h := range s.hits {
			named(h.Key, h.Epoch, h.Span)
		}
	case s.Does.AtStore: // those of which nobody claims to be the holder as well
		for _, e := range ix.allEpochs() {
			add(e)
		}
	case ix.Keys[s.Key] != nil:
		add(s.meant(ix.Keys[s.Key]))
	}
	return es
}

// failed reports that an operation of e says that the shot made it fail.
func (s *Shot) failed(e *Epoch) bool {
	for c := range e.calls() {
		if c.fault == s.Op {
			return true
		}
	}
	return false
}

// firstHit is the first renewal of e that the shot hit, as e's holder tells or as it was seen on the way; nil where none was. One that
// was only held back may yet have succeeded.
func (s *Shot) firstHit(e *Epoch) *history.Span {
	if s.Does.Fails != lockcore.OpRenew {
		return nil
	}
	var first *history.Span
	note := func(at *history.Span) {
		if first == nil || at.To < first.To {
			first = at
		}
	}
	for _, c := range e.Renewals {
		if c.fault == s.Op {
			note(&c.Span)
		}
	}
	for _, h := range s.hits {
		if h.Key == e.Key && h.Epoch == e.ID && h.To >= e.Granted.From {
			note(&h.Span)
		}
	}
	return first
}

// cutOff is the last confirmed fault that kept e's renewals from the store before it was given up; nil where none did.
func (ix *Facts) cutOff(e *Epoch) *Shot {
	var last *Shot
	for _, s := range ix.Shots {
		if s.Applied != nil && s.Applied.From <= e.Abandoned.To && s.Voided == nil && !s.Does.Kills && s.kept(e) {
			last = s
		}
	}
	return last
}

// kept reports that the shot kept e's renewals from the store: it lay over the lease, and none was answered while it lasted.
func (s *Shot) kept(e *Epoch) bool {
	over := s.Applied.From < e.Lease.Expires.To && s.Over.To > e.Granted.From
	switch {
	case s.failures():
		return s.firstHit(e) != nil
	case s.Does.Stands >= 1:
		return over && s.strikes(e.Replica)
	case s.Does.AtStore && !s.Does.AtOnce, (s.Does.OnTheWay || s.Does.Stands > 0) && s.strikes(e.Replica):
		answered := func(c *Call) bool {
			return c.Outcome == history.OK && c.Span.From >= s.Applied.To && c.Span.To <= s.Over.From
		}
		return over && !slices.ContainsFunc(e.Renewals, answered)
	}
	return false
}

// markStrangers finds the epochs that faults of ours put into k: nobody asked for them, and nobody holds them.
func (ix *Facts) markStrangers(k *Key) {
	for _, s := range ix.Shots {
		if !s.Does.Plants || s.Applied == nil || s.Key != k.Name {
			continue
		}
		for _, e := range k.Epochs {
			planted := e.Granted.From <= s.Applied.To && e.Granted.To >= s.Applied.From
			if planted && e.ID != s.Epoch && e.Replica == "" && len(e.Effects) == 0 {
				e.Stranger = true
			}
		}
	}
}
