package timeline

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// summaries draws the bars of takeovers that have no close-up, many in one picture.
func summaries(l *verdict.Lanes, ts []*verdict.TrialLane) []Picture {
	var out []Picture
	for len(ts) > 0 {
		n := min(len(ts), maxSummary)
		if len(out) == maxCut-1 { // the last one takes the rest into its table
			n = len(ts)
		}
		out = append(out, summary(l, ts[:n]))
		ts = ts[n:]
	}
	return out
}

// summary draws one bar for each takeover, all from the fault on.
func summary(l *verdict.Lanes, ts []*verdict.TrialLane) Picture {
	first, last := ts[0].Number, ts[0].Number
	for _, t := range ts {
		first, last = min(first, t.Number), max(last, t.Number)
	}
	id := "trials-" + count(first) + "-" + count(last)
	p := Picture{
		ID: id, Title: figures.Plural(len(ts), "shorter takeover") + ", numbers " + count(first) + " to " + count(last),
		Desc:    "Every bar is one takeover: residual, pickup and warm-up, counted from its fault.",
		Columns: trialColumns,
	}
	longest := 0.0
	for _, t := range ts {
		x0, x1 := mid(t.Clock), t.Until
		if t.Ended != nil {
			x1 = mid(*t.Ended)
		}
		longest = max(longest, x1-x0)
	}
	p.Rows = trialRows(ts)
	c := newCanvas(id)
	s := scale{0, max(longest*1.05, 1e-4), left, right - 60}
	y := 8.0
	var bars parts
	for _, t := range ts[:min(len(ts), maxSummary)] {
		own := scale{mid(t.Clock), mid(t.Clock) + s.to, s.x0, s.x1}
		bars.add(own, t, y+1, y+10)
		c.text("ink", end, left-8, y+10, sizeSmall, gutter-16, count(t.Number)+" "+t.Victim)
		_, x1 := trialExtent(own, t)
		c.text("away", start, x1+8, y+10, sizeSmall, right-x1, about(t.Whole()))
		y += 14
	}
	bars.put(c)
	if n := len(ts) - maxSummary; n > 0 {
		c.text("dim", start, left, y+10, sizeSmall, right-left, figures.Plural(n, "further takeover")+": in the table")
		y += 16
	}
	c.axis(s, 8, y+2, "time from the fault"+scaled(l.TimeScale), signed)
	p.SVG = c.finish(p.Title, p.Desc, y+44)
	return p
}
