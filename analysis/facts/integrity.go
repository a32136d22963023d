package facts

import (
	"strconv"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// A history that contradicts its own rules was changed after it was recorded, or was recorded wrongly. Nothing can be shown by it then:
// each contradiction is a finding, and no row passes. A change that contradicts nothing is not seen (docs/judging.md says which).

// contradict notes that the record contradicts itself.
func (ix *Facts) contradict(what string, evidence ...int64) {
	ix.find(what, evidence...)
	ix.Damage.add(what)
}

// again reports an event that the history has twice, under another number. It is judged once. Where nothing is recorded but in memory,
// as in a rehearsal, nobody has changed anything. A probe of many keys tells of one gap as often as it has reasons, and one of logs of
// each line that was cut.
func (r *reader) again(ev *history.Event) bool {
	if r.ix.head.Mode != history.Live || ev.Match != nil || ev.Belief != nil && ev.Belief.Direct || ev.Object != nil || ev.Unread != nil || ev.Kind == history.GapKind { // a program may say the same line twice at once
		return false
	}
	id := identity(ev)
	first, twice := r.seen[id]
	if !twice {
		r.seen[id] = ev.N
		return false
	}
	r.ix.contradict("the history has the same event twice: "+string(ev.Kind)+" of "+ev.Source+" at "+figures.Clock(ev.From), first, ev.N)
	return true
}

// print is FNV-1a over what tells events apart: the same in every judgement, and without an allocation.
type print uint64

func (p *print) text(s string) {
	h := uint64(*p)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	*p = print((h ^ 0xff) * 1099511628211)
}

func (p *print) number(n int64) {
	h := uint64(*p)
	for shift := 0; shift < 64; shift += 8 {
		h = (h ^ uint64(n)>>shift&0xff) * 1099511628211
	}
	*p = print(h)
}

// identity is what two records of one event have in common, whatever their numbers.
func identity(ev *history.Event) uint64 {
	p := print(14695981039346656037)
	for _, s := range [...]string{string(ev.Kind), ev.Source, ev.Lock, ev.Key, ev.Epoch, ev.Op} {
		p.text(s)
	}
	p.number(ev.From)
	p.number(ev.To)
	switch {
	case ev.Entry != nil:
		p.number(ev.Entry.Pos)
	case ev.Belief != nil:
		p.text(ev.Belief.Incarnation)
		p.text(ev.Belief.Named)
	case ev.Look != nil && ev.Look.Final:
		p.number(1)
	case ev.Job != nil:
		p.text(ev.Job.ID)
		p.text(ev.Job.To)
	case ev.Coverage != nil:
		p.text(ev.Coverage.Probe)
	case ev.Sample != nil:
		p.text(ev.Sample.Metric)
		p.text(ev.Sample.Target)
		if ev.Sample.Final { // a server may tell of a new sample at the last question
			p.number(1)
		}
	case ev.Replica != nil:
		p.text(ev.Replica.Incarnation)
	case ev.Incarnation != nil:
		p.text(ev.Incarnation.Store)
	case ev.Phase != nil:
		p.text(ev.Phase.Name)
	case ev.Note != nil:
		p.text(ev.Note.What)
		p.text(ev.Note.Why)
	}
	return uint64(p)
}

// checkShots holds the times of each fault against one another: it was announced, then applied, then confirmed, and recorded after it
// was applied.
func (ix *Facts) checkShots() {
	for _, s := range ix.Shots {
		switch a := s.Applied; {
		case a == nil:
		case s.intent != nil && a.From < s.intent.From:
			ix.contradict("fault "+s.Op+" was applied at "+figures.Clock(a.From)+", before it was announced at "+figures.Clock(s.intent.From), s.intent.N, a.N)
		case s.confirmed != nil && s.confirmed.To < a.From:
			ix.contradict("fault "+s.Op+" was confirmed by "+figures.Clock(s.confirmed.To)+", before it was applied at "+figures.Clock(a.From), a.N, s.confirmed.N)
		case a.At != 0 && a.At < a.To:
			ix.contradict("fault "+s.Op+" was applied by "+figures.Clock(a.To)+", after that was recorded at "+figures.Clock(a.At), a.N)
		}
	}
}

// replay holds the ledger's answers against its own rules (lockcore.LedgerTable), entry by entry, up to the first that is missing: an
// answer that no order of its entries explains was not the ledger's.
func (ix *Facts) replay() {
	marks, terminal := map[string]int64{}, map[string]bool{}
	latest := history.Span{From: never}
	for i, f := range ix.effects {
		if f.Pos != int64(i+1) {
			return
		}
		if f.seen.To < latest.From {
			ix.contradict(f.where()+"was read by "+figures.Clock(f.seen.To)+", before one ahead of it was written", f.N)
		}
		if f.seen.From > latest.From {
			latest = f.seen
		}
		if first := f.claim.first; first != nil {
			ix.contradict(f.where()+"is of the same operation as entry "+strconv.FormatInt(first.Pos, 10)+", and an operation is entered once", first.N, f.N)
		} else {
			f.claim.first = f
		}
		if why := ix.unlike(f, marks[f.key.Name], terminal[f.Subject]); why != "" {
			ix.contradict(f.where()+why, f.N)
		}
		if !f.Fresh() {
			continue
		}
		marks[f.key.Name] = max(marks[f.key.Name], f.Fence)
		if f.State != history.StateBegin && f.State != history.StateTick {
			terminal[f.Subject] = f.Terminal
		}
	}
}

// unlike says how the answer to f differs from what the ledger answers after the entries before it, of which mark is the highest fence
// under its key and done says that its subject is in a terminal state; "" where it may be its answer. Which rules it keeps to, its writers
// ask for: lockdrill's own as the file says, others as they like.
func (ix *Facts) unlike(f *effect, mark int64, done bool) string {
	fenced, strict, told := ix.rules(f.key.Lock)
	switch {
	case !f.Accepted && f.Reason == "":
		return "was refused without a reason"
	case !f.Accepted && f.Reason == history.ReasonFenced && f.Fence >= mark:
		return "was refused for its fence, and none before it has a higher one"
	case !f.Accepted && f.Reason == history.ReasonTerminal && !(f.Terminal && done):
		return "was refused because " + f.Subject + " had come to its end, and no entry before it says so"
	case !told:
	case !f.Accepted && f.Reason == history.ReasonFenced && !fenced:
		return "was refused for its fence, and the experiment says fenced: false"
	case !f.Accepted && f.Reason == history.ReasonTerminal && !strict:
		return "was refused because " + f.Subject + " had come to its end, and the experiment does not say strict: true"
	case f.Accepted && fenced && f.Fence != 0 && f.Fence < mark:
		return "was accepted, and one before it has a higher fence"
	case f.Accepted && strict && f.Terminal && done:
		return "was accepted, and " + f.Subject + " had come to its end before it"
	}
	return ""
}

// rules are those that the lock's writers ask the ledger to keep to; told is false where they are somebody else's, who may ask for others.
func (ix *Facts) rules(lock string) (fenced, strict, told bool) {
	fenced, told = ix.Exp.Fenced(lock), ix.ownCalls
	if w := ix.Exp.WorkUnder(lock); w != nil {
		strict = w.Strict
	}
	return fenced, strict, told
}
