package timeline

import (
	"strings"

	"github.com/lockdrill/lockdrill/internal/figures"
)

const (
	maxFaults   = 8  // with a lane of their own
	maxVictims  = 24 // shots of one fault whose victims are named beside them
	faultHeight = 24.0
)

// faults draws a lane for each fault of the file that meets the window: above when it was declared, below when it was in effect.
func (w *window) faults() {
	var ids []string
	of := map[string][]*FaultLane{}
	for i := range w.l.Faults {
		f := &w.l.Faults[i]
		if !w.strikes(f) {
			continue
		}
		id := f.ID
		if of[id] == nil && len(ids) >= maxFaults {
			id = "further faults"
		}
		if of[id] == nil {
			ids = append(ids, id)
		}
		of[id] = append(of[id], f)
	}
	for _, id := range ids {
		w.faultLane(id, of[id])
	}
}

// strikes reports whether the shot has anything to draw in the window.
func (w *window) strikes(f *FaultLane) bool {
	at := firedAt(f)
	switch {
	case at == nil:
		return w.trial == nil // declared, and never fired
	case f.Effective == nil:
		return w.has(*at)
	}
	return w.meets(*at, f.Over)
}

func (w *window) faultLane(id string, fs []*FaultLane) {
	y := w.y
	var declared, meant, lasted, struck, missed path
	var r, inside row // beside the windows, and on them
	var instants, voids []float64
	for _, f := range fs {
		if d := f.Declared; d != nil && w.s.has(d.From) {
			x0, x1 := w.s.x(d.From), w.s.x(d.From)
			if d.To != nil {
				x1 = w.s.x(*d.To)
			}
			if x1-x0 < 2 {
				meant.down(x0, y+21, 5.5)
				r.take(x0-7, x0+7)
			} else {
				declared.box(x0, y+2, x1, y+6)
			}
		}
		if firedAt(f) == nil {
			continue
		}
		x0, x1 := w.extent(f)
		switch {
		case f.Effective == nil:
			voids = append(voids, x0)
		case x1-x0 < 6:
			instants = append(instants, (x0+x1)/2)
		default:
			lasted.box(x0, y+10, x1, y+21)
		}
		r.take(x0-7, x1+7)
	}
	size := 5.5
	if len(fs) > 80 {
		size = 3
	}
	for _, x := range apart(instants, size) {
		struck.down(x, y+21, size)
	}
	for _, x := range apart(voids, size) { // not the shape of a shot that is only declared
		missed.dot(x, y+15, size-1)
	}
	if len(fs) > maxVictims {
		id += " ×" + figures.Count(len(fs))
	}
	w.name(y+17, id, "")
	w.c.show(inEffect, &lasted)
	w.c.show(dueFor, &declared)
	w.c.show(dueAt, &meant)
	w.c.show(bolt, &struck)
	w.c.show(void, &missed)
	if len(fs) <= maxVictims {
		for _, f := range fs {
			w.faultLabel(&r, &inside, f, y+19)
		}
	}
	w.y += faultHeight
}

// firedAt is when the shot was fired, or was found to be void; nil = neither is known.
func firedAt(f *FaultLane) *Moment {
	if f.Applied != nil {
		return f.Applied
	}
	return f.Missed
}

// extent of the fault's effect on the axis; of a void shot its instant.
func (w *window) extent(f *FaultLane) (x0, x1 float64) {
	x0 = w.x(*firedAt(f))
	if f.Effective == nil {
		return x0, x0
	}
	return x0, max(x0, w.until(f.Over))
}

// faultLabel writes whom the shot struck, or how, beside it where there is room.
func (w *window) faultLabel(r, inside *row, f *FaultLane, y float64) {
	if firedAt(f) == nil {
		return
	}
	text := strings.Join(victims(f), ", ")
	if f.Configured != "" {
		text = f.Configured
	}
	if f.Effective == nil {
		word, _, _ := strings.Cut(f.Why, ":")
		text = "void: " + word
	}
	text = fit(text, sizeSmall, 220)
	x0, x1 := w.extent(f)
	width := widthOf(text, sizeSmall)
	if x, ok := r.place(width, left, right, x1+9, x0-9-width); ok {
		w.c.text("ink", start, x, y, sizeSmall, width+1, text)
		return
	}
	if _, ok := inside.place(width+2, x0+2, x1-2, x0+4); ok { // a window that leaves no room beside it: a label on a ground of its own
		var ground path
		ground.box(x0+3, y-10, x0+5+width, y+3)
		w.c.put("ground", &ground)
		w.c.text("ink", start, x0+4, y, sizeSmall, width+1, text)
	}
}

func victims(f *FaultLane) []string {
	switch {
	case f.Victim == "store":
		return []string{"store"}
	case f.Victim != "":
		return []string{f.Victim}
	}
	return f.Victims
}
