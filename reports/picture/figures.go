package picture

import (
	"math"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/analysis"
)

// duration writes seconds with three significant digits and a unit: "88.7s", "940ms", "1h05m".
func duration(s float64) string {
	switch a := math.Abs(s); {
	case a == 0:
		return "0s"
	case a < 0.9995e-3:
		return digits(s*1e6, 3) + "us"
	case a < 0.9995:
		return digits(s*1e3, 3) + "ms"
	case a < 999.5:
		return digits(s, 3) + "s"
	}
	sign := ""
	if s < 0 {
		sign, s = "-", -s
	}
	m := int(math.Round(s / 60))
	if m < 60 {
		return sign + strconv.Itoa(m) + "m"
	}
	return sign + strconv.Itoa(m/60) + "h" + pad(m%60) + "m"
}

func pad(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

// digits writes v with n significant digits and no trailing zeros.
func digits(v float64, n int) string {
	s := strconv.FormatFloat(v, 'f', max(0, n-1-int(math.Floor(math.Log10(math.Abs(v))+1e-9))), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// about is a range in few characters, for a label: its middle where both ends round to the same, "8.9-9.4s" else.
func about(r analysis.Range) string {
	if r.Hi == nil {
		return "over " + duration(r.Lo)
	}
	if lo, hi := duration(r.Lo), duration(*r.Hi); *r.Hi-r.Lo > 0.03**r.Hi && lo != hi && *r.Hi > 5e-3 {
		return lo + "–" + hi
	}
	return duration((r.Lo + *r.Hi) / 2)
}

// bracket is a range for a table: both ends, in seconds to the microsecond, outwards.
func bracket(r analysis.Range) string {
	lo := strconv.FormatFloat(math.Floor(r.Lo*1e6+1e-3)/1e6, 'f', -1, 64)
	if r.Hi == nil {
		return "[" + lo + "s, open]"
	}
	hi := strconv.FormatFloat(math.Ceil(*r.Hi*1e6-1e-3)/1e6, 'f', -1, 64)
	if lo == hi {
		return lo + "s"
	}
	return "[" + lo + ", " + hi + "]s"
}

// optional is bracket of what may not have been seen.
func optional(r *analysis.Range) string {
	if r == nil {
		return "not seen"
	}
	return bracket(*r)
}

// at names an instant of the run: "T+12.4s"; a wide bracket by both ends.
func at(m analysis.Moment) string {
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
func mid(m analysis.Moment) float64 {
	if m.Open() {
		return m.From
	}
	return (m.From + m.To) / 2
}

// surely is from when on a state that began at m is sure; where that was never seen, from when on it is possible.
func surely(m analysis.Moment) float64 {
	if m.Open() {
		return m.From
	}
	return m.To
}

func count(n int) string { return strconv.Itoa(n) }
