package timeline

import (
	"fmt"
	"strings"
)

// mark is a kind of shape: how it is drawn, and what the legend of a picture that has it says about it.
type mark struct {
	text   string                         // "" = its name stands beside it
	styles []string                       // classes of styles, and patterns as "#name", one above the other
	half   float64                        // half the size of a point, and half the height of a bar in the legend
	wide   float64                        // how far apart two points must lie to be told apart
	point  func(p *path, x, y, r float64) // nil = a bar
	bar    func(p *path, x0, y0, x1, y1 float64)
}

// swatch is a filled box.
func swatch(text string, styles ...string) mark { return slim(text, 6, styles...) }

// slim is a box whose sample in the legend is that much high, above and below its middle.
func slim(text string, half float64, styles ...string) mark {
	return mark{text: text, styles: styles, half: half, bar: (*path).box}
}

// stroke is a level line.
func stroke(text, style string) mark {
	return mark{text: text, styles: []string{style}, bar: func(p *path, x0, _, x1, y float64) { p.line(x0, y, x1, y) }}
}

// shape is drawn around a point.
func shape(text, style string, half float64, draw func(p *path, x, y, r float64)) mark {
	return mark{text: text, styles: []string{style}, half: half, wide: half, point: draw}
}

// upright is a short line across a lane.
func upright(text, style string, half float64) mark {
	return mark{text: text, styles: []string{style}, half: half, wide: 1, point: func(p *path, x, y, r float64) { p.tick(x, y-r, y+r) }}
}

func square(p *path, x, y, r float64)   { p.box(x-r, y-r, x+r, y+r) }
func triangle(p *path, x, y, r float64) { p.down(x, y+r, r) }

// cut is the arrow at the end of what was not seen to end.
func cut(p *path, x, y, r float64) { p.line(x-r, y-r, x+r, y, x-r, y+r) }

// Marks of faults.
var (
	bolt     = shape("fault struck", "bolt", 5.5, triangle)
	inEffect = swatch("fault in effect", "struck", "#hatch", "effective")
	void     = shape("void shot: it did not land, or nobody saw it land", "hollow", 4.5, (*path).dot)
	dueAt    = shape("when the file declares it", "meant", 5.5, triangle)
	dueFor   = slim("how long the file declares it", 3, "declared")
)

// Marks of locks.
var (
	leaseRuns    = swatch("lease runs on, its holder gone or done", "ghost", "#ghost")
	leaseShort   = slim(leaseRuns.text, 6, "slim") // for want of room
	whoseUnknown = swatch("held, by whom is not known", nobody, "#rows")
	grant        = upright("", "thin", 9)
	overrun      = slim("still relied on, the lease is over", 2, "overrun")
	vague        = mark{text: "an instant known only to lie in here", styles: []string{"thin"}, bar: func(p *path, x0, y, x1, _ float64) { p.between(x0, x1, y) }}
	duplicate    = shape("duplicate terminal state", "mark", 5, func(p *path, x, y, r float64) { p.dot(x-r/2, y, r/2); p.dot(x+r/2, y, r/2) })
	twoBelieve   = slim("two replicas rely on the lock at once", 3, "overrun")
	stale        = shape("effect of a superseded owner", "hollow", 4, func(p *path, x, y, r float64) { p.poly(x-r, y+r, x+r, y+r, x, y-r) })
)

// Marks of takeovers.
var (
	residual    = swatch("takeover: left of the lease", "residual")
	pickup      = swatch("pickup, until the next grant", "pickup", "#weave")
	warmup      = swatch("warm-up, until the first effect", "warmup", "#comb")
	undivided   = swatch("recovery, hand-over or theft", "whole")
	firstEffect = shape("first effect", "mark", 3, (*path).dot)
	nextGrant   = shape("next grant: its effects are not seen", "hollow", 3, (*path).dot)
	unfinished  = shape("not seen to its end", "stroke", 3, cut)
	asked       = shape("asked, refused", "hollow", 2.5, (*path).dot)
	unanswered  = shape("asked, no answer", "stroke", 2.5, (*path).cross)
	granted     = shape("asked, granted", "mark", 5, triangle)
)

// Marks of replicas.
var (
	alive      = swatch("alive", "alive")
	relies     = slim("relies on a lock", 2, "r0")
	works      = slim("works", 5, "r0")
	effect     = upright("effect", "thin", 3)
	refused    = upright("effect refused", "whole", 4)
	paused     = swatch("paused", "#hatch")
	killed     = shape("killed", "stroke", 4.5, (*path).cross)
	lastSign   = shape("killed, and its end not seen: its last sign of life", "stroke", 6, func(p *path, x, y, r float64) { p.line(x, y-r, x+r, y, x, y+r) })
	lifeEnds   = upright("", "thin", 11)
	objectGone = shape("its pod's object gone", "hollow", 4, triangle)
	abandoned  = shape("work abandoned", "hollow", 5, (*path).diamond)
)

// Marks of the run and of promises.
var (
	phaseBegins = upright("a phase begins", "phase", 7)
	sloLimit    = stroke("limit of an SLO", "slo")
	possible    = swatch("where the declared timings put it", "band", "#bandhatch")
	rehearsed   = swatch("where rehearsals of the file had it", "rehearsed")
	baseMedian  = swatch("where the base's median lies", "band", "#bandhatch")
)

// explain has the legend say what m is.
func (c *canvas) explain(m mark) {
	for _, known := range c.marks {
		if known.text == m.text {
			return
		}
	}
	if m.text != "" {
		c.marks = append(c.marks, m)
	}
}

// legend explains what was drawn, as a list that is as narrow as its reader's screen.
func (c *canvas) legend() string {
	if len(c.marks) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(`<ul class="ld-legend">`)
	for _, m := range c.marks {
		var p path
		width := 24.0
		if m.point != nil {
			width = 14
			m.point(&p, 7, 9, min(m.half, 6))
		} else {
			m.bar(&p, 1, 9-m.half, 23, 9+m.half)
		}
		fmt.Fprintf(&b, `<li><svg xmlns="http://www.w3.org/2000/svg" width="%s" height="18" viewBox="0 0 %s 18" aria-hidden="true" focusable="false">`, num(width), num(width))
		c.lay(&b, m.styles, &p)
		fmt.Fprintf(&b, `</svg> %s</li>`, clean(m.text))
	}
	b.WriteString("</ul>")
	return b.String()
}
