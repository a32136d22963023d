package reports

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Units of analysis.SLOResult.
const (
	unitSeconds = "s"
	unitCount   = "count"
	unitRatio   = "ratio" // 0 to 1, written in percent
	unitValue   = "value" // of a metric, in its own unit
)

// span writes a measured range, rounded outwards: "[8.912, 8.921]s", "[2, open]", or one figure where both ends are the same.
func span(lo float64, hi *float64, unit string) string {
	switch unit {
	case unitCount:
		return countSpan(lo, hi)
	case unitRatio:
		return ratioSpan(lo, hi)
	case unitValue:
		return valueSpan(lo, hi)
	}
	if hi == nil && lo == 0 {
		return "[0s, open]"
	}
	if hi == nil {
		u := unitFor(math.Abs(lo))
		return "[" + u.down(lo, 3) + u.name + ", open]"
	}
	if *hi == lo {
		return exact(lo, unit)
	}
	u := unitFor(math.Max(math.Abs(lo), math.Abs(*hi)))
	digits := u.digits(*hi - lo)
	return "[" + u.down(lo, digits) + ", " + u.up(*hi, digits) + "]" + u.name
}

func countSpan(lo float64, hi *float64) string {
	switch {
	case hi == nil:
		return "[" + number(lo) + ", open]"
	case *hi == lo:
		return number(lo)
	}
	return "[" + number(lo) + ", " + number(*hi) + "]"
}

// valueSpan is countSpan for what is no whole number, with at most three decimals.
func valueSpan(lo float64, hi *float64) string {
	lo = math.Floor(lo*1e3) / 1e3
	if hi != nil {
		up := math.Ceil(*hi*1e3) / 1e3
		hi = &up
	}
	return countSpan(lo, hi)
}

func ratioSpan(lo float64, hi *float64) string {
	switch {
	case hi == nil:
		return "[" + share(lo) + ", open]"
	case *hi == lo:
		return share(lo)
	}
	return "[" + share(lo) + ", " + share(*hi) + "]"
}

// share writes a known ratio in percent, with at most three decimals.
func share(ratio float64) string {
	if ratio > 0 && ratio < 1e-5 {
		return "<0.001%"
	}
	return strconv.FormatFloat(math.Round(ratio*1e5)/1e3, 'f', -1, 64) + "%"
}

// exact writes one known figure, such as a limit, without digits that say nothing: "30s", "750ms", "2,914".
func exact(v float64, unit string) string {
	switch {
	case unit == unitCount, unit == unitValue:
		return number(v)
	case unit == unitRatio:
		return share(v)
	case v == 0:
		return "0s"
	}
	u := unitFor(math.Abs(v))
	return strconv.FormatFloat(math.Round(v*u.per*1e3)/1e3, 'f', -1, 64) + u.name
}

// timeUnit is a unit with so many of it in a second.
type timeUnit struct {
	name string
	per  float64
}

// unitFor picks the unit in which a figure of that size (in seconds) reads best.
func unitFor(size float64) timeUnit {
	switch {
	case size >= 1 || size == 0:
		return timeUnit{"s", 1}
	case size >= 1e-3:
		return timeUnit{"ms", 1e3}
	}
	return timeUnit{"us", 1e6}
}

// digits is how many decimals show a range of that width (in seconds) without boasting.
func (u timeUnit) digits(width float64) int {
	switch w := width * u.per; {
	case w >= 1:
		return 1
	case w >= 0.1:
		return 2
	}
	return 3
}

// noise is what floating point adds to a figure that was whole in nanoseconds; it must not push a figure to the next digit.
const noise = 1e-6

func (u timeUnit) down(v float64, digits int) string {
	p := math.Pow10(digits)
	return strconv.FormatFloat(math.Floor(v*u.per*p+noise)/p, 'f', digits, 64)
}

func (u timeUnit) up(v float64, digits int) string {
	p := math.Pow10(digits)
	return strconv.FormatFloat(math.Ceil(v*u.per*p-noise)/p, 'f', digits, 64)
}

// trimmed is a decimal without zeros at its end.
func trimmed(decimal string) string { return strings.TrimRight(strings.TrimRight(decimal, "0"), ".") }

// number writes a count, grouped in thousands.
func number(v float64) string {
	if v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return count(int(v))
}

func count[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return sign + strings.Join(append([]string{digits}, groups...), ",")
}

// percent writes an upper bound of a rate with two digits, rounded up.
func percent(rate float64) string {
	if rate <= 0 {
		return "0%"
	}
	digits := max(0, 1-int(math.Floor(math.Log10(rate*100))))
	return strconv.FormatFloat(math.Ceil(rate*100*math.Pow10(digits)-noise)/math.Pow10(digits), 'f', digits, 64) + "%"
}

// upTo writes a count that is only known to lie within [lo, hi]: "3", "0 to 19".
func upTo(lo, hi int) string {
	if hi <= lo {
		return count(lo)
	}
	return count(lo) + " to " + count(hi)
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "dy"): // jeopardy, and not key
		what = strings.TrimSuffix(what, "y") + "ie"
	case strings.HasSuffix(what, "tch"): // stretch, and not epoch
		what += "e"
	}
	return fmt.Sprintf("%s %ss", count(n), what)
}
