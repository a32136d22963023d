package timeline

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

const replicaHeight = 36.0

// replicas draws every replica: when it lived, when it relied on a lock, when it worked, what it wrote.
func (o *overview) replicas() {
	o.y += 4
	for i := range o.l.Replicas {
		o.replica(&o.l.Replicas[i])
	}
	if len(o.l.Replicas) == 0 {
		return
	}
	o.key.add(22, "alive", func(x, y float64) {
		var p path
		p.box(x, y-6, x+22, y+6)
		o.c.put("alive", &p)
	})
	o.key.add(22, "relies on a lock (thin), works (thick)", func(x, y float64) {
		var p path
		p.box(x, y+2, x+22, y+5)
		p.box(x+6, y-6, x+22, y+2)
		o.c.put("r0", &p)
	})
	o.key.shape("thin", "effect", func(p *path, x, y float64) { p.tick(x, y-4, y+4) })
}

func (o *overview) replica(r *verdict.ReplicaLane) {
	under := ""
	if n := len(r.Lives); n > 1 {
		under = figures.Count(n) + " lives"
	}
	o.name(o.y+12, r.Name, under)
	class, _ := o.owners.of(r.Name)
	var d replicaDrawing
	d.lives(o, r)
	d.work(o, r)
	d.put(o, class)
	o.given(r, o.y)
	d.explain(&o.key)
	o.y += replicaHeight
}

// replicaDrawing is the lane of one replica, as paths.
type replicaDrawing struct{ alive, own, effects, refused, killed, ended, paused, gone, unseen path }

// lives draws when the replica lived, how each life ended, and when it stood still.
func (d *replicaDrawing) lives(o *overview, r *verdict.ReplicaLane) {
	y := o.y
	var lived []stretch
	var deaths []float64
	for i := range r.Lives {
		l := &r.Lives[i]
		x0, x1 := o.s.x(surely(l.Start)), until(o.s, l.End)
		if l.Object != nil {
			d.gone.down(o.s.x(mid(*l.Object)), y+7, 4)
		}
		if l.Killed != "" && l.End.Open() { // nobody saw its end: no further than it surely lived
			x1 = o.s.x(l.End.From)
			d.unseen.line(x1, y+5, x1+6, y+11, x1, y+17)
			lived = append(lived, stretch{x0, max(x0, x1)})
			continue
		}
		lived = append(lived, stretch{x0, max(x0, x1)})
		switch {
		case l.Killed != "":
			deaths = append(deaths, x1)
		case !l.End.Open() && x1 < right-1:
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
	slices.SortStableFunc(lived, byLeft)
	for _, l := range merged(lived, 0.3) {
		d.alive.box(l.x0, y+1, l.x1, y+21)
	}
	for _, p := range r.Paused {
		d.paused.box(o.s.x(mid(p.Start)), y+1, until(o.s, p.End), y+21)
	}
}

// work draws when the replica relied on a lock, when it worked, and what it wrote.
func (d *replicaDrawing) work(o *overview, r *verdict.ReplicaLane) {
	y := o.y
	var belief, work []stretch
	var written, denied []float64
	for i := range r.Lives {
		l := &r.Lives[i]
		belief = append(belief, o.stretches(l.Belief)...)
		work = append(work, o.stretches(l.Work)...)
		for _, e := range l.Effects {
			written = append(written, o.s.x(mid(e)))
		}
		for _, e := range l.Refused {
			denied = append(denied, o.s.x(mid(e)))
		}
	}
	slices.SortStableFunc(belief, byLeft)
	for _, b := range merged(belief, 0.6) {
		d.own.box(b.x0, y+16, max(b.x1, b.x0+0.5), y+20)
	}
	slices.SortStableFunc(work, byLeft)
	for _, w := range merged(work, 0.6) {
		d.own.box(w.x0, y+4, max(w.x1, w.x0+0.5), y+14)
	}
	ticks(&d.effects, written, y+23, y+28)
	ticks(&d.refused, denied, y+23, y+31)
}

func (d *replicaDrawing) put(o *overview, class string) {
	o.c.put("alive", &d.alive)
	o.c.put(class, &d.own)
	o.c.weave("hatch", &d.paused)
	o.c.put("thin", &d.effects)
	o.c.put("whole", &d.refused)
	o.c.put("thin", &d.ended)
	o.c.put("stroke", &d.killed)
	o.c.put("stroke", &d.unseen)
	o.c.put("hollow", &d.gone)
}

// explain adds what the lane shows to a legend.
func (d *replicaDrawing) explain(l *legend) {
	if !d.killed.empty() {
		l.shape("stroke", "killed", func(p *path, x, y float64) { p.cross(x, y, 4) })
	}
	if !d.unseen.empty() {
		l.shape("stroke", "killed, and its end not seen: its last sign of life", func(p *path, x, y float64) { p.line(x-3, y-6, x+3, y, x-3, y+6) })
	}
	if !d.gone.empty() {
		l.shape("hollow", "its pod's object gone", func(p *path, x, y float64) { p.down(x, y+4, 4) })
	}
	if !d.refused.empty() {
		l.shape("whole", "effect refused", func(p *path, x, y float64) { p.tick(x, y-6, y+6) })
	}
	if !d.paused.empty() {
		l.swatch("alive", "hatch", "paused")
	}
}

// given draws what the replica gave up.
func (o *overview) given(r *verdict.ReplicaLane, y float64) {
	var marks path
	var room row
	for _, m := range r.Marks {
		if x := o.s.x(mid(m.At)); room.free(x-4, x+4) {
			room.take(x-4, x+4)
			marks.diamond(x, y+11, 5)
		}
	}
	o.c.put("hollow", &marks)
	if !marks.empty() {
		o.key.shape("hollow", "work abandoned", func(p *path, x, y float64) { p.diamond(x, y, 5) })
	}
}

func (o *overview) stretches(es []verdict.Extent) []stretch {
	var out []stretch
	for _, e := range es {
		x0 := o.s.x(mid(e.Start))
		out = append(out, stretch{x0, max(x0, until(o.s, e.End))})
	}
	return out
}

// ticks draws a line for each x, at most one a unit.
func ticks(p *path, xs []float64, y0, y1 float64) {
	for _, x := range apart(xs, 1) {
		p.tick(x, y0, y1)
	}
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
