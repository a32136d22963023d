package facts

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
	history.Entry
	N, Fence int64
	// Of a system that is not ours.
	op     string              // "" = not known
	token  string              // likewise
	by     verdict.Attribution // what says that it is epoch's; "" = nothing, and epoch is nobody's
	begins bool                // it shows its writer at work
	unsure bool                // it may be of another epoch of its writer's as well, or of one that nobody saw

	key   *Key
	Epoch *Epoch
	claim *claim       // what its writer says of it
	seen  history.Span // by the probe
	Span  history.Span // when it was applied: first seen by the probe, within the writer's call where one claims it
}

// Fresh reports an accepted write that had an effect: not a replay.
func (f *effect) Fresh() bool { return f.Accepted && f.Reason != history.ReasonReplay }

// enters reports the effects that end a takeover: a new epoch's begin, or a tick.
func (f *effect) enters() bool {
	return f.Fresh() && (f.State == history.StateBegin || f.State == history.StateTick)
}

// claim is what a writer said of one operation at the ledger.
type claim struct {
	lock    string
	invoked int64  // the event; 0 = none
	who     string // announced it
	sent    int64  // stamp
	epoch   string // of the invoke
	// The ledger's answer, the best that is known.
	ret   int64  // the event; 0 = none
	by    string // who tells of it
	ended int64  // stamp
	// The first that says that it was accepted.
	taken, takenAt int64 // the event, 0 = none; stamp
	entry          *effect
	first          *effect // entry of the operation, whether its writer claims it or not

	terminal, accepted bool
	answered           bool // it is known what the ledger did
	missing            bool // from the final read, though the ledger had accepted it
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

func (ix *Facts) readEntry(k *Key, ev *history.Event) {
	if ev.Entry.Foreign {
		ix.readForeign(k, ev)
		return
	}
	e := k.epoch(ev.Epoch)
	f := &effect{Entry: *ev.Entry, N: ev.N, Fence: ev.Fence, claim: ix.claimOf(ev), key: k, Epoch: e, seen: ev.Span, Span: ev.Span}
	e.Effects = append(e.Effects, f)
	e.Replica = cmp.Or(e.Replica, f.Writer)
	ix.effects = append(ix.effects, f)
	ix.Ledgered[k.Lock] = true
}

// placeEffects orders the entries, narrows their brackets by the writers' claims and hands them to keys and jobs.
func (ix *Facts) placeEffects() {
	if ix.Exp.Observed() {
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
			ix.contradict("the ledger has two entries at position "+strconv.FormatInt(f.Pos, 10), f.N)
		}
		last = f.Pos
		ix.narrowEffect(f)
		f.key.Effects = append(f.key.Effects, f)
		if f.Epoch.Fence == 0 {
			f.Epoch.Fence = f.Fence
		}
		ix.fileEffect(f)
	}
	ix.LostLedger = append(ix.LostLedger, unseen.Text()...)
}

// fileEffect adds a job's state to the job.
func (ix *Facts) fileEffect(f *effect) {
	if f.Loop || f.State == history.StateBegin || f.State == history.StateTick || !f.Fresh() {
		return
	}
	j := ix.jobs[f.Subject]
	if j == nil { // nobody offered it: known from the ledger alone
		j = &job{ID: f.Subject, lock: f.key.Lock, key: f.key.Name, offered: f.Span, n: f.N}
		ix.jobs[j.ID] = j
		ix.jobOrder = append(ix.jobOrder, j)
		f.key.Jobs = append(f.key.Jobs, j)
	}
	if f.Due != nil {
		j.due = *f.Due
	}
	j.states = append(j.states, f)
	if f.Terminal {
		j.Terminals = append(j.Terminals, f)
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
	if narrow, ok := f.Span.Intersect(c.bracket()); ok { // else the clock is told of (tellClocks)
		f.Span = narrow
	}
}

// bracket is when the ledger took the write in, by its writer's word.
func (c *claim) bracket() history.Span {
	if c.answered {
		return history.Span{From: c.sent, To: c.ended}
	}
	return history.Span{From: c.sent, To: Open}
}

func (f *effect) where() string {
	return "key " + f.key.Name + ": entry " + strconv.FormatInt(f.Pos, 10) + " of the ledger "
}

// checkWrites holds the writers' claims against the ledger's entries.
func (ix *Facts) checkWrites() {
	for _, f := range ix.effects {
		if f.Foreign { // nobody claims it
			continue
		}
		if f.Epoch.Fence != 0 && f.Fence != 0 && f.Fence != f.Epoch.Fence {
			ix.findAs(verdict.FindingForeignFence, f.where()+"carries fence "+strconv.FormatInt(f.Fence, 10)+", but its epoch was granted "+strconv.FormatInt(f.Epoch.Fence, 10), f.N, f.Epoch.N)
		}
		c := f.claim
		if c.entry != f {
			continue
		}
		if c.answered && c.accepted != f.Accepted {
			ix.find(f.where()+"says accepted="+strconv.FormatBool(f.Accepted)+", but its writer says the opposite", f.N, c.ret)
		}
		if c.invoked != 0 && c.epoch != f.Epoch.ID {
			ix.find(f.where()+"names epoch "+f.Epoch.ID+", but its writer names "+c.epoch, f.N, c.invoked)
		}
	}
	final, ok := ix.FinalAt()
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
	ix.LostLedger = append(ix.LostLedger, missing.Text()...)
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

func (s *several) Text() []string {
	switch s.n {
	case 0:
		return nil
	case 1:
		return []string{s.first}
	}
	return []string{s.first + ", and " + strconv.Itoa(s.n-1) + " more like it"}
}

// checkCalls looks for operations that succeeded while the probe saw the key carry another epoch.
func (ix *Facts) checkCalls(k *Key) {
	if len(k.Looks) == 0 {
		return
	}
	for _, e := range k.Epochs {
		if e.Ghost { // all of them, and said already
			continue
		}
		for _, c := range e.Renewals {
			ix.checkForeign(k, e, c, "renewed")
		}
		for _, c := range e.Releases {
			ix.checkForeign(k, e, c, "released")
		}
	}
}

func (ix *Facts) checkForeign(k *Key, e *Epoch, c *Call, what string) {
	if c.Outcome != history.OK {
		return
	}
	i, _ := slices.BinarySearchFunc(k.Looks, c.Span.From, func(s *keyState, t int64) int { return cmp.Compare(s.First.To, t+1) })
	if i == 0 {
		return
	}
	s := k.Looks[i-1]
	if s.epoch != "" && s.epoch != e.ID && s.last().From >= c.Span.To {
		ix.find("key "+k.Name+": epoch "+e.ID+" "+what+" it with success while the probe saw it carry "+s.epoch, c.n, s.n)
	}
}
