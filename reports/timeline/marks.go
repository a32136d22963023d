package timeline

import (
	"fmt"
	"strings"
)

// mark is a kind of shape: how it is drawn, and what the legend of a picture that has it says about it.
type mark struct {
	styles []string                    // classes of styles, and patterns as "#name", one above the other
	text   string                      // "" = its name stands beside it
	width  float64                     // of the sample
	sample func(p *path, x, y float64) // from x on, around the line y
}

// swatch is a filled box.
func swatch(text string, styles ...string) mark {
	return mark{styles, text, 22, func(p *path, x, y float64) { p.box(x, y-6, x+22, y+6) }}
}

// stroke is a line.
func stroke(text, style string) mark {
	return mark{[]string{style}, text, 22, func(p *path, x, y float64) { p.line(x, y, x+22, y) }}
}

// shape is small, and drawn around a point.
func shape(text, style string, draw func(p *path, x, y float64)) mark {
	return mark{[]string{style}, text, 12, func(p *path, x, y float64) { draw(p, x+6, y) }}
}

// cut is the arrow at the end of what was not seen to end.
func cut(p *path, x, y float64) { p.line(x-3, y-3, x+3, y, x-3, y+3) }

// Marks of faults.
var (
	bolt     = shape("fault struck", "bolt", func(p *path, x, y float64) { p.down(x, y+6, 6) })
	inEffect = swatch("fault in effect", "struck", "#hatch", "effective")
	void     = shape("void shot: it did not land, or nobody saw it land", "hollow", func(p *path, x, y float64) { p.dot(x, y, 4.5) })
	dueAt    = shape("when the file declares it", "meant", func(p *path, x, y float64) { p.down(x, y+6, 5.5) })
	dueFor   = mark{[]string{"declared"}, "how long the file declares it", 22, func(p *path, x, y float64) { p.box(x, y-3, x+22, y+3) }}
)

// Marks of locks.
var (
	leaseRuns    = swatch("lease runs on, its holder gone or done", "ghost", "#ghost")
	whoseUnknown = swatch("held, by whom is not known", nobody, "#rows")
	overrun      = mark{[]string{"overrun"}, "still relied on, the lease is over", 22, func(p *path, x, y float64) { p.box(x, y-2, x+22, y+2) }}
	vague        = shape("an instant known only to lie in here", "thin", func(p *path, x, y float64) { p.between(x-6, x+6, y) })
	duplicate    = shape("duplicate terminal state", "mark", func(p *path, x, y float64) { p.dot(x-2.5, y, 2.5); p.dot(x+2.5, y, 2.5) })
	twoBelieve   = mark{[]string{"overrun"}, "two replicas rely on the lock at once", 22, func(p *path, x, y float64) { p.box(x, y-3, x+22, y+3) }}
	stale        = shape("effect of a superseded owner", "hollow", func(p *path, x, y float64) { p.poly(x-4, y+4, x+4, y+4, x, y-4) })
)

// Marks of takeovers.
var (
	residual    = swatch("takeover: left of the lease", "residual")
	pickup      = swatch("pickup, until the next grant", "pickup", "#weave")
	warmup      = swatch("warm-up, until the first effect", "warmup", "#comb")
	undivided   = swatch("recovery, hand-over or theft", "whole")
	firstEffect = shape("first effect", "mark", func(p *path, x, y float64) { p.dot(x, y, 3) })
	unfinished  = shape("not seen to its end", "stroke", cut)
	asked       = shape("asked, refused", "hollow", func(p *path, x, y float64) { p.dot(x, y, 2.5) })
	unanswered  = shape("asked, no answer", "stroke", func(p *path, x, y float64) { p.cross(x, y, 2.5) })
	granted     = shape("asked, granted", "mark", func(p *path, x, y float64) { p.down(x, y+5, 5) })
)

// Marks of replicas.
var (
	alive  = swatch("alive", "alive")
	relies = mark{[]string{"r0"}, "relies on a lock (thin), works (thick)", 22, func(p *path, x, y float64) {
		p.box(x, y+2, x+22, y+5)
		p.box(x+6, y-6, x+22, y+2)
	}}
	effect     = shape("effect", "thin", func(p *path, x, y float64) { p.tick(x, y-4, y+4) })
	refused    = shape("effect refused", "whole", func(p *path, x, y float64) { p.tick(x, y-6, y+6) })
	paused     = swatch("paused", "#hatch")
	killed     = shape("killed", "stroke", func(p *path, x, y float64) { p.cross(x, y, 4) })
	lastSign   = shape("killed, and its end not seen: its last sign of life", "stroke", func(p *path, x, y float64) { p.line(x-3, y-6, x+3, y, x-3, y+6) })
	objectGone = shape("its pod's object gone", "hollow", func(p *path, x, y float64) { p.down(x, y+4, 4) })
	abandoned  = shape("work abandoned", "hollow", func(p *path, x, y float64) { p.diamond(x, y, 5) })
)

// Marks of the run and of promises.
var (
	phaseBegins = shape("a phase begins", "phase", func(p *path, x, y float64) { p.tick(x, y-7, y+7) })
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
		m.sample(&p, 1, 9)
		width := num(m.width + 2)
		fmt.Fprintf(&b, `<li><svg xmlns="http://www.w3.org/2000/svg" width="%s" height="18" viewBox="0 0 %s 18" aria-hidden="true" focusable="false">`, width, width)
		c.lay(&b, m.styles, &p)
		fmt.Fprintf(&b, `</svg> %s</li>`, clean(m.text))
	}
	b.WriteString("</ul>")
	return b.String()
}
