// Package figures writes what was measured for people: instants, durations, ranges, counts. It measures nothing and knows no verdict.
// Instants and durations are in ns. Its one invariant: a range is rounded outwards, so that what is printed contains what was measured.
package figures

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Open is the end of a range that was never seen.
const Open = math.MaxInt64

// Nanoseconds is a figure in seconds to the nearest ns.
func Nanoseconds(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }

// Clock names an instant by the time since the run began.
func Clock(ns int64) string { return fmt.Sprintf("T+%.1fs", float64(ns)/1e9) }

// Range writes [lo, hi], rounded outwards, with as many digits as its width allows.
func Range(lo, hi int64) string {
	if lo == hi {
		return Exact(lo)
	}
	if hi == Open {
		if lo == 0 {
			return "[0s, open]"
		}
		u := unitOf(lo)
		return "[" + u.write(lo, 3, math.Floor) + u.name + ", open]"
	}
	u, digits := unitOf(max(-lo, lo, -hi, hi)), 3
	switch width := hi - lo; {
	case width >= u.ns:
		digits = 1
	case width >= u.ns/10:
		digits = 2
	}
	return "[" + u.write(lo, digits, math.Floor) + ", " + u.write(hi, digits, math.Ceil) + "]" + u.name
}

// Seconds is Range in seconds; without hi it is open.
func Seconds(lo float64, hi *float64) string {
	if hi == nil {
		return Range(Nanoseconds(lo), Open)
	}
	return Range(Nanoseconds(lo), Nanoseconds(*hi))
}

// Exact writes what is known, such as a limit, to a thousandth of its unit.
func Exact(ns int64) string { return thousandths(ns, math.Round) }

// Floor is Exact rounded down: for what is at least so much.
func Floor(ns int64) string { return thousandths(ns, math.Floor) }

// Ceil is Exact rounded up: for what is at most so much.
func Ceil(ns int64) string { return thousandths(ns, math.Ceil) }

// Short writes a duration for a glance, rounded to three digits, or to whole seconds where they have more.
func Short(ns int64) string {
	if ns == Open {
		return "unknown"
	}
	return Exact(int64(time.Duration(ns).Round(digitOf(ns))))
}

// Up is Short rounded up, in ns: for what is at most so much.
func Up(ns int64) int64 { return -Down(-ns) }

// Down is Short rounded down, in ns: for what is at least so much.
func Down(ns int64) int64 {
	step := int64(digitOf(ns))
	down := ns / step * step
	if down > ns {
		down -= step
	}
	return down
}

// digitOf is what the last of three digits of ns is worth.
func digitOf(ns int64) time.Duration {
	step, d := time.Duration(1), time.Duration(ns)
	for d.Abs() >= 1000*step && step < time.Second {
		step *= 10
	}
	return step
}

func thousandths(ns int64, round func(float64) float64) string {
	if ns == 0 {
		return "0s"
	}
	u := unitOf(ns)
	return strings.TrimSuffix(strings.TrimRight(u.write(ns, 3, round), "0"), ".") + u.name
}

type unit struct {
	ns   int64
	name string
}

// unitOf picks the unit in which a figure of that size reads best.
func unitOf(ns int64) unit {
	switch size := time.Duration(ns).Abs(); {
	case size >= time.Second:
		return unit{1e9, "s"}
	case size >= time.Millisecond:
		return unit{1e6, "ms"}
	}
	return unit{1e3, "us"}
}

func (u unit) write(ns int64, digits int, round func(float64) float64) string {
	per := math.Pow10(digits)
	return strconv.FormatFloat(round(float64(ns)/(float64(u.ns)/per))/per, 'f', digits, 64)
}

// Decimal writes a number that is no duration, to a thousandth.
func Decimal(v float64) string { return strconv.FormatFloat(math.Round(v*1e3)/1e3, 'f', -1, 64) }

// Count writes n in groups of three digits.
func Count[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Plural counts things by the word for one of them.
func Plural[N int | int64](n N, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "dy"): // jeopardy, and not key
		thing = strings.TrimSuffix(thing, "y") + "ies"
	case strings.HasSuffix(thing, "tch"), strings.HasSuffix(thing, "sh"), strings.HasSuffix(thing, "ss"): // stretch, and not epoch
		thing += "es"
	default:
		thing += "s"
	}
	return Count(n) + " " + thing
}

// Spell writes a duration as a file spells it: d.String() without trailing zero parts, 2m and not 2m0s.
func Spell(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
