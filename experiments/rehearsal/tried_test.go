package rehearsal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tried counts what was compared.
type tried struct {
	Takeovers, Others, Recoveries, Censored, Overlaps, Effects, Debts, Unowned, Duplicates, Abandoned, Missed, Late, Needed, Needless, Unclear int

	widths map[string]widths
}

// widths sums up how much the ranges of one measure say: one from 0 to open holds any truth.
type widths struct {
	n, open int
	sum     float64 // of those that are closed, in the measure's unit
}

func (w widths) mean() float64 { return w.sum / float64(max(1, w.n-w.open)) }

func (w widths) opened() float64 { return float64(w.open) / float64(max(1, w.n)) }

func (a *tried) width(measure string, lo float64, hi *float64) {
	if a.widths == nil {
		a.widths = map[string]widths{}
	}
	w := a.widths[measure]
	if w.n++; hi == nil {
		w.open++
	} else {
		w.sum += *hi - lo
	}
	a.widths[measure] = w
}

func (a *tried) add(b tried) {
	a.Takeovers += b.Takeovers
	a.Others += b.Others
	a.Recoveries += b.Recoveries
	a.Censored += b.Censored
	a.Overlaps += b.Overlaps
	a.Effects += b.Effects
	a.Debts += b.Debts
	a.Unowned += b.Unowned
	a.Duplicates += b.Duplicates
	a.Abandoned += b.Abandoned
	a.Missed += b.Missed
	a.Late += b.Late
	a.Needed += b.Needed
	a.Needless += b.Needless
	a.Unclear += b.Unclear
	if a.widths == nil {
		a.widths = map[string]widths{}
	}
	for m, w := range b.widths {
		s := a.widths[m]
		a.widths[m] = widths{s.n + w.n, s.open + w.open, s.sum + w.sum}
	}
}

func (a *tried) text() string {
	var b strings.Builder
	for _, m := range slices.Sorted(maps.Keys(a.widths)) {
		w := a.widths[m]
		fmt.Fprintf(&b, "\n%-30s %6d ranges, %.4f open, the others %.6f wide", m, w.n, w.opened(), w.mean())
	}
	return b.String()
}
