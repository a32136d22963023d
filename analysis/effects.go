package analysis

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// effect is one entry of the ledger.
type effect struct {
	Pos      int64
	Subject  string
	Loop     bool
	State    string
	Terminal bool
	Accepted bool
	Reason   string
	Named    string

	n, fence int64
	// Of a system that is not ours.
	foreign   bool
	begins    bool                // it shows its writer at work
	unordered bool                // Pos is the order of reading alone
	read      int64               // the read that showed it, where reads tell the order
	op        string              // "" = not known
	writer    string              // incarnation; "" = not known
	by        verdict.Attribution // what says that it is epoch's; "" = nothing, and epoch is nobody's

	key   *keyIndex
	epoch *epoch
	claim *claim       // what its writer says of it
	seen  history.Span // by the probe
	span  history.Span // when it was applied: first seen by the probe, within the writer's call where one claims it
}

// fresh reports an accepted write that had an effect: not a replay.
func (f *effect) fresh() bool { return f.Accepted && f.Reason != history.ReasonReplay }

// enters reports the effects that end a takeover: a new epoch's begin, or a tick.
func (f *effect) enters() bool {
	return f.fresh() && (f.State == history.StateBegin || f.State == history.StateTick)
}

// claim is what a writer said of one operation at the ledger.
type claim struct {
	lock     string
	terminal bool
	invoked  int64  // the event; 0 = none
	who      string // announced it
	sent     int64  // stamp
	epoch    string // of the invoke
	// The ledger's answer, the best that is known.
	ret      int64  // the event; 0 = none
	by       string // who tells of it
	ended    int64  // stamp
	answered bool   // it is known what the ledger did
	accepted bool
	// The first that says that it was accepted.
	taken, takenAt int64 // the event, 0 = none; stamp
	entry          *effect
	first          *effect // entry of the operation, whether its writer claims it or not
	missing        bool    // from the final read, though the ledger had accepted it
}

// told reports that the writer had the ledger's answer.
func (c *claim) told() bool { return c.invoked != 0 && c.answered }

// claimOf finds or makes the claim about the operation at the ledger that the event tells of.
func (ix *Facts) claimOf(ev *history.Event) *claim {
	id := opKey{ev.Key, ev.Op}
	c := ix.writes[id]
	if c == nil {
		c = &claim{}
		ix.writes[id] = c
	}
	return c
}

func (ix *Facts) claimWrite(ev *history.Event) {
	c := ix.claimOf(ev)
	if ev.Kind == history.WriteInvoke {
		if c.invoked == 0 { // a retry carries the same operation id: the first try may have been applied
			c.invoked, c.who, c.sent, c.epoch, c.lock, c.terminal = ev.N, ev.Source, ev.From, ev.Epoch, ev.Lock, ev.Write.Terminal
		}
		return
	}
	if !c.answered {
		c.ret, c.by, c.ended, c.answered, c.accepted = ev.N, ev.Source, ev.To, ev.Outcome == history.OK, ev.Write.Accepted
	}
	if ev.Write.Accepted && c.taken == 0 {
		c.taken, c.takenAt = ev.N, ev.To
	}
}

func (ix *Facts) readEntry(k *keyIndex, ev *history.Event) {
	if ev.Entry.Foreign {
		ix.readForeign(k, ev)
		return
	}
	e, x := k.epoch(ev.Epoch), ev.Entry
	f := &effect{Pos: x.Pos, Subject: x.Subject, Loop: x.Loop, State: x.State, Terminal: x.Terminal, Accepted: x.Accepted, Reason: x.Reason, Named: x.Named,
		n: ev.N, fence: ev.Fence, claim: ix.claimOf(ev), key: k, epoch: e, seen: ev.Span, span: ev.Span}
	e.effects = append(e.effects, f)
	if e.replica == "" {
		e.replica = x.Writer
	}
	ix.effects = append(ix.effects, f)
	ix.ledgered[k.lock] = true
}

// placeEffects orders the entries, narrows their brackets by the writers' claims and hands them to keys and jobs.
func (ix *Facts) placeEffects() {
	if ix.exp.Observed() {
		ix.placeForeign()
		return
	}
	slices.SortStableFunc(ix.effects, func(a, b *effect) int { return cmp.Compare(a.Pos, b.Pos) })
	var last int64
	var unseen several
	for _, f := range ix.effects {
		switch {
		case f.Pos > last+1:
			unseen.add("entries " + strconv.FormatInt(last+1, 10) + " to " + strconv.FormatInt(f.Pos-1, 10) + " of the ledger were never seen")
		case f.Pos == last:
			ix.contradict("the ledger has two entries at position "+strconv.FormatInt(f.Pos, 10), f.n)
		}
		last = f.Pos
		ix.narrowEffect(f)
		f.key.effects = append(f.key.effects, f)
		if f.epoch.fence == 0 {
			f.epoch.fence = f.fence
		}
		ix.fileEffect(f)
	}
	ix.lostLedger = append(ix.lostLedger, unseen.text()...)
}

// fileEffect adds a job's state to the job.
func (ix *Facts) fileEffect(f *effect) {
	if f.Loop || f.State == history.StateBegin || f.State == history.StateTick || !f.fresh() {
		return
	}
	j := ix.jobs[f.Subject]
	if j == nil { // nobody offered it: known from the ledger alone
		j = &job{id: f.Subject, lock: f.key.lock, key: f.key.name, offered: f.span, n: f.n}
		ix.jobs[j.id] = j
		ix.jobOrder = append(ix.jobOrder, j)
		f.key.jobs = append(f.key.jobs, j)
	}
	j.states = append(j.states, f)
	if f.Terminal {
		j.terminals = append(j.terminals, f)
	}
}

func (ix *Facts) narrowEffect(f *effect) {
	c := f.claim
	if c.invoked == 0 {
		return
	}
	if c.entry == nil {
		c.entry = f
	}
	if narrow, ok := f.span.Intersect(c.bracket()); ok { // else the clock is told of (tellClocks)
		f.span = narrow
	}
}

// bracket is when the ledger took the write in, by its writer's word.
func (c *claim) bracket() history.Span {
	if c.answered {
		return history.Span{From: c.sent, To: c.ended}
	}
	return history.Span{From: c.sent, To: open}
}

func (f *effect) where() string {
	return "key " + f.key.name + ": entry " + strconv.FormatInt(f.Pos, 10) + " of the ledger "
}

// checkWrites holds the writers' claims against the ledger's entries.
func (ix *Facts) checkWrites() {
	for _, f := range ix.effects {
		if f.foreign { // nobody claims it
			continue
		}
		if f.epoch.fence != 0 && f.fence != 0 && f.fence != f.epoch.fence {
			ix.findAs(verdict.FindingForeignFence, f.where()+"carries fence "+strconv.FormatInt(f.fence, 10)+", but its epoch was granted "+strconv.FormatInt(f.epoch.fence, 10), f.n, f.epoch.n)
		}
		c := f.claim
		if c.entry != f {
			continue
		}
		if c.answered && c.accepted != f.Accepted {
			ix.find(f.where()+"says accepted="+strconv.FormatBool(f.Accepted)+", but its writer says the opposite", f.n, c.ret)
		}
		if c.invoked != 0 && c.epoch != f.epoch.id {
			ix.find(f.where()+"names epoch "+f.epoch.id+", but its writer names "+c.epoch, f.n, c.invoked)
		}
	}
	final, ok := ix.finalAt()
	if !ok {
		return
	}
	var missing several
	var lost []opKey
	for id, c := range ix.writes {
		if c.missing = c.entry == nil && c.taken != 0 && c.takenAt <= final; c.missing {
			lost = append(lost, id)
		}
	}
	slices.SortFunc(lost, func(a, b opKey) int { return cmp.Compare(ix.writes[a].taken, ix.writes[b].taken) })
	for _, id := range lost {
		c := ix.writes[id]
		ix.find("key "+id.of+": the ledger accepted write "+id.op+" and does not have it in the final read", c.taken)
		missing.add("a write that the ledger accepted at " + figures.Clock(c.takenAt) + " is missing from its final read")
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
func (ix *Facts) checkCalls(k *keyIndex) {
	if len(k.looks) == 0 {
		return
	}
	for _, e := range k.epochs {
		if e.ghost { // all of them, and said already
			continue
		}
		for _, c := range e.renewals {
			ix.checkForeign(k, e, c, "renewed")
		}
		for _, c := range e.releases {
			ix.checkForeign(k, e, c, "released")
		}
	}
}

func (ix *Facts) checkForeign(k *keyIndex, e *epoch, c *call, what string) {
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
