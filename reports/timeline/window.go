package timeline

import (
	"fmt"
	"math"
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
	close  int            // points that are drawn as one with another, and that the table does not count
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
	w.shade(lanes)
	w.boundaries(top)
	return w.finish(Picture{Title: "The run from start to end", Desc: w.describe(), Columns: []string{"When", "What", "Who", "Where", "Detail"}, Rows: rowsOfRun(l)}, top, 0)
}

// finish draws the axis, which counts from zero, and says what was folded.
func (w *window) finish(p Picture, top, zero float64) Picture {
	name, text := "time since the start of the run", tickText
	if w.trial != nil {
		name, text = "time from the fault", signed
	}
	w.c.axis(scale{w.s.from - zero, w.s.to - zero, w.s.x0, w.s.x1}, top, w.y, name+scaled(w.l.TimeScale), text)
	if w.close > 0 {
		w.folded = append(w.folded, "Drawn as one with a neighbour of its kind, for want of room: "+figures.Plural(w.close, "mark")+".")
	}
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
	keys, locks, struck := 0, 0, 0
	for _, k := range w.l.Locks {
		if !k.None {
			keys, locks = keys+len(k.Keys), locks+1
		}
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
	faults := "no fault"
	if n := len(w.l.Faults); n > 0 {
		faults = figures.Count(struck) + " of " + figures.Plural(n, "shot") + " confirmed, " + figures.Plural(len(w.l.Trials), "takeover")
	}
	return fmt.Sprintf("%s%s: %s over %s, %s on %s.", duration(w.l.Seconds), kind, faults,
		figures.Plural(locks, "lock"), figures.Plural(keys, "key"), figures.Plural(len(w.l.Replicas), "replica"))
}

// nobody is the class of a fill whose owner is not known.
const nobody = "nobody"

// hue is the number of an incarnation's colour; ok is false where it is nobody's that is known.
func (w *window) hue(incarnation string) (hue int, ok bool) {
	i, ok := w.hues[history.ReplicaOf(incarnation)]
	return i % hues, ok
}

// heldBy is the mark of what an incarnation held: those whose replicas share a hue share it.
func (w *window) heldBy(incarnation string) mark {
	hue, known := w.hue(incarnation)
	if !known {
		return whoseUnknown
	}
	var names []string
	for i := hue; i < len(w.l.Replicas); i += hues {
		names = append(names, w.l.Replicas[i].Name)
	}
	return swatch("held by "+fit(strings.Join(names, ", "), sizeSmall, 300), "r"+count(hue))
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

// phases names the phases of the run above the lanes.
func (w *window) phases() {
	var names []label
	for _, p := range w.l.Phases {
		names = append(names, label{p.Name, "dim", w.s.x(p.At) + 24})
	}
	if len(names) > 0 {
		w.c.text("dim", end, left-8, w.y+10, sizeSmall, gutter-16, "phase")
		w.c.captions(names, w.y+10, 0)
		w.y += 16
	}
}

// boundaries draws where one phase ended and the next began.
func (w *window) boundaries(top float64) {
	var p path
	for _, ph := range w.l.Phases {
		p.tick(w.s.x(ph.At), top-14, w.y)
	}
	w.c.showUnder(phaseBegins, &p)
}

// maxLinesThrough is how many instants get a line through all lanes; more would grey them.
const maxLinesThrough = 80

// shade lays every effective fault over the lanes.
func (w *window) shade(top float64) {
	var wide, thin path
	var effects []stretch
	for i := range w.l.Faults {
		e := w.l.Faults[i].Effective
		if e == nil {
			continue
		}
		begin, over := Moment{From: e.From, To: e.From}, Moment{From: e.From, To: math.Inf(1)}
		if e.To != nil {
			over = Moment{From: *e.To, To: *e.To}
		}
		if w.meets(begin, over) {
			effects = append(effects, stretch{w.x(begin), max(w.x(begin), w.until(over))})
		}
	}
	instants := 0
	for _, s := range merged(effects, 0.6) {
		if s.x1-s.x0 >= 1.5 {
			wide.box(s.x0, top, s.x1, w.y)
		} else if instants++; instants <= maxLinesThrough {
			thin.tick((s.x0+s.x1)/2, top, w.y)
		}
	}
	w.c.under("struck", &wide)
	w.c.under("#shade", &wide)
	if instants <= maxLinesThrough {
		w.c.under("kill", &thin)
	}
}
