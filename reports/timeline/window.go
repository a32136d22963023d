package timeline

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// window draws a stretch of a run lane by lane, from the top down: the whole run, or one takeover close up.
type window struct {
	l      *Lanes
	trial  *TrialLane // that a close-up is about; nil = the whole run
	c      *canvas
	s      scale // of seconds since the start of the run
	y      float64
	hues   map[string]int // of every replica over its lives
	folded []string       // what was left out for want of room
	table  table
}

func newWindow(id string, l *Lanes, from, to float64) *window {
	w := &window{l: l, c: newCanvas(id), s: scale{from, to, left, right}, y: 6, hues: map[string]int{}}
	for i := range l.Replicas {
		w.hues[l.Replicas[i].Name] = i
	}
	return w
}

// Overview draws the whole run on one axis: what was broken and when, who held each lock, how long nobody worked under it, and what every
// replica did.
func Overview(l *Lanes) Picture {
	w := newWindow("overview", l, 0, max(l.Seconds, 1e-3))
	w.phases()
	top := w.y
	w.faults()
	w.y += 4
	lanes := w.y
	for i := range l.Locks {
		w.lock(&l.Locks[i])
	}
	w.y += 4
	for i := range l.Replicas {
		w.replica(&l.Replicas[i])
	}
	w.shade(lanes, w.y)
	w.boundaries(top, w.y)
	p := Picture{Title: "The run from start to end", Desc: w.describe(), Columns: []string{"When", "What", "Who", "Where", "Detail"}, Rows: w.rows()}
	return w.finish(p, top, 0)
}

// finish draws the axis, which counts from zero, and the legend.
func (w *window) finish(p Picture, top, zero float64) Picture {
	name, text := "time since the start of the run", tickText
	if zero != 0 || w.trial != nil {
		name, text = "time from the fault", signed
	}
	w.c.axis(scale{w.s.from - zero, w.s.to - zero, w.s.x0, w.s.x1}, top, w.y, name+scaled(w.l.TimeScale), text)
	return w.c.finish(p, w.y+44, w.folded...)
}

// scaled says on an axis that times were scaled.
func scaled(by float64) string {
	if by == 1 || by == 0 {
		return ""
	}
	return fmt.Sprintf("; real time at time scale %v: 1s here is %s of the file", by, duration(1/by))
}

func (w *window) describe() string {
	keys, struck := 0, 0
	for _, k := range w.l.Locks {
		keys += len(k.Keys)
	}
	for i := range w.l.Faults {
		if w.l.Faults[i].Confirmed {
			struck++
		}
	}
	kind := ""
	if !w.l.Live {
		kind = " (a rehearsal in virtual time)"
	}
	return fmt.Sprintf("%s%s: %s of %s confirmed, %s over %s, %s on %s.", duration(w.l.Seconds), kind, figures.Count(struck), figures.Plural(len(w.l.Faults), "shot"),
		figures.Plural(len(w.l.Trials), "takeover"), figures.Plural(len(w.l.Locks), "lock"), figures.Plural(keys, "key"), figures.Plural(len(w.l.Replicas), "replica"))
}

// hue is the class of an incarnation's fill; ok is false where it is nobody's that is known.
func (w *window) hue(incarnation string) (class string, ok bool) {
	h, ok := w.hues[history.ReplicaOf(incarnation)]
	return "r" + count(h%hues), ok
}

// nobody is the class of a fill whose owner is not known.
const nobody = "nobody"

// owner is the class of an owner's fill.
func (w *window) owner(incarnation string) string {
	if class, known := w.hue(incarnation); known {
		return class
	}
	return nobody
}

// heldBy is the mark of those who have that hue.
func (w *window) heldBy(hue int) mark {
	var names []string
	for i := hue; i < len(w.l.Replicas); i += hues {
		names = append(names, w.l.Replicas[i].Name)
	}
	return swatch("held by "+fit(strings.Join(names, ", "), sizeSmall, 300), "r"+count(hue))
}

// name writes the name of a lane into the gutter, and a second line under it.
func (w *window) name(y float64, name, under string) {
	w.c.text("ink", end, left-8, y, sizeName, gutter-16, name)
	w.c.text("dim", end, left-8, y+13, sizeSmall, gutter-16, under)
}

// x of an instant.
func (w *window) x(m Moment) float64 { return w.s.x(mid(m)) }

// until is where an end lies; the right edge where it was never seen.
func (w *window) until(m Moment) float64 {
	if m.Open() {
		return w.s.x1
	}
	return w.x(m)
}

// has reports whether the instant lies in the window.
func (w *window) has(m Moment) bool { return w.s.has(mid(m)) }

// meets reports whether any of a stretch lies in the window.
func (w *window) meets(from, to Moment) bool {
	return mid(from) <= w.s.to && (to.Open() || mid(to) >= w.s.from)
}

// stretches of what lies in the window, those that touch as one.
func (w *window) stretches(es []Extent) []stretch {
	var out []stretch
	for _, e := range es {
		if w.meets(e.Start, e.End) {
			x0 := w.x(e.Start)
			out = append(out, stretch{x0, max(x0+0.5, w.until(e.End))})
		}
	}
	return merged(out, 0.6)
}

// bracket draws how exactly an instant is known, where that can be seen.
func (w *window) bracket(p *path, m Moment, y float64) {
	if x0, x1 := w.s.x(m.From), w.s.x(m.To); !m.Open() && x1-x0 >= 3 {
		p.between(x0, x1, y)
	}
}

// phases names the phases of the run above the lanes.
func (w *window) phases() {
	if len(w.l.Phases) == 0 {
		return
	}
	var r row
	w.c.text("dim", end, left-8, w.y+10, sizeSmall, gutter-16, "phase")
	for _, within := range []bool{true, false} { // those that fit their phase come first; the others stand where there is room after it
		for i, p := range w.l.Phases {
			x, until := w.s.x(p.At), right
			if i+1 < len(w.l.Phases) {
				until = w.s.x(w.l.Phases[i+1].At)
			}
			width := widthOf(p.Name, sizeSmall)
			if fits := x+5+width < until; fits != within {
				continue
			}
			if x, ok := r.place(width, left, right, x+4, x-4-width); ok {
				w.c.text("dim", start, x, w.y+10, sizeSmall, width+1, p.Name)
			}
		}
	}
	w.y += 16
}

// boundaries draws where one phase ended and the next began.
func (w *window) boundaries(top, bottom float64) {
	var p path
	for _, ph := range w.l.Phases {
		p.tick(w.s.x(ph.At), top-14, bottom)
	}
	w.c.showUnder(phaseBegins, &p)
}

// maxLinesThrough is how many instants get a line through all lanes; more would grey them.
const maxLinesThrough = 80

// shade lays every effective fault over the lanes.
func (w *window) shade(top, bottom float64) {
	var effects []Extent
	for i := range w.l.Faults {
		e := w.l.Faults[i].Effective
		if e == nil {
			continue
		}
		over := Moment{From: e.From, To: math.Inf(1)}
		if e.To != nil {
			over = Moment{From: *e.To, To: *e.To}
		}
		effects = append(effects, Extent{Start: Moment{From: e.From, To: e.From}, End: over})
	}
	var wide, thin path
	var instants []float64
	for _, s := range w.stretches(effects) {
		if s.x1-s.x0 < 1.5 {
			instants = append(instants, (s.x0+s.x1)/2)
		} else {
			wide.box(s.x0, top, s.x1, bottom)
		}
	}
	if len(instants) <= maxLinesThrough {
		for _, x := range instants {
			thin.tick(x, top, bottom)
		}
	}
	w.c.under("struck", &wide)
	w.c.under("#shade", &wide)
	w.c.under("kill", &thin)
}

// apart sorts xs and leaves out those that lie closer than gap to the one before.
func apart(xs []float64, gap float64) []float64 {
	slices.Sort(xs)
	var out []float64
	for _, x := range xs {
		if n := len(out); n == 0 || x-out[n-1] >= gap {
			out = append(out, x)
		}
	}
	return out
}
