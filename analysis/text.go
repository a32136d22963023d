package analysis

import (
	"math"
	"strconv"
	"time"
)

// outward writes a measured range the way the rows of a report do: rounded outwards, with as many digits as its width allows, so
// that what lies beyond a limit also reads so.
func outward(d dur) string {
	if d.hi == open {
		if d.lo == 0 {
			return "[0s, open]"
		}
		unit, name := unitOf(d.lo)
		return "[" + rounded(d.lo, unit, 3, math.Floor) + name + ", open]"
	}
	if d.lo == d.hi {
		return exact(d.lo)
	}
	unit, name := unitOf(max(-d.lo, d.lo, -d.hi, d.hi))
	digits := 3
	switch width := d.hi - d.lo; {
	case width >= unit:
		digits = 1
	case width >= unit/10:
		digits = 2
	}
	return "[" + rounded(d.lo, unit, digits, math.Floor) + ", " + rounded(d.hi, unit, digits, math.Ceil) + "]" + name
}

// exact writes a figure that is known, such as a limit, to a thousandth of its unit.
func exact(ns int64) string {
	if ns == 0 {
		return "0s"
	}
	unit, name := unitOf(max(ns, -ns))
	return trim(rounded(ns, unit, 3, math.Round)) + name
}

// bound writes the end of a band, rounded away from it.
func bound(d time.Duration, round func(float64) float64) string {
	unit, name := unitOf(int64(d))
	return trim(rounded(int64(d), unit, 3, round)) + name
}

// unitOf picks the unit, in ns, in which a figure of that size reads best.
func unitOf(size int64) (unit int64, name string) {
	switch {
	case size >= int64(time.Second):
		return int64(time.Second), "s"
	case size >= int64(time.Millisecond):
		return int64(time.Millisecond), "ms"
	}
	return int64(time.Microsecond), "us"
}

func rounded(ns, unit int64, digits int, round func(float64) float64) string {
	step := float64(unit) / math.Pow10(digits)
	return strconv.FormatFloat(round(float64(ns)/step)/math.Pow10(digits), 'f', digits, 64)
}
