package timeline

import (
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

const ecdfHeight = 150.0

// kills are the takeovers by class, of each fault the worst: the keys that die with one replica are one trial.
func (p *plot) kills() (classes []string, of map[string][]verdict.Range) {
	at := map[[2]string]int{}
	of = map[string][]verdict.Range{}
	for _, t := range p.ts {
		if of[t.Class] == nil {
			classes = append(classes, t.Class)
		}
		r := t.Whole()
		id := [2]string{t.Class, t.Fault}
		i, known := at[id]
		if !known {
			at[id] = len(of[t.Class])
			of[t.Class] = append(of[t.Class], r)
			continue
		}
		w := &of[t.Class][i]
		w.Lo = max(w.Lo, r.Lo)
		if w.Hi != nil && (r.Hi == nil || *r.Hi > *w.Hi) {
			w.Hi = r.Hi
		}
	}
	return classes, of
}

// ecdf draws for every length the share of faults after which the takeover was no longer: surely, and perhaps.
func (p *plot) ecdf() {
	y0 := p.y + 14 + ecdfHeight
	y := func(share float64) float64 { return y0 - share*ecdfHeight }
	var grid path
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		grid.line(left, y(share), right, y(share))
		p.c.text("dim", end, left-6, y(share)+4, sizeSmall, 50, num(share*100)+"%")
	}
	p.c.under("grid", &grid)
	p.c.text("dim", start, 8, y(0.5)-4, sizeSmall, gutter-58, "share of the")
	p.c.text("dim", start, 8, y(0.5)+9, sizeSmall, gutter-58, "faults so far")
	classes, of := p.kills()
	for i, class := range classes {
		ranges := of[class]
		los, his := ends(ranges)
		sure, perhaps := p.steps(his, y), p.steps(los, y)
		var between, line path
		between.poly(append(slices.Clone(perhaps), reversed(sure)...)...)
		p.c.put("between", &between)
		line.stairs(sure...)
		line.stairs(perhaps...)
		name := "ecdf"
		if class != verdict.ClassCrash {
			name = "l" + count((i+1)%hues)
		}
		text := "share of the " + figures.Plural(len(ranges), "fault") + " (" + class + "), surely and perhaps"
		p.c.show(mark{[]string{name}, text, 26, func(p *path, x, y float64) { p.line(x, y+4, x+13, y+4, x+13, y-4, x+26, y-4) }}, &line)
	}
	var aims path
	for _, l := range p.limits {
		aims.diamond(p.s.x(l.value), y(l.share), 4)
	}
	p.c.show(sloAsks, &aims)
	p.y = y0 + 4
}

// ends of the ranges, each in ascending order; open ones are infinite.
func ends(rs []verdict.Range) (los, his []float64) {
	for _, r := range rs {
		los = append(los, r.Lo)
		if r.Hi == nil {
			his = append(his, math.Inf(1))
		} else {
			his = append(his, *r.Hi)
		}
	}
	slices.Sort(los)
	slices.Sort(his)
	return los, his
}

// steps is the distribution of sorted values as points; values closer than can be told apart make one step.
func (p *plot) steps(values []float64, y func(float64) float64) []float64 {
	points := []float64{p.s.x0, y(0)}
	for i, v := range values {
		if math.IsInf(v, 1) {
			break
		}
		if k := i + 1; k < len(values) && p.s.x(values[k])-points[len(points)-2] < 0.3 {
			continue
		}
		points = append(points, p.s.x(v), points[len(points)-1], p.s.x(v), y(float64(i+1)/float64(len(values))))
	}
	return append(points, right, points[len(points)-1])
}

func reversed(points []float64) []float64 {
	out := make([]float64, 0, len(points))
	for i := len(points) - 2; i >= 0; i -= 2 {
		out = append(out, points[i], points[i+1])
	}
	return out
}
