package analysis

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Effects of a system that is not ours say little of themselves: an operation id, a fence, a token and a writer are there where its source
// has them. What is not there is not made up: an effect belongs to an epoch by the strongest of what is known, or to none.

// readForeign takes in an entry of such a system.
func (ix *Facts) readForeign(k *keyIndex, ev *history.Event) {
	x := ev.Entry
	f := &effect{Pos: x.Pos, Subject: x.Subject, Loop: x.Loop, State: x.State, Terminal: x.Terminal, Accepted: x.Accepted, Reason: x.Reason,
		n: ev.N, fence: ev.Fence, claim: &claim{}, key: k, seen: ev.Span, span: ev.Span,
		foreign: true, unordered: x.Unordered, read: x.Read, op: ev.Op, writer: x.Writer}
	source := ix.exp.EffectsOf(k.lock)
	f.begins = x.Loop || source != nil && source.Map.Begins(x.State)
	f.epoch = &epoch{lock: k.lock, key: k.name} // nobody's, until it is known whose
	if ev.Epoch != "" {
		f.epoch, f.by = k.epoch(ev.Epoch), verdict.ByToken
		f.epoch.effects = append(f.epoch.effects, f)
		f.epoch.replica = cmp.Or(f.epoch.replica, x.Writer)
	}
	ix.effects = append(ix.effects, f)
	ix.ledgered[k.lock] = ix.ledgered[k.lock] || f.begins
}

// placeForeign puts the entries in the order in which they may have come about, and hands them to keys and jobs. An operation that comes
// again, in the same state of the same job, is a replay.
func (ix *Facts) placeForeign() {
	slices.SortStableFunc(ix.effects, func(a, b *effect) int { return cmp.Compare(a.Pos, b.Pos) })
	last := map[string]int64{} // by lock: each has one source
	var unseen several
	for _, f := range ix.effects {
		switch at := last[f.key.lock]; {
		case f.Pos == at:
			ix.contradict(f.where()+"appears twice", f.n)
		case f.Pos != at+1:
			unseen.add("entries of the effects of lock " + f.key.lock + " are missing from the history")
		}
		last[f.key.lock] = f.Pos
		f.afterGrant()
	}
	ix.lostLedger = append(ix.lostLedger, unseen.text()...)
	slices.SortStableFunc(ix.effects, func(a, b *effect) int { return cmp.Or(cmp.Compare(a.span.To, b.span.To), cmp.Compare(a.Pos, b.Pos)) })
	ops := map[[4]string]bool{}
	for _, f := range ix.effects {
		op := [4]string{f.key.lock, f.Subject, f.State, f.op}
		if f.op != "" && ops[op] {
			f.Reason = history.ReasonReplay
		}
		ops[op] = true
		f.key.effects = append(f.key.effects, f)
		if f.epoch.fence == 0 && f.by != "" {
			f.epoch.fence = f.fence
		}
		ix.fileEffect(f)
	}
}

// afterGrant narrows the bracket of an effect that says its token: it was written after the token was granted, so after the last look that
// did not show it yet. Of a log's line nothing else says that it is no older than the stream by which it came.
func (f *effect) afterGrant() {
	if f.by != verdict.ByToken || len(f.epoch.looks) == 0 {
		return
	}
	if before := f.epoch.looks[0].prev; before.From != never && before.From <= f.span.To {
		f.span.From = max(f.span.From, before.From)
	}
}

// before reports that f surely came about before o.
func (f *effect) before(o *effect) bool {
	switch {
	case !f.unordered && !o.unordered:
		return f.Pos < o.Pos
	case f.read > 0 && o.read > 0:
		return f.read < o.read
	}
	return f.span.Before(o.span)
}

// hiddenGrant is the bracket of the grant of an epoch that effects name and no look showed: in the state of the key in which the first of
// them came, or before that, where another surely held the key meanwhile.
func (k *keyIndex) hiddenGrant(e *epoch) history.Span {
	first := slices.MinFunc(e.effects, func(a, b *effect) int { return cmp.Compare(a.span.To, b.span.To) }).span
	g := history.Span{To: first.To}
	for _, s := range k.looks {
		switch {
		case s.first.From > first.From:
			return g
		case s.epoch != "" && s.first.To <= first.From && s.last().From >= first.To:
			return history.Span{From: max(0, s.prev.From), To: s.first.To}
		}
		g.From = s.first.From
	}
	return g
}

// mayHold reports that e may have held its key at some instant of s.
func (e *epoch) mayHold(s history.Span) bool {
	return e.granted.From <= s.To && e.life.end.To >= s.From
}

// attribute finds the epochs of effects under k that do not say a token: by a fence that another effect shares, by their writer, or by who
// held the key then.
func (ix *Facts) attribute(k *keyIndex) {
	fences := map[int64]*epoch{}
	for _, f := range k.effects {
		if !f.foreign {
			return
		}
		if f.by == "" {
			f.by = ix.whose(k, f, fences)
			if f.by != "" {
				f.epoch.effects = append(f.epoch.effects, f)
			}
		}
		if f.fence != 0 && f.by != "" && fences[f.fence] == nil {
			fences[f.fence] = f.epoch
		}
	}
}

// whose sets the epoch of f, and says by what it is known; "" = it is not.
func (ix *Facts) whose(k *keyIndex, f *effect, fences map[int64]*epoch) verdict.Attribution {
	if e := fences[f.fence]; f.fence != 0 && e != nil {
		f.epoch = e
		return verdict.ByFence
	}
	var holders []*epoch
	var past *epoch // the last of the writer's that began before
	for _, e := range k.epochs {
		if e.ghost || e.stranger || f.writer != "" && history.ReplicaOf(e.replica) != history.ReplicaOf(f.writer) {
			continue
		}
		if e.mayHold(f.span) {
			holders = append(holders, e)
		} else if e.granted.To <= f.span.To {
			past = e
		}
	}
	switch {
	case f.writer == "" && len(holders) == 1:
		f.epoch = holders[0]
		return verdict.ByHolder
	case f.writer != "" && len(holders) == 1:
		f.epoch = holders[0]
		return verdict.ByReplica
	case f.writer != "" && len(holders) == 0 && past != nil: // it wrote without its lock
		f.epoch = past
		return verdict.ByReplica
	}
	return ""
}

// named reports that the effect itself says whose it is, and not only the key.
func (f *effect) named() bool { return f.by != "" && f.by != verdict.ByHolder }

// foreignEnd is x of a trial in a system that is not ours: the first effect of a later epoch. One that ends its job came after the work
// began, so x lies between the grant and it; one that nobody can be told to have written may have been it. Where none is known to be a
// later epoch's, it is the next grant.
func (ix *Facts) foreignEnd(k *keyIndex, t *trial) (x history.Span, n int64) {
	x = history.Span{From: open, To: open}
	doubt := int64(open)
	for _, f := range k.effects {
		switch {
		case !f.fresh() || f.epoch.ghost:
		case f.by == "" && f.span.To >= t.from.From:
			doubt = min(doubt, max(f.span.From, t.from.From))
		case f.by != "" && f.epoch.rank > t.e.rank:
			at := f.span
			if !f.begins && f.epoch.begun(at.To) { // what began it tells more
				continue
			}
			if !f.begins {
				at.From = min(at.From, f.epoch.granted.From)
			}
			if at.To < x.To {
				x.To, n, t.after, t.by = at.To, f.n, f.epoch, f.by
			}
			x.From = min(x.From, at.From)
		}
	}
	switch {
	case x.To != open:
		x.From = min(x.From, doubt)
		t.end = endEffect
		return x, n
	case doubt != open && t.next != nil:
		t.end, t.after = endGrant, t.next
		return t.grant, t.next.n
	}
	t.end = endEffect
	return history.Span{To: open}, 0
}

// begun reports an effect of e by then that shows its holder at work.
func (e *epoch) begun(by int64) bool {
	return slices.ContainsFunc(e.effects, func(f *effect) bool { return f.begins && f.fresh() && f.span.To <= by })
}

// foreignStranded counts jobs of a system that is not ours that were there before the last fault was over, and are open: nobody says how
// many will come. One whose key is held at the end is being worked at; one of which only its key was seen may have ended before the run.
func (ix *Facts) foreignStranded(lock string) (t tally, evidence []int64, known bool) {
	final, known := ix.finalAt()
	horizon, _ := ix.horizon(lock)
	over := horizon - int64(forecast.Horizon(ix.exp, lock))
	told := map[*keyIndex]bool{}
	for _, j := range ix.jobOrder {
		k := ix.keys[j.key]
		told[k] = true
		if j.lock != lock || len(j.terminals) > 0 || j.offered.From > over {
			continue
		}
		t.hi++
		owed := max(horizon, plus(j.offered.To, int64(forecast.Horizon(ix.exp, lock))))
		if known && len(ix.lostLedger) == 0 && final >= owed && !k.heldAtEnd() {
			t.lo++
		}
		evidence = append(evidence, j.n)
	}
	for _, s := range ix.shots {
		for _, e := range s.exposed {
			if k := ix.keys[e.key]; k.lock == lock && !told[k] && !k.heldAtEnd() {
				told[k] = true
				t.hi++
				evidence = append(evidence, e.n)
			}
		}
	}
	return t, evidence, known
}

// heldAtEnd reports that the last look showed the key taken.
func (k *keyIndex) heldAtEnd() bool { return len(k.looks) > 0 && k.looks[len(k.looks)-1].epoch != "" }

// foreignRuns counts executions of jobs beyond the first, by the epochs of their effects. What one epoch wrote twice may be a retry.
func (ix *Facts) foreignRuns(lock string) (t tally, evidence []int64) {
	for _, j := range ix.jobOrder {
		if j.lock != lock {
			continue
		}
		var by []*epoch
		times := map[string]int{}
		for _, f := range j.states {
			switch {
			case f.by != "" && !slices.Contains(by, f.epoch):
				if len(by) > 0 {
					evidence = append(evidence, f.n)
				}
				by = append(by, f.epoch)
			case f.by == "" && f.begins:
				if times[f.State]++; times[f.State] > 1 || len(by) > 0 {
					t.hi++
					evidence = append(evidence, f.n)
				}
			}
		}
		slices.SortFunc(by, func(a, b *epoch) int { return cmp.Compare(a.rank, b.rank) })
		complete := false
		for i, e := range by {
			if i > 0 {
				t.hi++
				if complete {
					t.lo++
				}
			}
			complete = complete || ix.wrote(j, e) && e.rank > 0
		}
	}
	return t, evidence
}

// surelyAgain reports that the i-th terminal state of j is no retry of one before it: another operation, another state, or written by
// another epoch by its own word.
func (j *job) surelyAgain(i int) bool {
	f := j.terminals[i]
	return !f.foreign || !slices.ContainsFunc(j.terminals[:i], func(o *effect) bool {
		return o.State == f.State && (o.op == "" || f.op == "") && !(o.named() && f.named() && o.epoch != f.epoch)
	})
}

// unwritten reports effects of jobs of the lock that nobody can be told to have written.
func (ix *Facts) unwritten(lock string) bool {
	return ix.exp.Observed() && slices.ContainsFunc(ix.effects, func(f *effect) bool { return f.key.lock == lock && f.by == "" && f.begins })
}

// ledgerOf is the probe that sees effects under the lock; "" = none does.
func (ix *Facts) ledgerOf(lock string) string {
	if !ix.exp.Observed() {
		return probeLedger
	}
	if x := ix.exp.EffectsOf(lock); x != nil {
		return x.Probe()
	}
	return ""
}

// isLedger reports a probe of something that keeps what it was told: a late look at it misses nothing.
func isLedger(probe string) bool { return probe == probeLedger || experiments.IsEffects(probe) }

// rests says of the rows of an observed system what they rest on.
func (ix *Facts) rests(rows []verdict.SLOResult) {
	if !ix.exp.Observed() {
		return
	}
	for i := range rows {
		r := &rows[i]
		switch m, _, _ := strings.Cut(r.Measure, "."); {
		case m == "metric", m == "logs", m == verdict.MeasureAlert, m == "abandonments": // that of an observed system is a signal's
			r.Rests = verdict.RestsOnSignals
		case ix.ledgered[r.Lock] && m == "takeover", m == "tick_gap", m == "duplicate_terminal_states", m == "re_executed", m == "stranded":
			r.Rests = verdict.RestsOnEffects
		default:
			r.Rests = verdict.RestsOnKeys
		}
	}
}
