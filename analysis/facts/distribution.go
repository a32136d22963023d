package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// Measures of distributions.
const (
	MeasureHeld = "held"
	MeasureWait = "wait"
)

// Distribution is how long the holds, or the waits, of the jobs of one class were.
type Distribution struct {
	Measure, Class string
	Values         []Value
	Ns             []int64 // held: the event of each value's grant
	Cut            int     // holds that ended with their holder's death, or were not seen whole: how long they would have been is not known
	Unended        []Value // of those that were not seen whole, how long each took at least
}

// DistributionsOf gives the holds and, for locks of jobs, the waits of the lock, by class in the order of their appearance.
func (ix *Facts) DistributionsOf(lock string) []*Distribution {
	var out []*Distribution
	at := func(measure, class string) *Distribution {
		for _, d := range out {
			if d.Measure == measure && d.Class == class {
				return d
			}
		}
		out = append(out, &Distribution{Measure: measure, Class: class})
		return out[len(out)-1]
	}
	for _, k := range ix.KeysOf(lock) {
		class := ""
		if len(k.Jobs) > 0 {
			class = k.Jobs[0].class
		}
		held := at(MeasureHeld, class)
		for _, e := range k.Epochs {
			held.hold(ix, e)
		}
		if k.Loop {
			continue
		}
		wait := at(MeasureWait, class)
		for _, w := range ix.waitersOf(k) {
			wait.Values = append(wait.Values, ix.waits(w)...)
		}
	}
	slices.SortStableFunc(out, func(a, b *Distribution) int { return cmp.Compare(a.Measure, b.Measure) })
	return slices.DeleteFunc(out, func(d *Distribution) bool { return len(d.Values) == 0 && d.Cut == 0 })
}

// hold adds the time for which e's holder relied on the lock.
func (d *Distribution) hold(ix *Facts, e *Epoch) {
	death, dead := ix.Deaths[e.Replica]
	if ix.Exp.Observed() {
		d.keep(ix, e, dead && death.Span.From <= e.Lease.Freed.To)
		return
	}
	if e.Belief == nil {
		return
	}
	if dead && e.Belief.End == death.Span {
		d.Cut++
		return
	}
	if e.Belief.End.To == Open || ix.takenDown(e.Belief.End.From) {
		d.cut(ix, e.Belief.Start, e.Belief.End)
		return
	}
	d.Values = append(d.Values, Value{Dur: between(e.Belief.Start, e.Belief.End)})
	d.Ns = append(d.Ns, e.N)
}

// keep adds the time for which the key was e's, by the looks at it: of an observed system nobody says for how long he relied on it.
func (d *Distribution) keep(ix *Facts, e *Epoch, died bool) {
	switch {
	case e.Rank == 0 || e.Ghost || e.Stranger:
		return
	case died:
		d.Cut++
		return
	}
	held, whole := ix.kept(e)
	if !whole {
		d.cut(ix, e.Granted, ix.freedUnseen(e))
		return
	}
	d.Values = append(d.Values, Value{Dur: held})
	d.Ns = append(d.Ns, e.N)
}

// cut counts a hold that was not seen whole. It may end after the run.
func (d *Distribution) cut(ix *Facts, from, to history.Span) {
	d.Cut++
	if lo := min(between(from, to).Lo, ix.Last-from.To); lo > 0 {
		d.Unended = append(d.Unended, Value{Dur: Dur{Lo: lo, Hi: Open}})
	}
}

// Longest are the values, and with them each hold of which no end was seen that took longer by then than any of them surely did: how long
// the longest took is not known then.
func (d *Distribution) Longest() []Value {
	var surely int64
	for _, v := range d.Values {
		surely = max(surely, v.Lo)
	}
	all := slices.Clip(d.Values)
	for _, v := range d.Unended {
		if v.Lo > surely {
			all = append(all, v)
		}
	}
	return all
}

// Evidence cites the longest holds.
func (d *Distribution) Evidence() []int64 {
	if len(d.Ns) != len(d.Values) {
		return nil
	}
	order := make([]int, len(d.Ns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.Values[b].Hi, d.Values[a].Hi) })
	var ns []int64
	for _, i := range order[:min(len(order), maxEvidence)] {
		ns = append(ns, d.Ns[i])
	}
	return Cite(ns...)
}
