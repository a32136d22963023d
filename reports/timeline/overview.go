package timeline

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// overview is the picture of the whole run in the making, drawn from the top down.
type overview struct {
	l      *verdict.Lanes
	c      *canvas
	s      scale
	key    legend
	owners owners
	y      float64
	drawn  shown    // parts of takeovers
	folded []string // what was left out for want of room
	table  table

	ghosts, overruns, vague, bolts, windows, voids, plans bool // drawn, so that the legend explains them
}

// Overview draws the whole run on one axis: what was broken and when, who held each lock, how long nobody worked under it, what every
// replica did, and the round trip to Redis.
func Overview(l *verdict.Lanes) Picture {
	o := &overview{l: l, c: newCanvas("overview"), s: scale{0, max(l.Seconds, 1e-3), left, right}, owners: ownersOf(l)}
	o.key.c = o.c
	p := Picture{
		ID: "overview", Title: "The run from start to end",
		Desc:    o.describe(),
		Columns: []string{"When", "What", "Who", "Where", "Detail"},
	}
	o.y = 6
	o.phases()
	top := o.y
	o.faults()
	o.y += 4
	lanes := o.y
	o.locks()
	o.replicas()
	o.roundTrips()
	o.shade(lanes, o.y)
	o.c.axis(o.s, top, o.y, "time since the start of the run"+scaled(l.TimeScale), tickText)
	o.boundaries(top, o.y)
	o.y = o.key.draw(o.y + 44)
	for _, f := range o.folded {
		o.y += 16
		o.c.text("dim", start, 14, o.y, sizeSmall, right-14, f)
	}
	p.SVG = o.c.finish(p.Title, p.Desc, o.y+8)
	p.Rows = o.rows()
	return p
}

// scaled says on an axis that times were scaled.
func scaled(by float64) string {
	if by == 1 || by == 0 {
		return ""
	}
	return fmt.Sprintf("; real time at time scale %v: 1s here is %s of the file", by, duration(1/by))
}

func (o *overview) describe() string {
	locks, keys, struck := len(o.l.Locks), 0, 0
	for _, k := range o.l.Locks {
		keys += len(k.Keys)
	}
	for i := range o.l.Faults {
		if o.l.Faults[i].Confirmed {
			struck++
		}
	}
	kind := ""
	if !o.l.Live {
		kind = " (a rehearsal in virtual time)"
	}
	return fmt.Sprintf("%s%s: %s of %s confirmed, %s over %s, %s on %s.", duration(o.l.Seconds), kind, figures.Count(struck), figures.Plural(len(o.l.Faults), "shot"),
		figures.Plural(len(o.l.Trials), "takeover"), figures.Plural(locks, "lock"), figures.Plural(keys, "key"), figures.Plural(len(o.l.Replicas), "replica"))
}

// phases names the phases of the run above the lanes.
func (o *overview) phases() {
	if len(o.l.Phases) == 0 {
		return
	}
	var r row
	o.c.text("dim", end, left-8, o.y+10, sizeSmall, gutter-16, "phase")
	for _, within := range []bool{true, false} { // those that fit their phase come first; the others stand where there is room after it
		for i, p := range o.l.Phases {
			x, until := o.s.x(p.At), right
			if i+1 < len(o.l.Phases) {
				until = o.s.x(o.l.Phases[i+1].At)
			}
			w := widthOf(p.Name, sizeSmall)
			if fits := x+5+w < until; fits != within {
				continue
			}
			if x, ok := r.place(w, left, right, x+4, x-4-w); ok {
				o.c.text("dim", start, x, o.y+10, sizeSmall, w+1, p.Name)
			}
		}
	}
	o.y += 16
}

// boundaries draws where one phase ended and the next began.
func (o *overview) boundaries(top, bottom float64) {
	var p path
	for _, ph := range o.l.Phases {
		p.tick(o.s.x(ph.At), top-14, bottom)
	}
	o.c.under("phase", &p)
	if len(o.l.Phases) > 0 {
		o.key.add(12, "a phase begins", func(x, y float64) {
			var p path
			p.tick(x+6, y-7, y+7)
			o.c.put("phase", &p)
		})
	}
}

// maxLinesThrough is how many instants get a line through all lanes; more would grey them.
const maxLinesThrough = 80

// shade lays every effective fault window over the lanes.
func (o *overview) shade(top, bottom float64) {
	var windows []stretch
	for i := range o.l.Faults {
		if w := o.l.Faults[i].Effective; w != nil {
			x1 := right
			if w.To != nil {
				x1 = o.s.x(*w.To)
			}
			windows = append(windows, stretch{o.s.x(w.From), x1})
		}
	}
	slices.SortStableFunc(windows, byLeft)
	var wide, thin path
	var instants []float64
	for _, w := range merged(windows, 0.5) {
		if w.x1-w.x0 < 1.5 {
			instants = append(instants, (w.x0+w.x1)/2)
		} else {
			wide.box(w.x0, top, w.x1, bottom)
		}
	}
	if len(instants) <= maxLinesThrough {
		for _, x := range instants {
			thin.tick(x, top, bottom)
		}
	}
	o.c.under("struck", &wide)
	o.c.weaveUnder("shade", &wide)
	o.c.under("kill", &thin)
}

func byLeft(a, b stretch) int {
	switch {
	case a.x0 < b.x0:
		return -1
	case a.x0 > b.x0:
		return 1
	}
	return 0
}

// name writes the name of a lane into the gutter, and a second line under it.
func (o *overview) name(y float64, name, under string) {
	o.c.text("ink", end, left-8, y, sizeName, gutter-16, name)
	if under != "" {
		o.c.text("dim", end, left-8, y+13, sizeSmall, gutter-16, under)
	}
}
