package timeline

import (
	"strings"

	"github.com/lockdrill/lockdrill/internal/figures"
)

const (
	maxFaults  = 8  // with a lane of their own
	maxVictims = 24 // shots of one fault whose victims are named beside them
)

// faults draws a lane for each fault of the file that meets the window: above when it was declared, below when it was in effect.
func (w *window) faults() {
	var ids []string
	of := map[string][]*FaultLane{}
	for i := range w.l.Faults {
		f := &w.l.Faults[i]
		if at := f.Fired(); at == nil && w.trial != nil || at != nil && !w.meets(*at, f.until()) {
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
		w.fault(id, of[id])
	}
}

func (w *window) fault(id string, fs []*FaultLane) {
	name := id
	if len(fs) > maxVictims {
		name += " ×" + figures.Count(len(fs))
	}
	n := w.lane(name, "")
	for _, f := range fs {
		if d := f.Declared; d != nil && w.s.has(d.From) {
			x0 := w.s.x(d.From)
			if d.To == nil || w.s.x(*d.To)-x0 < 2 {
				n.point(dueAt, 12.5, x0)
				n.beside.take(x0-7, x0+7)
			} else {
				n.bar(dueFor, -1, 3, x0, w.s.x(*d.To))
			}
		}
		at := f.Fired()
		if at == nil {
			continue
		}
		x0, x1 := w.x(*at), max(w.x(*at), w.until(f.until()))
		switch {
		case f.Effective == nil: // not the shape of a shot that is only declared
			n.point(void, 11.5, x0)
		case x1-x0 < 6:
			n.point(bolt, 12.5, (x0+x1)/2)
		default:
			n.bar(inEffect, 7, 18, x0, x1)
		}
		n.beside.take(x0-7, x1+7)
	}
	n.draw(24)
	if len(fs) <= maxVictims {
		for _, f := range fs {
			if at := f.Fired(); at != nil {
				n.note(16, w.x(*at), max(w.x(*at), w.until(f.until())), fit(f.outcome(), sizeSmall, 220))
			}
		}
	}
}

// Fired is when the shot was fired, or was found to be void; nil = neither is known.
func (f *FaultLane) Fired() *Moment {
	if f.Applied != nil {
		return f.Applied
	}
	return f.Missed
}

// until is when the fault's effect was over; of a void shot its instant.
func (f *FaultLane) until() Moment {
	if f.Effective == nil {
		return *f.Fired()
	}
	return f.Over
}

// outcome is whom the shot struck, or how; or why it is void.
func (f *FaultLane) outcome() string {
	switch {
	case f.Effective == nil:
		word, _, _ := strings.Cut(f.Why, ":")
		return "void: " + word
	case f.Configured != "":
		return f.Configured
	}
	return strings.Join(f.victims(), ", ")
}

func (f *FaultLane) victims() []string {
	if f.Victim != "" {
		return []string{f.Victim}
	}
	return f.Victims
}
