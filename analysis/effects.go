package analysis

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// effect is one entry of the ledger.
type effect struct {
	*history.Entry
	event *history.Event
	key   *keyIndex
	epoch *epoch
	span  history.Span   // when it was applied: first seen by the probe, within the writer's call where one claims it
	told  *history.Event // its writer had the ledger's answer; nil = it had none
}

// fresh reports an accepted write that had an effect: not a replay.
func (f *effect) fresh() bool { return f.Accepted && f.Reason != history.ReasonReplay }

// enters reports the effects that end a takeover: a new epoch's begin, or a tick.
func (f *effect) enters() bool {
	return f.fresh() && (f.State == history.StateBegin || f.State == history.StateTick)
}

// claim is what a writer said of one operation at the ledger.
type claim struct {
	invoke, ret *history.Event
	entry       *effect
}

func (ix *index) claimWrite(ev *history.Event) {
	id := opKey{ev.Key, ev.Op}
	c := ix.writes[id]
	if c == nil {
		c = ix.memory.claims.New(claim{})
		ix.writes[id] = c
	}
	if ev.Kind == history.WriteInvoke {
		if c.invoke == nil { // a retry carries the same operation id: the first try may have been applied
			c.invoke = ev
		}
		return
	}
	if c.ret == nil || c.ret.Outcome != history.OK {
		c.ret = ev
	}
}

func (ix *index) readEntry(k *keyIndex, ev *history.Event) {
	e := k.epoch(ev.Epoch)
	f := k.mem.effects.New(effect{Entry: ev.Entry, event: ev, key: k, epoch: e, span: ev.Span})
	e.effects = append(e.effects, f)
	if e.replica == "" {
		e.replica = ev.Entry.Writer
	}
	ix.effects = append(ix.effects, f)
	ix.ledgered[k.lock] = true
}

// placeEffects orders the entries, narrows their brackets by the writers' claims and hands them to keys and jobs.
func (ix *index) placeEffects() {
	slices.SortStableFunc(ix.effects, func(a, b *effect) int { return cmp.Compare(a.Pos, b.Pos) })
	var last int64
	var unseen several
	for _, f := range ix.effects {
		switch {
		case f.Pos > last+1:
			unseen.add("entries " + strconv.FormatInt(last+1, 10) + " to " + strconv.FormatInt(f.Pos-1, 10) + " of the ledger were never seen")
		case f.Pos == last:
			ix.find("the ledger has two entries at position "+strconv.FormatInt(f.Pos, 10), f.event.N)
		}
		last = f.Pos
		ix.narrowEffect(f)
		f.key.effects = append(f.key.effects, f)
		if f.epoch.fence == 0 {
			f.epoch.fence = f.event.Fence
		}
		ix.fileEffect(f)
	}
	ix.lostLedger = append(ix.lostLedger, unseen.text()...)
}

// fileEffect adds a job's state to the job.
func (ix *index) fileEffect(f *effect) {
	if f.Loop || f.State == history.StateBegin || f.State == history.StateTick || !f.fresh() {
		return
	}
	j := ix.jobs[f.Subject]
	if j == nil { // nobody offered it: known from the ledger alone
		j = &job{id: f.Subject, lock: f.key.lock, key: f.key.name, offered: f.span, n: f.event.N}
		ix.jobs[j.id] = j
		ix.jobOrder = append(ix.jobOrder, j)
		f.key.jobs = append(f.key.jobs, j)
	}
	j.states = append(j.states, f)
	if f.Terminal {
		j.terminals = append(j.terminals, f)
	}
}

func (ix *index) narrowEffect(f *effect) {
	c := ix.writes[opKey{f.key.name, f.event.Op}]
	if c == nil || c.invoke == nil {
		return
	}
	if c.entry == nil {
		c.entry = f
	}
	claimed := history.Span{From: c.invoke.From, To: open}
	if c.ret != nil && c.ret.Outcome == history.OK {
		claimed.To, f.told = c.ret.To, c.ret
	}
	narrow, ok := f.span.Intersect(claimed)
	if !ok {
		ix.find("key "+f.key.name+": entry "+strconv.FormatInt(f.Pos, 10)+" of the ledger was seen outside the call that its writer claims", f.event.N, c.invoke.N)
		return
	}
	f.span = narrow
}

func (f *effect) where() string {
	return "key " + f.key.name + ": entry " + strconv.FormatInt(f.Pos, 10) + " of the ledger "
}

// checkWrites holds the writers' claims against the ledger's entries.
func (ix *index) checkWrites() {
	for _, f := range ix.effects {
		if f.epoch.fence != 0 && f.event.Fence != 0 && f.event.Fence != f.epoch.fence {
			ix.find(f.where()+"carries fence "+strconv.FormatInt(f.event.Fence, 10)+", its epoch was granted "+strconv.FormatInt(f.epoch.fence, 10), f.event.N, f.epoch.n)
		}
		c := ix.writes[opKey{f.key.name, f.event.Op}]
		if c == nil || c.entry != f {
			continue
		}
		if c.ret != nil && c.ret.Outcome == history.OK && c.ret.Write.Accepted != f.Accepted {
			ix.find(f.where()+"says accepted="+strconv.FormatBool(f.Accepted)+", its writer says the opposite", f.event.N, c.ret.N)
		}
		if c.invoke != nil && c.invoke.Epoch != f.event.Epoch {
			ix.find(f.where()+"names epoch "+f.event.Epoch+", its writer names "+c.invoke.Epoch, f.event.N, c.invoke.N)
		}
	}
	final, ok := ix.finalAt()
	if !ok {
		return
	}
	var missing several
	for i := range ix.h.Events {
		ev := &ix.h.Events[i]
		if ev.Kind != history.WriteReturn || !ev.Write.Accepted || ev.To > final {
			continue
		}
		if c := ix.writes[opKey{ev.Key, ev.Op}]; c.entry == nil {
			c.entry = &effect{} // say it once
			ix.find("key "+ev.Key+": the ledger accepted write "+ev.Op+" and does not have it in the final read", ev.N)
			missing.add("a write that the ledger accepted at " + figures.Clock(ev.To) + " is missing from its final read")
		}
	}
	ix.lostLedger = append(ix.lostLedger, missing.text()...)
}

// several is one reason that may hold often: a ledger that lost ten thousand entries is said once, not ten thousand times a row.
type several struct {
	first string
	n     int
}

func (s *several) add(reason string) {
	if s.n++; s.n == 1 {
		s.first = reason
	}
}

func (s *several) text() []string {
	switch s.n {
	case 0:
		return nil
	case 1:
		return []string{s.first}
	}
	return []string{s.first + ", and " + strconv.Itoa(s.n-1) + " more like it"}
}

// checkCalls looks for operations that succeeded while the probe saw the key carry another epoch.
func (ix *index) checkCalls(k *keyIndex) {
	if len(k.looks) == 0 {
		return
	}
	for _, e := range k.epochs {
		for _, c := range e.renewals {
			ix.checkForeign(k, e, c, "renewed")
		}
		for _, c := range e.releases {
			ix.checkForeign(k, e, c, "released")
		}
	}
}

func (ix *index) checkForeign(k *keyIndex, e *epoch, c *call, what string) {
	if c.outcome != history.OK {
		return
	}
	i, _ := slices.BinarySearchFunc(k.looks, c.span.From, func(s *stretch, t int64) int { return cmp.Compare(s.first.To, t+1) })
	if i == 0 {
		return
	}
	s := k.looks[i-1]
	if s.epoch != "" && s.epoch != e.id && s.last().From >= c.span.To {
		ix.find("key "+k.name+": epoch "+e.id+" "+what+" it with success while the probe saw it carry "+s.epoch, c.n, s.n)
	}
}
