package timeline

import (
	"math"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// scale maps seconds to the plot's width.
type scale struct{ from, to, x0, x1 float64 }

// x of an instant, kept within the plot.
func (s scale) x(t float64) float64 {
	if s.to <= s.from {
		return s.x0
	}
	return min(max(s.x0+(t-s.from)/(s.to-s.from)*(s.x1-s.x0), s.x0), s.x1)
}

// has reports whether the instant lies within what is shown.
func (s scale) has(t float64) bool { return t >= s.from && t <= s.to }

// steps of an axis of time, in seconds.
var steps = []float64{
	1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30,
	60, 120, 300, 600, 900, 1800, 3600, 7200, 4 * 3600, 12 * 3600, 24 * 3600,
}

// ticks are round instants of the scale, at most n of them.
func (s scale) ticks(n int) (at []float64, step float64) {
	step = steps[len(steps)-1]
	for _, d := range steps {
		if (s.to-s.from)/d <= float64(n) {
			step = d
			break
		}
	}
	for step > 0 && (s.to-s.from)/step > float64(n) {
		step *= 2
	}
	if step <= 0 || s.to <= s.from {
		return []float64{s.from}, 1
	}
	first := math.Ceil(s.from/step - 1e-9)
	for i := range n + 2 {
		if t := (first + float64(i)) * step; t <= s.to+step*1e-9 {
			at = append(at, t)
		}
	}
	return at, step
}

// tickText names a tick of an axis that reaches to largest: all in one unit.
func tickText(t, step, largest float64) string {
	switch {
	case math.Abs(t) < step/2:
		return "0"
	case step >= 60 && math.Abs(t) >= 60:
		text := minutes(int(math.Round(math.Abs(t) / 60)))
		if t < 0 {
			return "−" + text
		}
		return text
	case step >= 1 || largest >= 1 && step >= 0.01:
		return number(t) + "s"
	case step >= 1e-3:
		return number(math.Round(t*1e3)) + "ms"
	}
	return number(math.Round(t*1e6)) + "us"
}

func number(v float64) string {
	s := figures.Decimal(math.Abs(v))
	if v < 0 {
		return "−" + s
	}
	return s
}

// axis draws the ticks below y, and lines up to top.
func (c *canvas) axis(s scale, top, y float64, name string, text func(t, step, largest float64) string) {
	var grid, rule path
	at, step := s.ticks(10)
	for _, t := range at {
		grid.tick(s.x(t), top, y)
		rule.tick(s.x(t), y, y+4)
	}
	rule.line(s.x0, y, s.x1, y)
	c.under("grid", &grid)
	c.put("rule", &rule)
	for _, t := range at {
		label := text(t, step, max(s.to, -s.from))
		half := widthOf(label, sizeSmall) / 2
		x := min(max(s.x(t), s.x0), float64(Width)-2-half)
		c.text("dim", middle, x, y+16, sizeSmall, 100, label)
	}
	c.text("dim", middle, (s.x0+s.x1)/2, y+32, sizeSmall, s.x1-s.x0, name)
}
