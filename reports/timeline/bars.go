package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/internal/figures"
)

const (
	maxLines  = 40 // takeovers with a line and a label each; more become columns
	barHeight = 14.0
)

// bars draws what every takeover consists of.
func (p *plot) bars(id string) Picture {
	c := newCanvas(id)
	pic := Picture{Title: "What the takeovers of lock " + p.lock + " consist of", Desc: p.consist(),
		Columns: []string{"#", "Fault", "Key", "Left of the lease", "Pickup", "Warm-up", "Takeover", "Tick gap"}}
	pic.Rows = rowsOf(p.ts, func(t numbered) []string {
		tick := ""
		if t.TickGap != nil {
			tick = bracket(*t.TickGap)
		}
		return []string{count(t.n), t.Fault, t.Key, optional(t.Residual), optional(t.Pickup), optional(t.Warmup), bracket(t.Whole()), tick}
	})
	var y float64
	if len(p.ts) <= maxLines {
		y = c.lines(p.ts, p.scale)
	} else {
		y = c.columns(p.ts, p.lock, p.scale)
	}
	return c.finish(pic, y)
}

func (p *plot) consist() string {
	var sum [3]float64
	for _, t := range p.ts {
		for i, part := range t.Parts() {
			sum[i] += centre(part.Long)
		}
	}
	n := float64(len(p.ts))
	return "On average " + duration(sum[0]/n) + " left of the lease, " + duration(sum[1]/n) + " pickup, " + duration(sum[2]/n) + " warm-up."
}

// summaries draws the bars of takeovers that have no close-up, many in one picture.
func summaries(ts []*TrialLane, timeScale float64) []Picture {
	var out []Picture
	for len(ts) > 0 {
		n := min(len(ts), maxSummary)
		if len(out) == maxCut-1 { // the last one takes the rest into its table
			n = len(ts)
		}
		out = append(out, summary(ts[:n], timeScale))
		ts = ts[n:]
	}
	return out
}

func summary(ts []*TrialLane, timeScale float64) Picture {
	var bars []numbered
	first, last := ts[0].Number, ts[0].Number
	for _, t := range ts {
		bars = append(bars, numbered{&t.Takeover, t.Number})
		first, last = min(first, t.Number), max(last, t.Number)
	}
	c := newCanvas("trials-" + count(first) + "-" + count(last))
	p := Picture{
		Title:   figures.Plural(len(ts), "shorter takeover") + ", numbers " + count(first) + " to " + count(last),
		Desc:    "Every bar is one takeover: what was left of the lease, pickup and warm-up, counted from its fault.",
		Columns: trialColumns, Rows: rowsOf(ts, trialRow),
	}
	var folded []string
	if n := len(ts) - maxSummary; n > 0 {
		folded = append(folded, figures.Plural(n, "further takeover")+": in the table")
	}
	return c.finish(p, c.lines(bars[:min(len(ts), maxSummary)], timeScale), folded...)
}

func longest(ts []numbered) float64 {
	v := 1e-4
	for _, t := range ts {
		v = max(v, length(t.Takeover))
	}
	return v
}

// lines draws a horizontal bar for each takeover, and returns where a legend has room.
func (c *canvas) lines(ts []numbered, timeScale float64) float64 {
	const top = 8.0
	s := scale{0, longest(ts), left, right - 80}
	y := top
	var bars parts
	for _, t := range ts {
		c.text("ink", end, left-8, y+10, sizeSmall, gutter-16, t.name())
		x := bars.stack(t.Takeover, s.x, func(p *path, from, to float64) { p.box(from, y+1, max(to, from+0.5), y+11) })
		if t.Hi == nil {
			bars.open.line(x, y+1, x+6, y+6, x, y+11)
		}
		c.text("away", start, x+9, y+10, sizeSmall, right-x-6, about(t.Whole()))
		y += barHeight
	}
	bars.show(c)
	c.axis(s, top, y+2, "time from the fault"+scaled(timeScale), tickText)
	return y + 44
}

// columns draws a vertical bar for each takeover, or for the longest of those that share one, and returns where a legend has room.
func (c *canvas) columns(ts []numbered, lock string, timeScale float64) float64 {
	const top, height = 8.0, 220.0
	n := len(ts)
	w := max((right-left)/float64(n), 2)
	per := int(float64(n)*w/(right-left) + 0.999)
	s := scale{0, longest(ts) * 1.04, 0, height}
	level := func(v float64) float64 { return top + height - s.x(v) }
	at, step := s.ticks(5)
	var grid path
	for _, v := range at {
		grid.line(left, level(v), right, level(v))
		c.text("dim", end, left-6, level(v)+4, sizeSmall, 60, tickText(v, step, s.to))
	}
	c.under("grid", &grid)
	c.text("ink", end, left-50, top+34, sizeName, gutter-58, lock)
	var bars parts
	k := 0.0
	for shared := range slices.Chunk(ts, per) {
		t := slices.MaxFunc(shared, func(a, b numbered) int { return cmp.Compare(length(a.Takeover), length(b.Takeover)) })
		x0, x1 := left+k*w, min(left+(k+1)*w-min(3, w/4), right)
		bars.stack(t.Takeover, level, func(p *path, from, to float64) { p.box(x0, to, x1, from) })
		k++
	}
	bars.show(c)
	c.floor(top + height)
	text := figures.Plural(n, "takeover") + " in the order of the run" + scaled(timeScale)
	if per > 1 {
		text += "; a column is the longest of " + count(per)
	}
	c.text("dim", middle, (left+right)/2, top+height+18, sizeSmall, right-left, text)
	return top + height + 34
}
