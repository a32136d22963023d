package timeline

import (
	"fmt"
	"math"
	"strconv"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// duration writes seconds with three digits and a unit, from 1000s on in minutes: "88.7s", "940ms", "1h05m".
func duration(s float64) string {
	if math.Abs(s) < 999.5 {
		return figures.Short(figures.Nanoseconds(s))
	}
	sign := ""
	if s < 0 {
		sign, s = "-", -s
	}
	return sign + minutes(int(math.Round(s/60)))
}

func minutes(m int) string {
	if m < 60 {
		return count(m) + "m"
	}
	return fmt.Sprintf("%dh%02dm", m/60, m%60)
}

// about is a range in few characters, for a label: its middle where both ends round to the same, "8.9-9.4s" else.
func about(r verdict.Range) string {
	if r.Hi == nil {
		return "over " + duration(r.Lo)
	}
	if lo, hi := duration(r.Lo), duration(*r.Hi); *r.Hi-r.Lo > 0.03**r.Hi && lo != hi && *r.Hi > 5e-3 {
		return lo + "–" + hi
	}
	return duration((r.Lo + *r.Hi) / 2)
}

// bracket is a range for a table.
func bracket(r verdict.Range) string { return figures.Seconds(r.Lo, r.Hi) }

// optional is bracket of what may not have been seen.
func optional(r *verdict.Range) string {
	if r == nil {
		return "not seen"
	}
	return bracket(*r)
}

// at names an instant of the run: "T+12.4s"; a wide bracket by both ends.
func at(m Moment) string {
	from := "T+" + fixed(m.From) + "s"
	switch {
	case m.Open():
		return "after " + from
	case m.To-m.From >= 0.05:
		return from + " to T+" + fixed(m.To) + "s"
	}
	return from
}

func fixed(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// mid is where an instant is drawn; an open one where it begins to be possible.
func mid(m Moment) float64 {
	if m.Open() {
		return m.From
	}
	return (m.From + m.To) / 2
}

// surely is from when on a state that began at m is sure; where that was never seen, from when on it is possible.
func surely(m Moment) float64 {
	if m.Open() {
		return m.From
	}
	return m.To
}

func count(n int) string { return strconv.Itoa(n) }
