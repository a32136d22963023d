package reports

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// sizeText is how many values there are, of how many runs.
func sizeText(r *compare.ComparedRow, s compare.ComparedSide) string {
	text := figures.Plural(s.N, r.Of)
	if r.Of != "run" {
		text += " of " + figures.Plural(len(s.Runs), "run")
	}
	if s.Open > 0 {
		text += ", " + figures.Count(s.Open) + " without a measured end"
	}
	return text
}

// changeText is the shift, relative where the base has a median to be relative to.
func changeText(r *compare.ComparedRow) string {
	switch {
	case r.Shift == nil:
		return ""
	case r.Relative != nil:
		return relativeText(r.Relative)
	}
	return signed(intervalText(r.Shift, r.Unit), r.Shift)
}

// partsText says of each part of takeovers what it was and what it is; "" of anything else.
func partsText(r *compare.ComparedRow) string {
	var all []string
	for _, p := range r.Parts {
		text := p.Name + " " + intervalText(p.Base, r.Unit) + " -> " + intervalText(p.Head, r.Unit)
		if p.Shift != nil {
			text += " (" + signed(intervalText(p.Shift, r.Unit), p.Shift) + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// withinText is the interval of the shift.
func withinText(r *compare.ComparedRow) string {
	switch {
	case r.RelativeWithin != nil:
		return relativeText(r.RelativeWithin)
	case r.ShiftWithin != nil:
		return signed(intervalText(r.ShiftWithin, r.Unit), r.ShiftWithin)
	}
	return ""
}

// chanceText is the chance that the head is above the base.
func chanceText(r *compare.ComparedRow) string {
	if r.Superiority == nil {
		return ""
	}
	lo, hi := math.Floor(*r.Superiority.Lo*100+noise), math.Ceil(*r.Superiority.Hi*100-noise)
	if lo == hi {
		return fmt.Sprintf("higher in %g%% of pairs", lo)
	}
	return fmt.Sprintf("higher in [%g, %g]%% of pairs", lo, hi)
}

// oddsText is the P of a row, and what is left of it among all rows.
func oddsText(r *compare.ComparedRow, c *compare.Comparison) string {
	switch {
	case r.P == nil:
		return ""
	case r.Adjusted == nil || c.Tested == 1:
		return "by chance " + odds(*r.P)
	}
	return fmt.Sprintf("by chance %s, over all rows (Holm) %s", odds(*r.P), odds(*r.Adjusted))
}

// oddsOf is the P that counts: by Holm where the row was tested.
func oddsOf(r *compare.ComparedRow) string {
	if r.Adjusted != nil {
		return odds(*r.Adjusted)
	}
	return odds(*r.P)
}

// odds is a P, rounded up to three digits.
func odds(p float64) string {
	if p < 1e-4 {
		return "<0.0001"
	}
	digits := 2 - int(math.Floor(math.Log10(p)))
	return strconv.FormatFloat(math.Ceil(p*math.Pow10(digits)-noise)/math.Pow10(digits), 'f', -1, 64)
}

// intervalText is span for what may be open at either end.
func intervalText(i *compare.Interval, unit string) string {
	switch {
	case i == nil:
		return "–"
	case i.Lo == nil && i.Hi == nil:
		return "[open, open]"
	case i.Lo == nil:
		return "[open, " + strings.TrimSuffix(strings.TrimPrefix(span(*i.Hi, i.Hi, unit), "["), "]") + "]"
	}
	return span(*i.Lo, i.Hi, unit)
}

// signed puts a plus before a single figure above 0.
func signed(text string, i *compare.Interval) string {
	if i.Lo != nil && *i.Lo > 0 && !strings.HasPrefix(text, "[") {
		return "+" + text
	}
	return text
}

// relativeText is an interval of shares in percent with their signs, to a tenth, rounded outwards.
func relativeText(i *compare.Interval) string {
	end := func(v *float64, round func(float64) float64, outwards float64) string {
		if v == nil {
			return "open"
		}
		return fmt.Sprintf("%+.1f", round(*v*1e3+outwards)/10+0)
	}
	lo, hi := end(i.Lo, math.Floor, noise), end(i.Hi, math.Ceil, -noise)
	if lo == hi {
		return lo + "%"
	}
	return "[" + lo + ", " + hi + "]%"
}
