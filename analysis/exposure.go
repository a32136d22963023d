package analysis

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// What a fault does to whom: the class of its trials, where it lives, and which epochs it hits.

// class is the series that the shot's takeovers belong to; "" where it keeps nobody from a lease, so that there are none.
func (s *shot) class() string { return s.does.Class }

// cutsOff reports a fault that may cost a holder its lease, so that others take over.
func (s *shot) cutsOff() bool { return s.class() != "" }

// failures reports a burst of failing operations.
func (s *shot) failures() bool { return s.does.Fails != "" }

// strikes reports that the shot was meant for the incarnation, or for its way to the store.
func (s *shot) strikes(incarnation string) bool {
	return slices.ContainsFunc(s.victims, func(v string) bool {
		return v == incarnation || s.does.OnTheWay && history.ReplicaOf(v) == history.ReplicaOf(incarnation)
	})
}

// settle finds what the shot exposed and makes its trials.
func (s *shot) settle(ix *Facts) {
	for _, v := range s.victims {
		if p, ok := s.pauseOf(ix, v); ok {
			ix.pauses[v] = append(ix.pauses[v], p)
		}
	}
	if !s.effective() {
		s.idle = ix.idleAt(s)
		s.whyVoid = s.reasonVoid()
		return
	}
	for _, h := range s.hits {
		if k := ix.keys[h.Key]; k != nil {
			s.locks[k.lock] = true
		}
	}
	for _, e := range s.mayHit(ix) {
		if e.rank > 0 && s.found(ix, e) {
			s.exposed = append(s.exposed, e)
		}
		if s.struck(ix, e) {
			s.locks[e.lock] = true
			s.contended[e.lock] = s.contended[e.lock] || ix.wanted(s, e)
		}
	}
	slices.SortStableFunc(s.exposed, func(a, b *epoch) int {
		return cmp.Or(cmp.Compare(a.lock, b.lock), cmp.Compare(a.key, b.key))
	})
	for _, e := range s.exposed {
		switch {
		case !s.cutsOff():
		case ix.nothingOwed(s, e):
			s.nothingOwed++
		default:
			t := ix.newTrial(s, e)
			ix.wrongVictim(t)
			ix.lateTrial(ix.keys[e.key], t)
			s.trials = append(s.trials, t)
		}
	}
	if !s.valid() {
		s.whyVoid = s.reasonVoid()
	}
}

// found reports that e surely owned its key throughout the bracket in which the fault was applied; or until it, where the fault itself
// took the key away.
func (s *shot) found(ix *Facts, e *epoch) bool {
	l := &e.life
	switch {
	case e.granted.To > s.applied.From:
		return false
	case l.end.From >= s.applied.To:
	case s.death() != nil && s.handedOver(e) && l.end.From >= s.applied.From: // told to end, it gave the key back before the call had returned
	case s.class() == verdict.ClassCrash && !ix.exp.Leases() && l.end.From >= s.applied.From: // its session went with it
	case !s.takes(e):
		return false
	default:
		kept := l.gave == nil || l.gave.sent.From >= s.applied.To
		if !kept || l.due.From < s.applied.To || l.end.To < s.applied.From {
			return false
		}
	}
	return !ix.goneBefore(s, e)
}

// takes reports a fault that may take the key from under e.
func (s *shot) takes(e *epoch) bool {
	return s.class() == verdict.ClassStore || s.class() == verdict.ClassTheft && s.key == e.key
}

// goneBefore reports that e's key may have been taken away before s struck: by another fault, after which nobody saw e own it, or, since
// a standby may bring it back again, as a look at the key showed.
func (ix *Facts) goneBefore(s *shot, e *epoch) bool {
	taken := func(o *shot) bool {
		if o == s || o.applied == nil || !o.takes(e) || o.applied.From > s.applied.From || o.applied.To < e.granted.From {
			return false
		}
		if o.does.FailsOver { // the standby may know of an older end
			return !slices.ContainsFunc(e.renewals, func(c *call) bool { return c.outcome == history.OK && c.span.From > o.applied.To })
		}
		return e.life.alive <= o.applied.To
	}
	seen := func(l *stretch) bool {
		return l.epoch != e.id && l.first.From >= e.granted.To && l.first.To <= s.applied.From
	}
	gave := func(c *call) bool { return c.outcome != history.Fail && c.sent.From < s.applied.To }
	if ix.cameBack(e) && slices.ContainsFunc(e.releases, gave) {
		return true
	}
	return slices.ContainsFunc(ix.shots, taken) || slices.ContainsFunc(ix.keys[e.key].looks, seen)
}

// struck reports that e, which may have been hit, surely was: an operation of it, or while it surely owned its key and the fault
// was in effect (docs/decisions/0007).
func (s *shot) struck(ix *Facts, e *epoch) bool {
	during := e.granted.To <= s.over.From && e.life.end.From >= s.applied.To
	return s.failures() || e.rank > 0 && (during || s.found(ix, e))
}

// hitEpochs is mayHit by key.
func (s *shot) hitEpochs(ix *Facts) map[string][]*epoch {
	if s.hit == nil {
		s.hit = map[string][]*epoch{}
		for _, e := range s.mayHit(ix) {
			s.hit[e.key] = append(s.hit[e.key], e)
		}
	}
	return s.hit
}

// mayHit lists the epochs that the fault may have hit, whenever they were granted: of a burst those of which an operation failed, of
// a deleted key the one that had it, of a fault of the store all, of any other those of the replicas that it struck.
func (s *shot) mayHit(ix *Facts) []*epoch {
	var es []*epoch
	seen := map[*epoch]bool{}
	add := func(e *epoch) {
		if e != nil && !seen[e] && !e.stranger {
			seen[e] = true
			es = append(es, e)
		}
	}
	named := func(key, epoch string) {
		if k := ix.keys[key]; k != nil {
			add(k.find(epoch))
		}
	}
	for _, incarnation := range slices.Sorted(maps.Keys(ix.replicas)) {
		for _, e := range ix.replicas[incarnation] {
			switch {
			case s.failures() && !s.failed(e), s.does.AtKey:
			case s.failures(), s.does.AtStore, s.strikes(incarnation):
				add(e)
			}
		}
	}
	switch {
	case s.failures():
		for _, h := range s.hits {
			named(h.Key, h.Epoch)
		}
	case s.does.AtStore: // those of which nobody claims to be the holder as well
		for _, e := range ix.allEpochs() {
			add(e)
		}
	default:
		named(s.key, s.epoch)
	}
	return es
}

// failed reports that an operation of e says that the shot made it fail.
func (s *shot) failed(e *epoch) bool {
	for c := range e.calls() {
		if c.fault == s.op {
			return true
		}
	}
	return false
}

// firstHit is the first renewal of e that the shot hit, as e's holder tells or as it was seen on the way; nil where none was. One that
// was only held back may yet have succeeded.
func (s *shot) firstHit(e *epoch) *history.Span {
	if s.does.Fails != lockcore.OpRenew {
		return nil
	}
	var first *history.Span
	note := func(at *history.Span) {
		if first == nil || at.To < first.To {
			first = at
		}
	}
	for _, c := range e.renewals {
		if c.fault == s.op {
			note(&c.span)
		}
	}
	for _, h := range s.hits {
		if h.Key == e.key && h.Epoch == e.id {
			note(&h.Span)
		}
	}
	return first
}

// cutOff is the last confirmed fault that kept e's renewals from the store before it was given up; nil where none did.
func (ix *Facts) cutOff(e *epoch) *shot {
	var last *shot
	for _, s := range ix.shots {
		if s.applied != nil && s.applied.From <= e.abandoned.To && s.void == nil && !s.does.Kills && s.kept(e) {
			last = s
		}
	}
	return last
}

// kept reports that the shot kept e's renewals from the store: it lay over the lease, and none was answered while it lasted.
func (s *shot) kept(e *epoch) bool {
	over := s.applied.From < e.life.due.To && s.over.To > e.granted.From
	switch {
	case s.failures():
		return s.firstHit(e) != nil
	case s.does.Stands >= 1:
		return over && s.strikes(e.replica)
	case s.does.AtStore && !s.does.AtOnce, (s.does.OnTheWay || s.does.Stands > 0) && s.strikes(e.replica):
		answered := func(c *call) bool {
			return c.outcome == history.OK && c.span.From >= s.applied.To && c.span.To <= s.over.From
		}
		return over && !slices.ContainsFunc(e.renewals, answered)
	}
	return false
}

// markStrangers finds the epochs that faults of ours put into keys: nobody asked for them, and nobody holds them.
func (ix *Facts) markStrangers() {
	for _, s := range ix.shots {
		k := ix.keys[s.key]
		if !s.does.Plants || s.applied == nil || k == nil {
			continue
		}
		for _, e := range k.epochs {
			planted := e.granted.From <= s.applied.To && e.granted.To >= s.applied.From
			if planted && e.id != s.epoch && e.replica == "" && len(e.effects) == 0 {
				e.stranger = true
			}
		}
	}
}

// Who wanted a key when a fault struck its holder is known at the shot, or not at all: what is seen only afterwards makes no trial void,
// since followers that never ask again would else be taken for followers that nobody needs.

// finished reports that the job surely had its terminal state when s struck e. What a killed victim wrote, it wrote before it died;
// anybody else's write must surely have come before.
func (j *job) finished(s *shot, e *epoch) bool {
	return slices.ContainsFunc(j.terminals, func(f *effect) bool {
		own := f.epoch == e || f.epoch.replica != "" && f.epoch.replica == e.replica
		return s.does.Kills && own || f.span.To <= s.applied.To
	})
}

// idleAt reports a shot that found nobody to hold its lock, since all jobs of the lock had ended.
func (ix *Facts) idleAt(s *shot) bool {
	if s.void == nil || s.void.Fault.Why != history.NoTarget {
		return false
	}
	end, over := ix.jobsEnd(ix.aimOf(s.id))
	return over && end <= s.void.From
}

// aimOf is the lock at whose holder the file aims the fault; "" = none.
func (ix *Facts) aimOf(fault string) string {
	for i := range ix.exp.Faults {
		if f := &ix.exp.Faults[i]; f.ID == fault {
			return f.Lock()
		}
	}
	return ""
}

// jobsEnd is when the last job of the lock had ended; over is false where one did not, or there were none.
func (ix *Facts) jobsEnd(lock string) (end int64, over bool) {
	for _, j := range ix.jobOrder {
		if j.lock != lock {
			continue
		}
		if len(j.terminals) == 0 {
			return 0, false
		}
		end, over = max(end, j.terminals[0].span.To), true
	}
	return end, over
}

// nothingOwed reports that every job under e's key was finished when the fault struck.
func (ix *Facts) nothingOwed(s *shot, e *epoch) bool {
	k := ix.keys[e.key]
	return !k.loop && len(k.jobs) > 0 && !slices.ContainsFunc(k.jobs, func(j *job) bool { return !j.finished(s, e) })
}

// demand is the first attempt of another incarnation that the fault could have kept waiting.
func (ix *Facts) demand(k *keyIndex, s *shot, e *epoch) (history.Span, bool) {
	for _, c := range k.attempts {
		if c.source != s.victim && c.source != e.replica && c.span.To >= s.applied.From {
			return c.sent, true
		}
	}
	return history.Span{}, false
}

// standing reports demand that needs no attempt to be seen: a live candidate of the loop, or a job under the key that surely was not
// finished yet.
func (ix *Facts) standing(k *keyIndex, s *shot, e *epoch) bool {
	if !k.loop {
		return slices.ContainsFunc(k.jobs, func(j *job) bool {
			early := func(f *effect) bool { return f.span.From <= s.applied.To }
			return j.offered.From <= s.applied.To && !j.finished(s, e) && !slices.ContainsFunc(j.terminals, early)
		})
	}
	for who, ready := range ix.ready {
		struck := who == e.replica || s.does.Kills && s.strikes(who)
		if d, dead := ix.deaths[who]; !struck && ready <= s.applied.From && !(dead && d.From <= s.applied.To) {
			return true
		}
	}
	return false
}

// owedUntil is from when on nobody had a reason to take the key any more, since all its jobs were finished, by whomever; open while
// one was not, and for loops.
func (k *keyIndex) owedUntil() int64 {
	if k.loop || len(k.jobs) == 0 {
		return open
	}
	until := int64(never)
	for _, j := range k.jobs {
		if len(j.terminals) == 0 {
			return open
		}
		until = max(until, j.terminals[0].span.From)
	}
	return until
}
