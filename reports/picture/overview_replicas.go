package picture

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis"
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

func (o *overview) replica(r *analysis.ReplicaLane) {
	y := o.y
	under := ""
	if n := len(r.Lives); n > 1 {
		under = count(n) + " lives"
	}
	o.name(y+12, r.Name, under)
	class, _ := o.owners.of(r.Name)
	var alive, own, effects, refused, killed, ended, paused path
	var lived, belief, work []stretch
	var written, denied, deaths []float64
	for i := range r.Lives {
		l := &r.Lives[i]
		x0, x1 := o.s.x(surely(l.Start)), right
		if !l.End.Open() {
			x1 = o.s.x(mid(l.End))
		}
		lived = append(lived, stretch{x0, max(x0, x1)})
		belief = append(belief, o.stretches(l.Belief)...)
		work = append(work, o.stretches(l.Work)...)
		for _, e := range l.Effects {
			written = append(written, o.s.x(mid(e)))
		}
		for _, e := range l.Refused {
			denied = append(denied, o.s.x(mid(e)))
		}
		switch {
		case l.Killed != "":
			deaths = append(deaths, x1)
		case !l.End.Open() && x1 < right-1:
			ended.tick(x1, y, y+22)
		}
	}
	r0 := 4.5
	if len(deaths) > 40 {
		r0 = 2.5
	}
	for _, x := range apart(deaths, r0+1) {
		killed.cross(x, y+11, r0)
	}
	slices.SortStableFunc(lived, byLeft)
	for _, l := range merged(lived, 0.3) {
		alive.box(l.x0, y+1, l.x1, y+21)
	}
	slices.SortStableFunc(belief, byLeft)
	for _, b := range merged(belief, 0.6) {
		own.box(b.x0, y+16, max(b.x1, b.x0+0.5), y+20)
	}
	slices.SortStableFunc(work, byLeft)
	for _, w := range merged(work, 0.6) {
		own.box(w.x0, y+4, max(w.x1, w.x0+0.5), y+14)
	}
	for _, p := range r.Paused {
		x0, x1 := o.s.x(mid(p.Start)), right
		if !p.End.Open() {
			x1 = o.s.x(mid(p.End))
		}
		paused.box(x0, y+1, x1, y+21)
	}
	ticks(&effects, written, y+23, y+28)
	ticks(&refused, denied, y+23, y+31)
	o.c.put("alive", &alive)
	o.c.put(class, &own)
	o.c.weave("hatch", &paused)
	o.c.put("thin", &effects)
	o.c.put("whole", &refused)
	o.c.put("thin", &ended)
	o.c.put("stroke", &killed)
	o.given(r, y)
	if !killed.empty() {
		o.key.shape("stroke", "killed", func(p *path, x, y float64) { p.cross(x, y, 4) })
	}
	if !refused.empty() {
		o.key.shape("whole", "effect refused", func(p *path, x, y float64) { p.tick(x, y-6, y+6) })
	}
	if !paused.empty() {
		o.key.add(22, "paused", func(x, y float64) {
			var p path
			p.box(x, y-6, x+22, y+6)
			o.c.put("alive", &p)
			o.c.weave("hatch", &p)
		})
	}
	o.y += replicaHeight
}

// given draws what the replica gave up.
func (o *overview) given(r *analysis.ReplicaLane, y float64) {
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

func (o *overview) stretches(es []analysis.Extent) []stretch {
	var out []stretch
	for _, e := range es {
		x0, x1 := o.s.x(mid(e.Start)), right
		if !e.End.Open() {
			x1 = o.s.x(mid(e.End))
		}
		out = append(out, stretch{x0, max(x0, x1)})
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
