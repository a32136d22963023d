package timeline

import (
	"math"
	"slices"
)

const rttHeight = 64.0

// roundTrips draws how long the calls to the locks' store took, on a logarithmic axis.
func (w *window) roundTrips() {
	lo, hi := math.Inf(1), 0.0
	for _, t := range w.l.RoundTrips {
		if !math.IsInf(t.Took, 1) && t.Took > 0 {
			lo, hi = min(lo, t.Took), max(hi, t.Took)
		}
	}
	if hi == 0 {
		return
	}
	lo, hi = math.Floor(math.Log10(lo)), math.Ceil(math.Log10(hi)+1e-9)
	hi = max(hi, lo+1)
	y := w.y + 10
	level := func(took float64) float64 {
		return y + rttHeight - min(max((math.Log10(took)-lo)/(hi-lo), 0), 1)*rttHeight
	}
	w.c.text("ink", end, left-52, y+28, sizeName, gutter-56, "store")
	w.c.text("dim", end, left-52, y+41, sizeSmall, gutter-56, "round trip")
	var grid path
	for d := lo; d <= hi; d++ {
		at := level(math.Pow(10, d))
		grid.line(left, at, right, at)
		if hi-lo <= 3 || d == lo || d == hi || int(d-lo)%2 == 0 {
			w.c.text("dim", end, left-4, at+4, sizeSmall, 50, duration(math.Pow(10, d)))
		}
	}
	w.c.under("grid", &grid)
	var measured path
	for i := range w.l.Faults {
		f := &w.l.Faults[i]
		if f.Effective == nil || f.Observed == nil || f.Baseline == nil {
			continue
		}
		x0, x1 := w.extent(f)
		measured.line(x0, level(*f.Observed), max(x1, x0+2), level(*f.Observed))
	}
	if w.l.RTT99 > 0 && w.l.RTT99 >= math.Pow(10, lo) {
		var before path
		before.line(left, level(w.l.RTT99), right, level(w.l.RTT99))
		w.c.showUnder(p99Before, &before)
	}
	w.calls(y, level)
	w.c.show(measuredWait, &measured)
	w.y = y + rttHeight + 8
}

// calls draws the answered calls as the range and the middle of each step of the axis, and those without an answer above.
func (w *window) calls(y float64, level func(float64) float64) {
	n := int((right-left)/column) + 1
	cells := map[bool][][]float64{true: make([][]float64, n), false: make([][]float64, n)} // the probe's, the replicas'
	var lost []float64
	for i := range w.l.RoundTrips {
		t := &w.l.RoundTrips[i]
		x := w.s.x(t.At)
		if math.IsInf(t.Took, 1) {
			lost = append(lost, x)
			continue
		}
		probe, at := t.Look, int((x-left)/column)
		cells[probe][at] = append(cells[probe][at], max(t.Took, 1e-9))
	}
	for _, probe := range []bool{true, false} {
		var ranges, middles path
		for i, took := range cells[probe] {
			if len(took) == 0 {
				continue
			}
			slices.Sort(took)
			x := left + (float64(i)+0.5)*column
			if a, b := level(took[0]), level(took[len(took)-1]); a-b > 1 {
				ranges.tick(x, a, b)
			}
			at := level(took[len(took)/2])
			middles.box(x-1, at-1, x+1, at+1)
		}
		m := map[bool]mark{true: probeSample, false: replicaCall}[probe]
		w.c.put(m.styles[0]+"s", &ranges)
		w.c.show(m, &middles)
	}
	var crosses path
	for _, x := range apart(lost, 4) {
		crosses.cross(x, y-3, 2.5)
	}
	w.c.show(lostCall, &crosses)
}
