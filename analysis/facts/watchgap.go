package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// Stretches are those of w in which nobody ticked under a loop's lock: from tick to tick, and the one before the first tick or after the last
// where it is longer than all of these; without a tick the whole of w. They come with the events of the ticks around the longest.
func (ix *Facts) Stretches(lock string, w history.Span) (all []Value, evidence []int64) {
	var found []stretch
	begin, end := &effect{Span: history.At(w.From)}, &effect{Span: history.At(w.To)}
	last, inner := begin, 0
	add := func(next *effect) {
		gap := gapBetween(last, next)
		if gap.Span.From = max(gap.Span.From, w.From); ix.mayHide(lock, gap.Span.From) {
			gap.Lo = 0
		}
		found = append(found, stretch{ix.Valued(gap.Dur, ix.lateness(gap.From, gap.To, ix.wayOf(true, anybody)...)), last, next})
	}
	for _, k := range ix.KeysOf(lock) {
		for tick := range k.ticks() {
			if tick.Span.To <= w.From || tick.Span.From >= w.To {
				continue
			}
			add(tick)
			last, inner = tick, inner+1
		}
	}
	add(end)
	if inner > 1 { // one that the watch itself has cut short says little, unless it is longer than any other
		whole := slices.MaxFunc(found[1:len(found)-1], func(a, b stretch) int { return cmp.Compare(a.Hi, b.Hi) })
		found = slices.DeleteFunc(found, func(s stretch) bool { return (s.from == begin || s.to == end) && s.Lo <= whole.Hi })
	}
	slices.SortStableFunc(found, func(a, b stretch) int { return cmp.Compare(b.Hi, a.Hi) })
	for _, s := range found {
		all = append(all, s.Value)
	}
	return all, Cite(found[0].from.N, found[0].to.N)
}

// stretch is one between two ticks.
type stretch struct {
	Value
	from, to *effect
}
