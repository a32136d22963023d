package facts

import (
	"cmp"
	"slices"
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
	Least          int64   // observed: the longest of those that were not seen whole took at least so long
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
	if dead && e.Belief.End == death.Span || e.Belief.End.To == Open || ix.takenDown(e.Belief.End.From) {
		d.Cut++
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
		d.Cut++
		d.Least = max(d.Least, min(held.Lo, ix.Last-e.Granted.To)) // the lease may end after the run
		return
	}
	d.Values = append(d.Values, Value{Dur: held})
	d.Ns = append(d.Ns, e.N)
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
