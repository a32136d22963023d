package timeline

import (
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// maxFaults is how many faults get a lane of their own.
const maxFaults = 8

// maxVictims is of how many shots of one fault the victims are named beside them.
const maxVictims = 24

const faultHeight = 24.0

// faults draws a lane for each fault of the file: above when it was declared, below when it was in effect.
func (o *overview) faults() {
	var ids []string
	of := map[string][]*verdict.FaultLane{}
	for i := range o.l.Faults {
		f := &o.l.Faults[i]
		id := f.ID
		if of[id] == nil {
			if len(ids) == maxFaults {
				id = "further faults"
			}
			if of[id] == nil {
				ids = append(ids, id)
			}
		}
		of[id] = append(of[id], f)
	}
	for _, id := range ids {
		o.faultLane(id, of[id])
	}
	if len(ids) == 0 {
		return
	}
	if o.bolts {
		o.key.shape("bolt", "fault struck", func(p *path, x, y float64) { p.down(x, y+6, 6) })
	}
	if o.windows {
		o.key.add(22, "fault in effect", func(x, y float64) {
			var p path
			p.box(x, y-6, x+22, y+6)
			o.c.put("struck", &p)
			o.c.weave("hatch", &p)
			o.c.put("effective", &p)
		})
	}
	if o.voids {
		o.key.shape("hollow", "void shot: it did not land, or nobody saw it land", func(p *path, x, y float64) { p.dot(x, y, 4.5) })
	}
	if o.plans {
		o.key.add(36, "declared in the file", func(x, y float64) {
			var p, at path
			p.box(x+14, y-3, x+36, y+3)
			at.down(x+5, y+6, 5.5)
			o.c.put("declared", &p)
			o.c.put("meant", &at)
		})
	}
}

func (o *overview) faultLane(id string, fs []*verdict.FaultLane) {
	y := o.y
	var declared, meant, hatched, struck, missed path
	var r, inside row // beside the windows, and on them
	var instants, voids []float64
	for _, f := range fs {
		if d := f.Declared; d != nil && o.s.has(d.From) {
			x0, x1 := o.s.x(d.From), o.s.x(d.From)
			if d.To != nil {
				x1 = o.s.x(*d.To)
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
		x0, x1 := o.extent(f)
		switch {
		case f.Effective == nil:
			voids = append(voids, x0)
		case x1-x0 < 6:
			instants = append(instants, (x0+x1)/2)
		default:
			hatched.box(x0, y+10, x1, y+21)
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
	o.name(y+17, id, "")
	o.c.put("struck", &hatched)
	o.c.weave("hatch", &hatched)
	o.c.put("effective", &hatched)
	o.c.put("declared", &declared)
	o.c.put("meant", &meant)
	o.c.put("bolt", &struck)
	o.c.put("hollow", &missed)
	o.bolts, o.windows, o.voids = o.bolts || !struck.empty(), o.windows || !hatched.empty(), o.voids || !missed.empty()
	o.plans = o.plans || !declared.empty() || !meant.empty()
	if len(fs) <= maxVictims {
		for _, f := range fs {
			o.faultLabel(&r, &inside, f, y+19)
		}
	}
	o.y += faultHeight
}

// firedAt is when the shot was fired, or was found to be void; nil = neither is known.
func firedAt(f *verdict.FaultLane) *verdict.Moment {
	if f.Applied != nil {
		return f.Applied
	}
	return f.Missed
}

// extent of the fault's effect on the axis; of a void shot its instant.
func (o *overview) extent(f *verdict.FaultLane) (x0, x1 float64) {
	x0 = o.s.x(mid(*firedAt(f)))
	if f.Effective == nil {
		return x0, x0
	}
	if f.Over.Open() {
		return x0, right
	}
	return x0, max(x0, o.s.x(mid(f.Over)))
}

// faultLabel writes whom the shot struck, or how, beside it where there is room.
func (o *overview) faultLabel(r, inside *row, f *verdict.FaultLane, y float64) {
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
	x0, x1 := o.extent(f)
	w := widthOf(text, sizeSmall)
	if x, ok := r.place(w, left, right, x1+9, x0-9-w); ok {
		o.c.text("ink", start, x, y, sizeSmall, w+1, text)
		return
	}
	if _, ok := inside.place(w+2, x0+2, x1-2, x0+4); ok { // a window that leaves no room beside it: a label on a ground of its own
		var ground path
		ground.box(x0+3, y-10, x0+5+w, y+3)
		o.c.put("ground", &ground)
		o.c.text("ink", start, x0+4, y, sizeSmall, w+1, text)
	}
}

func victims(f *verdict.FaultLane) []string {
	switch {
	case f.Victim == "store":
		return []string{"Redis"}
	case f.Victim != "":
		return []string{f.Victim}
	}
	return f.Victims
}
