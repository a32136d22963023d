package reports

import (
	"math"
	"strconv"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// span writes a measured range, rounded outwards: "[8.912, 8.921]s", "[2, open]", or one figure where both ends are the same.
func span(lo float64, hi *float64, unit string) string {
	switch unit {
	case verdict.UnitCount:
		return spanOf(lo, hi, number)
	case verdict.UnitRatio:
		return spanOf(lo, hi, share)
	case verdict.UnitValue:
		return valueSpan(lo, hi)
	}
	return figures.Seconds(lo, hi)
}

func spanOf(lo float64, hi *float64, text func(float64) string) string {
	switch {
	case hi == nil && lo >= verdict.Infinite:
		return text(lo)
	case hi == nil:
		return "[" + text(lo) + ", open]"
	case *hi == lo:
		return text(lo)
	}
	return "[" + text(lo) + ", " + text(*hi) + "]"
}

// valueSpan is for what is no whole number, with at most three decimals.
func valueSpan(lo float64, hi *float64) string {
	lo = math.Floor(lo*1e3) / 1e3
	if hi != nil {
		up := math.Ceil(*hi*1e3) / 1e3
		hi = &up
	}
	return spanOf(lo, hi, number)
}

// share writes a known ratio in percent, with at most three decimals.
func share(ratio float64) string {
	if ratio > 0 && ratio < 1e-5 {
		return "<0.001%"
	}
	return figures.Decimal(100*ratio) + "%"
}

// exact writes one known figure, such as a limit, without digits that say nothing: "30s", "750ms", "2,914".
func exact(v float64, unit string) string {
	switch {
	case unit == verdict.UnitCount, unit == verdict.UnitValue:
		return number(v)
	case unit == verdict.UnitRatio:
		return share(v)
	}
	return figures.Exact(figures.Nanoseconds(v))
}

// noise is what floating point adds to a figure that was whole; it must not push a figure to the next digit.
const noise = 1e-6

// number writes a count, grouped in thousands, or that it is infinite.
func number(v float64) string {
	if infinite(v) {
		return map[bool]string{true: "+Inf", false: "-Inf"}[v > 0]
	}
	if v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return figures.Count(int(v))
}

// infinite reports a figure that stands for infinity, also after it was reckoned with.
func infinite(v float64) bool { return math.Abs(v) >= verdict.Infinite }

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
		return figures.Count(lo)
	}
	return figures.Count(lo) + " to " + figures.Count(hi)
}
