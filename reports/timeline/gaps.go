package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// endedByGrant is the end, in verdict.json's words, of a takeover whose effects are not seen.
const endedByGrant = "grant"

// endWords are what ended a takeover, in words.
var endWords = map[string]string{"effect": "the first effect", endedByGrant: "the next grant", "renewal": "a renewal by the victim", "censored": "nothing that was seen"}

// extent is where a takeover lies on the axis.
func (s scale) extent(t *TrialLane) (x0, x1 float64) {
	x0 = s.x(mid(t.Clock))
	if t.Ended == nil {
		return x0, max(x0, s.x(t.Until))
	}
	return x0, max(x0, s.x(mid(*t.Ended)))
}

// cuts are where residual and pickup end in a takeover that is drawn from x0 to x1.
func (s scale) cuts(t *TrialLane, x0, x1 float64) (residual, pickup float64) {
	residual, pickup = x0, x1
	if !t.Held.End.Open() {
		residual = min(max(s.x(mid(t.Held.End)), x0), x1)
	}
	if t.Next != nil {
		pickup = min(max(s.x(mid(t.Next.Granted)), residual), x1)
	}
	return residual, pickup
}

// gap draws how long nobody worked after a fault: what was left of the lease, pickup and warm-up, each where it was on the axis.
func (n *lane) gap(t *TrialLane, y0, y1 float64) {
	x0, x1 := n.w.s.extent(t)
	x1 = max(x1, x0+1.5)
	switch {
	case t.Class == verdict.ClassRecovery || t.Class == verdict.ClassHandOver || t.Fault == "":
		n.bar(undivided, y0+2, y1-2, x0, x1)
		return
	case t.Residual == nil:
		n.bar(residual, y0, y1, x0, x1)
	default:
		a, b := n.w.s.cuts(t, x0, x1)
		n.bar(residual, y0, y1, x0, max(a, x0+0.5))
		if b-a > 0.4 {
			n.bar(pickup, y0, y1, a, b)
		}
		if x1-b > 0.4 {
			n.bar(warmup, y0, y1, b, x1)
		}
	}
	switch middle := (y0 + y1) / 2; {
	case t.Ended == nil: // not seen: it goes on to nobody knows where
		n.point(unfinished, middle, x1+3)
	case t.Takeover.End == endedByGrant:
		n.point(nextGrant, middle, x1)
	default:
		n.point(firstEffect, middle, x1)
	}
}

// trialsOf are the trials that match, of each fault the longest.
func (w *window) trialsOf(match func(*TrialLane) bool) []*TrialLane {
	var out []*TrialLane
	at := map[string]int{}
	for i := range w.l.Trials {
		t := &w.l.Trials[i]
		if !match(t) {
			continue
		}
		k, known := at[t.Fault]
		switch {
		case t.Fault == "" || !known:
			at[t.Fault] = len(out)
			out = append(out, t)
		case byLength(t, out[k]) < 0:
			out[k] = t
		}
	}
	return out
}

// byLength orders the longest first; what did not end took longest.
func byLength(a, b *TrialLane) int {
	switch {
	case a.Hi == nil && b.Hi != nil:
		return -1
	case b.Hi == nil && a.Hi != nil:
		return 1
	case a.Hi != nil && *a.Hi != *b.Hi:
		return cmp.Compare(*b.Hi, *a.Hi)
	}
	return cmp.Compare(b.Lo, a.Lo)
}

// maxGaps is how many takeovers at the same time are drawn one below the other.
const maxGaps = 4

// gaps draws the takeovers under a lane, in one line where they do not overlap, and their lengths under it as far as there is room, the
// longest first.
func (w *window) gaps(ts []*TrialLane) {
	if len(ts) == 0 {
		w.y += 14
		return
	}
	n := w.unnamed()
	lines := make([]row, 1, maxGaps)
	for _, t := range ts {
		x0, x1 := w.s.extent(t)
		i := slices.IndexFunc(lines, func(r row) bool { return r.free(x0, x1+4) })
		if i < 0 {
			if len(lines) < maxGaps {
				lines = append(lines, row{})
			}
			i = len(lines) - 1 // more at once than there are lines
		}
		lines[i].take(x0, x1+4)
		n.gap(t, 10*float64(i), 10*float64(i)+8)
	}
	n.draw(10 * float64(len(lines)-1))
	var lengths row
	for _, t := range slices.SortedStableFunc(slices.Values(ts), func(a, b *TrialLane) int { return cmp.Compare(b.Lo, a.Lo) }) {
		x0, x1 := w.s.extent(t)
		text := about(t.Whole())
		width := widthOf(text, sizeSmall)
		if x, ok := lengths.place(width, left, right, (x0+x1-width)/2, x0, x1-width); ok {
			w.c.text("away", start, x, w.y+20, sizeSmall, width+1, text)
		}
	}
	w.y += 30
}
