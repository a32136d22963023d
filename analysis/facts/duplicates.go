package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Causes of duplicate terminal states. What is told of one is what happened: who wrote, under which lease, and who held the key then. The
// kind is decided from all the writes so far, so that the late write of a paused holder is stale whether it came second or first.

// Kinds of duplicate terminal states.
const (
	dupStale        = "stale"        // a writer's lease had surely ended, and another held the key by then or later
	dupRepeated     = "repeated"     // each writer surely held the key
	dupUnattributed = "unattributed" // neither is known
	dupConflicting  = "conflicting"  // a flag: another state than the first
)

// duplicate describes a job with more than one applied terminal write.
func (ix *Facts) duplicate(j *job) verdict.Duplicate {
	d := verdict.Duplicate{Lock: j.lock, Job: j.ID, Kinds: []string{}, Epochs: []string{}, At: []float64{}, Resurrected: j.resurrected()}
	var evidence []int64
	stale, held := false, true // of the writes so far: one of them was, all of them did
	for i, f := range j.Terminals {
		w := ix.writeOf(f)
		d.Epochs, d.At, d.Writes = append(d.Epochs, f.Epoch.ID), append(d.At, w.At), append(d.Writes, w)
		evidence = append(evidence, f.N)
		stale, held = stale || ix.stale(f), held && w.Held
		if i == 0 {
			continue
		}
		if j.surelyAgain(i) {
			d.Extra++
		}
		if f.State != j.Terminals[0].State {
			addKind(&d, dupConflicting)
		}
		switch {
		case stale:
			addKind(&d, dupStale)
		case held:
			addKind(&d, dupRepeated)
		default:
			addKind(&d, dupUnattributed)
		}
	}
	d.Evidence = Cite(evidence...)
	return d
}

func addKind(d *verdict.Duplicate, kind string) {
	if !slices.Contains(d.Kinds, kind) {
		d.Kinds = append(d.Kinds, kind)
	}
}

// stale reports an effect that surely came after the end of its epoch, where another epoch followed that one, or surely after an effect of
// a later epoch.
func (ix *Facts) stale(f *effect) bool {
	if f.Epoch.Rank == 0 || f.Foreign && !f.named() {
		return false
	}
	late, _ := f.unowned()
	return f.superseded() || late && f.key.Next(f.Epoch) != nil
}

// superseded reports an effect of a later-granted epoch of the key earlier in the ledger.
func (f *effect) superseded() bool {
	return slices.ContainsFunc(f.key.Effects, func(o *effect) bool {
		return o.before(f) && o.Fresh() && o.Epoch.Rank > f.Epoch.Rank
	})
}

// writeOf is what happened when f was written.
func (ix *Facts) writeOf(f *effect) verdict.TerminalWrite {
	e := f.Epoch
	w := verdict.TerminalWrite{At: Seconds(f.Span.To), State: f.State, Replica: cmp.Or(e.Replica, f.Writer), Held: f.owned() && !f.unsure && (!f.Foreign || f.named())}
	w.Called = ix.Called[w.Replica]
	if e.Rank == 0 || f.unsure || w.Held {
		return w
	}
	if late := between(e.Lease.Freed, f.Span); late.Lo > 0 && e.Lease.Freed.To != Open {
		after := late.Range()
		w.AfterEnd = &after
		if by := f.key.owner(f.Span); by != nil && by != e {
			w.Meanwhile = (&verdict.TerminalWrite{Replica: by.Replica, Called: ix.Called[by.Replica]}).Writer()
		}
	}
	for _, s := range ix.Shots {
		if s.Effective() && s.Applied.From <= f.Span.To && slices.Contains(s.Exposed, e) {
			w.Fault = s.Op
		}
	}
	return w
}

// DuplicateAdvice is what would have kept the duplicate away, and is not there yet.
func (ix *Facts) DuplicateAdvice(d *verdict.Duplicate) string {
	const refuse = "let the resource refuse a second terminal state"
	stale, work := slices.Contains(d.Kinds, dupStale), ix.Exp.WorkUnder(d.Lock)
	switch {
	case stale && work != nil && !ix.Exp.Fenced(d.Lock):
		return "Let the resource compare fences (fenced: true), so that a superseded holder cannot write."
	case stale && work != nil:
		return "The fence did not refuse the late write. Mint a higher fence for each grant, and let the resource refuse equal ones of another holder."
	case stale:
		return "Stop the work when the lock is lost, and let the resource compare fences, so that a superseded holder cannot write."
	case work != nil && !work.Look && !work.Strict:
		return "Look at the job's state under the lock before working (look: true), or " + refuse + " (strict: true)."
	case work != nil && !work.Strict:
		return "The worker looked at the job's state and finished it again: make the look and the write one step, or " + refuse + " (strict: true)."
	case work != nil:
		return "The resource took a second terminal state although it is to refuse it (strict: true): check its comparison."
	}
	if l := ix.Exp.Lock(d.Lock); l != nil && l.Keyless() {
		return "Look at the job's state before working, or " + refuse + "."
	}
	if x := ix.Exp.EffectsOf(d.Lock); slices.Contains(d.Kinds, dupUnattributed) && x != nil && x.Map.Token == "" {
		return "Let the resource refuse a second terminal state. Write the lock's token into each effect (map: {token: COLUMN}), so that the cause can be told."
	}
	return "Look at the job's state under the lock before working, or " + refuse + "."
}
