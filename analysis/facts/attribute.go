package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Effects of a system that is not ours say little of themselves: an operation id, a fence, a token and a writer are there where its source
// has them. What is not there is not made up: an effect belongs to an epoch by the strongest of what is known, or to none.

// readForeign takes in an entry of such a system.
func (ix *Facts) readForeign(k *Key, ev *history.Event) {
	f := &effect{Entry: *ev.Entry, N: ev.N, Fence: ev.Fence, claim: &claim{}, key: k, seen: ev.Span, Span: ev.Span, op: ev.Op, token: ev.Epoch}
	if f.Due != nil { // the event shares its memory with the next one
		due := *f.Due
		f.Due = &due
	}
	source := ix.Exp.EffectsOf(k.Lock)
	f.begins = f.Loop || source != nil && source.Map.Begins(f.State)
	f.Epoch = &Epoch{Lock: k.Lock, Key: k.Name} // nobody's, until it is known whose
	ix.effects = append(ix.effects, f)
	ix.Ledgered[k.Lock] = ix.Ledgered[k.Lock] || f.begins
}

// placeForeign puts the entries in the order in which they may have come about, and hands them to keys and jobs. An operation that comes
// again, in the same state of the same job, is a replay.
func (ix *Facts) placeForeign() {
	slices.SortStableFunc(ix.effects, func(a, b *effect) int { return cmp.Compare(a.Pos, b.Pos) })
	for _, f := range ix.effects {
		f.byToken()
	}
	last := map[string]int64{} // by lock: each has one source
	var unseen several
	for _, f := range ix.effects {
		switch at := last[f.key.Lock]; {
		case f.Pos == at:
			ix.contradict(f.where()+"appears twice", f.N)
		case f.Pos != at+1:
			unseen.add("entries of the effects of lock " + f.key.Lock + " are missing from the history")
		}
		last[f.key.Lock] = f.Pos
		f.afterGrant()
	}
	ix.LostLedger = append(ix.LostLedger, unseen.Text()...)
	slices.SortStableFunc(ix.effects, func(a, b *effect) int { return cmp.Or(cmp.Compare(a.Span.To, b.Span.To), cmp.Compare(a.Pos, b.Pos)) })
	ops := map[[4]string]bool{}
	for _, f := range ix.effects {
		op := [4]string{f.key.Lock, f.Subject, f.State, f.op}
		if f.op != "" && ops[op] {
			f.Reason = history.ReasonReplay
		}
		ops[op] = true
		f.key.Effects = append(f.key.Effects, f)
		if f.Epoch.Fence == 0 && f.by != "" {
			f.Epoch.Fence = f.Fence
		}
		ix.fileEffect(f)
	}
}

// byToken gives an effect that says its token to the epoch of that name. Which grant it is of a value that was granted several times, its
// time says (attribute).
func (f *effect) byToken() {
	if f.token == "" {
		return
	}
	e := f.key.epoch(f.token)
	if e.nth > 0 {
		return
	}
	f.Epoch, f.by = e, verdict.ByToken
	e.Effects = append(e.Effects, f)
	e.Replica = cmp.Or(e.Replica, f.Writer)
}

// afterGrant narrows the bracket of an effect that says its token: it was written after the token was granted, so after the last look that
// did not show it yet. Of a log's line nothing else says that it is no older than the stream by which it came.
func (f *effect) afterGrant() {
	if f.by != verdict.ByToken || len(f.Epoch.Looks) == 0 {
		return
	}
	if before := f.Epoch.Looks[0].prev; before.From != never && before.From <= f.Span.To {
		f.Span.From = max(f.Span.From, before.From)
	}
}

// before reports that f surely came about before o.
func (f *effect) before(o *effect) bool {
	switch {
	case !f.Unordered && !o.Unordered:
		return f.Pos < o.Pos
	case f.Read > 0 && o.Read > 0:
		return f.Read < o.Read
	}
	return f.Span.Before(o.Span)
}

// hiddenGrant is the bracket of the grant of an epoch that effects name and no look showed: in the state of the key in which the first of
// them came, or before that, where another surely held the key meanwhile.
func (k *Key) hiddenGrant(e *Epoch) history.Span {
	first := slices.MinFunc(e.Effects, func(a, b *effect) int { return cmp.Compare(a.Span.To, b.Span.To) }).Span
	g := history.Span{To: first.To}
	for _, s := range k.Looks {
		last := s // that shows the same, its lease extended
		for last.next != nil && last.next.epoch == s.epoch {
			last = last.next
		}
		switch {
		case s.First.From > first.From:
			return g
		case s.epoch != "" && s.First.To <= first.From && last.last().From >= first.To:
			return history.Span{To: s.First.To}
		}
		g.From = s.First.From
	}
	return g
}

// mayHold reports that e may have held its key at some instant of s.
func (e *Epoch) mayHold(s history.Span) bool {
	return e.Granted.From <= s.To && e.Lease.Freed.To >= s.From
}

// attribute finds the epochs of effects under k that do not say a token: by a fence that another effect shares, by their writer, or by who
// held the key then.
func (ix *Facts) attribute(k *Key) {
	fences := map[int64]*Epoch{} // nil: of several
	for _, f := range k.Effects {
		if !f.Foreign {
			return
		}
		if f.by == "" {
			f.by = ix.whose(k, f, fences)
			if f.by != "" {
				f.Epoch.Effects = append(f.Epoch.Effects, f)
			}
		}
		if f.Fence != 0 && f.by != "" {
			if of, known := fences[f.Fence]; known && of != f.Epoch {
				fences[f.Fence] = nil
			} else {
				fences[f.Fence] = f.Epoch
			}
		}
	}
}

// whose sets the epoch of f, and says by what it is known; "" = it is not.
func (ix *Facts) whose(k *Key, f *effect, fences map[int64]*Epoch) verdict.Attribution {
	if e := fences[f.Fence]; f.Fence != 0 && e != nil {
		f.Epoch = e
		return verdict.ByFence
	}
	by := f.tells()
	var holders []*Epoch
	var past *Epoch // the last of the writer's that began before
	for _, e := range k.Epochs {
		if e.Ghost || e.Stranger || !f.mayBeOf(e) {
			continue
		}
		if e.mayHold(f.Span) {
			holders = append(holders, e)
		} else if e.Granted.To <= f.Span.To {
			past = e
		}
	}
	switch {
	case len(holders) == 1:
		f.Epoch = holders[0]
		f.unsure = past != nil && ix.goesOn(f, past)
		return by
	case len(holders) > 1:
		f.unsure = true
	case by != verdict.ByHolder && past != nil: // it wrote without its lock, or under a grant that came and went between two looks
		f.Epoch, f.unsure = past, !k.nothingHides(f.Span) || ix.foundHidden(k, f, past)
		return by
	}
	return ""
}

// foundHidden reports that a shot of ours, since past and before f, found the writer of f to hold the key under a value that no look showed: f may
// be of that grant.
func (ix *Facts) foundHidden(k *Key, f *effect, past *Epoch) bool {
	return slices.ContainsFunc(ix.Shots, func(s *Shot) bool {
		return s.Key == k.Name && s.Epoch != "" && s.Applied != nil && s.Applied.From >= past.Granted.To && s.Applied.From <= f.Span.To && s.meant(k) == nil &&
			history.ReplicaOf(s.Victim) == history.ReplicaOf(f.Writer)
	})
}

// goesOn reports that f, which is of an epoch that was granted about then, may also be what its writer still did under past, which had been
// taken from it or had run out: it tells of no beginning, and whoever has not noticed a loss goes on.
func (ix *Facts) goesOn(f *effect, past *Epoch) bool {
	source, l := ix.Exp.EffectsOf(past.Lock), &past.Lease
	return (l.cut() || l.Freed.To >= l.Expires.From) && f.Writer != "" && f.Span.From < f.Epoch.Granted.To && source != nil && !slices.Contains(source.Map.Begin, f.State)
}

// tells is by what f can be known to be of an epoch.
func (f *effect) tells() verdict.Attribution {
	switch {
	case f.token != "":
		return verdict.ByToken
	case f.Writer != "":
		return verdict.ByReplica
	}
	return verdict.ByHolder
}

// mayBeOf reports that what f says of its epoch fits e.
func (f *effect) mayBeOf(e *Epoch) bool {
	if f.token != "" {
		return e.ID == f.token
	}
	return f.Writer == "" || history.ReplicaOf(e.Replica) == history.ReplicaOf(f.Writer)
}

// named reports that the effect itself says whose it is, and not only the key.
func (f *effect) named() bool { return f.by != "" && f.by != verdict.ByHolder && !f.unsure }

// foreignEnd is x of a trial in a system that is not ours: the first effect of a later epoch. One that ends its job came after the work
// began, so x lies between the grant and it; one that nobody can be told to have written may have been it. Where none is known to be a
// later epoch's, it is the next grant.
func (ix *Facts) foreignEnd(k *Key, t *Trial) (x history.Span, n int64) {
	x = history.Span{From: Open, To: Open}
	doubt, freed := int64(Open), ix.freedUnseen(t.E).From
	for _, f := range k.Effects {
		switch {
		case !f.Fresh() || f.Epoch.Ghost:
		case f.Span.To < t.from.From && (f.by == "" || f.unsure):
		case f.by == "" || f.unsure:
			doubt = min(doubt, max(f.Span.From, t.from.From))
		case f.Epoch == t.E && f.by != verdict.ByToken && f.Span.To >= max(t.from.From, freed): // or of the same one's next grant
			doubt = min(doubt, max(f.Span.From, t.from.From, freed))
		case f.by != "" && f.Epoch.Rank > t.E.Rank:
			at := f.Span
			if !f.begins && f.Epoch.begun(at.To) { // what began it tells more
				continue
			}
			if !f.begins {
				at.From = min(at.From, f.Epoch.Granted.From)
			}
			if at.To < x.To {
				x.To, n, t.After, t.by, t.trace = at.To, f.N, f.Epoch, f.by, f.Trace
			}
			x.From = min(x.From, at.From)
		}
	}
	switch {
	case x.To != Open:
		x.From = min(x.From, doubt)
		t.End = endEffect
		return x, n
	case doubt != Open && t.Next != nil:
		t.End, t.After, x = endGrant, t.Next, t.grant
		if doubt < x.From { // or of a grant before it that no look showed
			x.From = max(t.from.From, min(x.From, t.E.Lease.Freed.From))
		}
		return x, t.Next.N
	}
	t.End = endEffect
	return history.Span{From: doubt, To: Open}, 0
}

// begun reports an effect of e by then that shows its holder at work.
func (e *Epoch) begun(by int64) bool {
	return slices.ContainsFunc(e.Effects, func(f *effect) bool { return f.begins && f.Fresh() && f.Span.To <= by })
}

// foreignStranded counts jobs of a system that is not ours that were there before the last fault was over, and are open: nobody says how
// many will come. One whose key is held at the end is being worked at; one of which only its key was seen may have ended before the run.
func (ix *Facts) foreignStranded(lock string) (t Tally, evidence []int64, known bool) {
	final, known := ix.FinalAt()
	horizon, _ := ix.Horizon(lock)
	over := horizon - int64(forecast.Horizon(ix.Exp, lock))
	told := map[*Key]bool{}
	for _, j := range ix.jobOrder {
		k := ix.Keys[j.key]
		told[k] = true
		if j.lock != lock || len(j.Terminals) > 0 || j.offered.From > over || j.due.From > horizon {
			continue
		}
		t.Hi++
		owed := max(horizon, Plus(j.owed().To, int64(forecast.Horizon(ix.Exp, lock))))
		if known && ix.couldFinish() && final >= owed && !k.heldAtEnd() {
			t.Lo++
		}
		evidence = append(evidence, j.n)
	}
	for _, s := range ix.Shots {
		for _, e := range s.Exposed {
			if k := ix.Keys[e.Key]; k.Lock == lock && !told[k] && !k.heldAtEnd() {
				told[k] = true
				t.Hi++
				evidence = append(evidence, e.N)
			}
		}
	}
	return t, evidence, known
}

// heldAtEnd reports that the last look showed the key taken.
func (k *Key) heldAtEnd() bool { return len(k.Looks) > 0 && k.Looks[len(k.Looks)-1].epoch != "" }

// foreignRuns counts executions of jobs beyond the first, by the epochs of their effects. What one epoch wrote twice may be a retry.
func (ix *Facts) foreignRuns(lock string) (t Tally, evidence []int64) {
	l := ix.Exp.Lock(lock)
	keyless := l != nil && l.Keyless()
	for _, j := range ix.jobOrder {
		if j.lock != lock {
			continue
		}
		var by []*Epoch
		times := map[string]int{}
		for _, f := range j.states {
			switch {
			case f.by != "" && !slices.Contains(by, f.Epoch):
				if len(by) > 0 {
					evidence = append(evidence, f.N)
				}
				by = append(by, f.Epoch)
			case f.by == "" && f.begins:
				if times[f.State]++; times[f.State] > 1 || len(by) > 0 {
					t.Hi++
					evidence = append(evidence, f.N)
					if keyless && j.surelyBegunAgain(f) {
						t.Lo++
					}
				}
			}
		}
		slices.SortFunc(by, func(a, b *Epoch) int { return cmp.Compare(a.Rank, b.Rank) })
		complete := false
		for i, e := range by {
			if i > 0 {
				t.Hi++
				if complete {
					t.Lo++
				}
			}
			complete = complete || ix.wrote(j, e) && e.Rank > 0
		}
	}
	return t, evidence
}

// surelyBegunAgain reports that f began the job anew, after it had ended: by its operation it is no retry of what began it before.
func (j *job) surelyBegunAgain(f *effect) bool {
	return f.op != "" && slices.ContainsFunc(j.Terminals, func(o *effect) bool { return o.before(f) }) &&
		!slices.ContainsFunc(j.states, func(o *effect) bool { return o != f && o.begins && o.State == f.State && o.op == "" })
}

// surelyAgain reports that the i-th terminal state of j is no retry of one before it: another operation, another state, or written by
// another epoch by its own word.
func (j *job) surelyAgain(i int) bool {
	f := j.Terminals[i]
	return !f.Foreign || !slices.ContainsFunc(j.Terminals[:i], func(o *effect) bool {
		return o.State == f.State && (o.op == "" || f.op == "") && !(o.named() && f.named() && o.Epoch != f.Epoch)
	})
}

// Unwritten reports effects of jobs of the lock that nobody can be told to have written.
func (ix *Facts) Unwritten(lock string) bool {
	return ix.Exp.Observed() && slices.ContainsFunc(ix.effects, func(f *effect) bool { return f.key.Lock == lock && f.by == "" && f.begins })
}

// Strays are effects under the lock that say who wrote them, who is not known to have had it by then: under grants that no look showed.
func (ix *Facts) Strays(lock string) (ns []int64) {
	begun := ix.lookedSince(lock)
	for _, f := range ix.effects {
		if f.Foreign && f.key.Lock == lock && f.Fresh() && f.by == "" && f.tells() != verdict.ByHolder && !f.beforeLooks(begun) {
			ns = append(ns, f.N)
		}
	}
	return ns
}

// isOffer reports an entry of somebody's own source that nobody writes under the lock, such as that a job waits: by the file it shows nobody at
// work and ends nothing, and it names nobody.
func (f *effect) isOffer() bool {
	return f.Foreign && !f.begins && !f.Terminal && f.token == "" && f.Fence == 0 && f.Writer == ""
}

// LedgerOf is the probe that sees effects under the lock; "" = none does.
func (ix *Facts) LedgerOf(lock string) string {
	if !ix.Exp.Observed() {
		return ProbeLedger
	}
	if x := ix.Exp.EffectsOf(lock); x != nil {
		return x.Probe()
	}
	return ""
}

// IsLedger reports a probe of something that keeps what it was told: a late look at it misses nothing.
func IsLedger(probe string) bool { return probe == ProbeLedger || experiments.IsEffects(probe) }

// Rests says of the rows of an observed system what they rest on.
func (ix *Facts) Rests(rows []verdict.SLOResult) {
	if !ix.Exp.Observed() {
		return
	}
	for i := range rows {
		r := &rows[i]
		if l := ix.Exp.Lock(r.Lock); l != nil && l.Keyless() { // on its effects: there is nothing else
			continue
		}
		switch m := r.Question.Measure; {
		case r.Question.LiveOnly(), m == "abandonments": // those of an observed system are a signal's
			r.Rests = verdict.RestsOnSignals
		case ix.rests(r.Question):
			r.Rests = verdict.RestsOnBelief
		case ix.Ledgered[r.Lock] && m == "takeover", m == "unowned_work", m == "overlap" && r.Question.Part == verdict.LevelEffect, m == "tick_gap", m == "duplicate_terminal_states", m == "re_executed", m == "stranded", m == "stale_writes", m == "lock_debt",
			m == "duplicate_epochs" && ix.LedgerOf(r.Lock) != "":
			r.Rests = verdict.RestsOnEffects
		default:
			r.Rests = verdict.RestsOnKeys
		}
	}
}

// rests reports a row that is answered by what replicas say of themselves.
func (ix *Facts) rests(l *experiments.Limit) bool {
	of := ix.Exp.Lock(l.Lock)
	return of != nil && of.Belief != nil && (l.Measure == "loss_to_fence" || l.Measure == "leaderless" || l.Part == verdict.LevelBelief)
}
