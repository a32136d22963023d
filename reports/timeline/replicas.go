package timeline

import (
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

const replicaHeight = 36.0

// replica draws when one lived, when it relied on a lock, when it worked, what it wrote; close up only its work under the key, and how
// it asked for it.
func (w *window) replica(r *ReplicaLane) {
	under := ""
	switch n := len(r.Lives); {
	case w.trial == nil && n > 1:
		under = figures.Count(n) + " lives"
	case w.trial != nil && r.Name == history.ReplicaOf(w.trial.Victim):
		under = "struck"
	case w.trial != nil && r.Name == history.ReplicaOf(w.trial.Successor):
		under = "takes over"
	}
	w.name(w.y+12, OwnName(r.Name, r.Called()), under)
	class, _ := w.hue(r.Name)
	d := replicaLane{w: w, y: w.y}
	d.lives(r)
	d.work(r)
	w.c.show(alive, &d.alive)
	w.c.put(class, &d.own)
	if !d.own.empty() {
		w.c.explain(relies)
	}
	w.c.show(paused, &d.paused)
	w.c.show(effect, &d.effects)
	w.c.show(refused, &d.refused)
	w.c.put("thin", &d.ended)
	w.c.show(killed, &d.killed)
	w.c.show(lastSign, &d.unseen)
	w.c.show(objectGone, &d.gone)
	w.c.show(abandoned, &d.abandoned)
	if w.trial != nil {
		w.attempts(r.Name, w.y+26)
	}
	w.y += replicaHeight
}

// OwnName is the name of a replica with its owner's words for it in brackets, which may be a whole command line.
func OwnName(name, called string) string {
	if called == "" {
		return name
	}
	return name + " (" + fit(called, sizeSmall, 300) + ")"
}

// replicaLane is the lane of one replica on its way to the canvas.
type replicaLane struct {
	w                                                                            *window
	y                                                                            float64
	alive, own, effects, refused, killed, ended, paused, gone, unseen, abandoned path
}

// lives draws when the replica lived, how each life ended, and when it stood still.
func (d *replicaLane) lives(r *ReplicaLane) {
	w, y := d.w, d.y
	var lived []stretch
	var deaths []float64
	for i := range r.Lives {
		l := &r.Lives[i]
		x0, x1 := w.s.x(surely(l.Start)), w.until(l.End)
		unseen := l.Killed != "" && l.End.Open()
		if unseen { // no further than it surely lived
			x1 = w.s.x(l.End.From)
		}
		if l.Object != nil && w.has(*l.Object) {
			d.gone.down(w.x(*l.Object), y+7, 4)
		}
		if w.meets(l.Start, l.End) && (!unseen || l.End.From >= w.s.from) {
			lived = append(lived, stretch{x0, max(x0, x1)})
		}
		switch {
		case unseen && w.s.has(l.End.From):
			d.unseen.line(x1, y+5, x1+6, y+11, x1, y+17)
		case l.End.Open() || !w.has(l.End):
		case l.Killed != "":
			deaths = append(deaths, x1)
		case x1 < right-1:
			d.ended.tick(x1, y, y+22)
		}
	}
	r0 := 4.5
	if len(deaths) > 40 {
		r0 = 2.5
	}
	for _, x := range apart(deaths, r0+1) {
		d.killed.cross(x, y+11, r0)
	}
	for _, l := range merged(lived, 0.3) {
		d.alive.box(l.x0, y+1, l.x1, y+21)
	}
	for _, p := range w.stretches(r.Paused) {
		d.paused.box(p.x0, y+1, p.x1, y+21)
	}
	var room row
	for _, m := range r.Marks {
		if x := w.x(m.At); w.has(m.At) && room.free(x-4, x+4) {
			room.take(x-4, x+4)
			d.abandoned.diamond(x, y+11, 5)
		}
	}
}

// work draws when the replica relied on a lock, when it worked, and what it wrote.
func (d *replicaLane) work(r *ReplicaLane) {
	w := d.w
	var belief, work []Extent
	var written, denied []float64
	instants := func(of []Moment) (xs []float64) {
		for _, m := range of {
			if w.has(m) {
				xs = append(xs, w.x(m))
			}
		}
		return xs
	}
	for i := range r.Lives {
		l := &r.Lives[i]
		if w.trial == nil {
			belief, work = append(belief, l.Belief...), append(work, l.Work...)
		}
		written, denied = append(written, instants(l.Effects)...), append(denied, instants(l.Refused)...)
	}
	if t := w.trial; t != nil {
		for who, es := range map[string][]Extent{t.Victim: t.Work, t.Successor: t.NextWork} {
			if history.ReplicaOf(who) == r.Name {
				work = append(work, es...)
			}
		}
	}
	for _, b := range w.stretches(belief) {
		d.own.box(b.x0, d.y+16, b.x1, d.y+20)
	}
	for _, s := range w.stretches(work) {
		d.own.box(s.x0, d.y+4, s.x1, d.y+14)
	}
	for _, x := range apart(written, 1) {
		d.effects.tick(x, d.y+23, d.y+28)
	}
	for _, x := range apart(denied, 1) {
		d.refused.tick(x, d.y+23, d.y+31)
	}
}

// attempts draws every acquire of the key by the replica: refused, granted, or without an answer.
func (w *window) attempts(name string, y float64) {
	var no, yes, silent path
	last, folded := -10.0, 0
	for i := range w.trial.Attempts {
		a := &w.trial.Attempts[i]
		if history.ReplicaOf(a.Who) != name || !w.has(a.At.Start) {
			continue
		}
		at := w.x(a.At.Start)
		if !a.At.End.Open() {
			at = (at + w.x(a.At.End)) / 2
		}
		switch {
		case a.Result == "granted":
			yes.down(at, y-3, 5)
			continue
		case at-last < 5:
			folded++
			continue
		case a.Result == "held":
			no.dot(at, y, 2.5)
		default:
			silent.cross(at, y, 2.5)
		}
		last = at
	}
	w.c.show(asked, &no)
	w.c.show(unanswered, &silent)
	w.c.show(granted, &yes)
	if folded > 0 {
		w.folded = append(w.folded, figures.Plural(folded, "attempt")+" of "+fit(name, sizeSmall, 300)+" closer to another than can be told apart, drawn as one.")
	}
}
