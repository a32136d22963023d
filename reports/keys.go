package reports

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// debtItems sum up the debts of each lock.
func debtItems(all []verdict.Debt) []doc.Item {
	var locks []string
	of := map[string][]verdict.Debt{}
	for _, d := range all {
		if of[d.Lock] == nil {
			locks = append(locks, d.Lock)
		}
		of[d.Lock] = append(of[d.Lock], d)
	}
	var list []doc.Item
	for _, lock := range locks {
		list = append(list, doc.Of("lock debt", lock+": "+debtText(of[lock])))
	}
	return list
}

func debtText(ds []verdict.Debt) string {
	var causes []string
	n := map[string]int{}
	perhaps := 0
	zero := 0.0
	sum := func(a, b float64) float64 { return a + b }
	longest, all := verdict.Range{Hi: &zero}, verdict.Range{Hi: &zero}
	effective, waited := verdict.Range{Hi: &zero}, verdict.Range{Hi: &zero}
	for _, d := range ds {
		if n[d.Cause]++; n[d.Cause] == 1 {
			causes = append(causes, d.Cause)
		}
		if d.Debt.Lo == 0 {
			perhaps++
		}
		longest, all = together(longest, d.Debt, math.Max), together(all, d.Debt, sum)
		effective, waited = together(effective, d.Effective, math.Max), together(waited, d.WaiterSeconds, sum)
	}
	slices.Sort(causes)
	for i, c := range causes {
		causes[i] = fmt.Sprintf("%s %s", c, figures.Count(n[c]))
	}
	text := fmt.Sprintf("%s (%s), longest %s", figures.Plural(len(ds), "debt"), strings.Join(causes, ", "), span(longest.Lo, longest.Hi, verdict.UnitSeconds))
	if len(ds) > 1 {
		text += ", together " + span(all.Lo, all.Hi, verdict.UnitSeconds)
	}
	if perhaps > 0 {
		text += fmt.Sprintf("; %s of them not certain", figures.Count(perhaps))
	}
	if waited.Hi == nil || *waited.Hi > 0 {
		text += fmt.Sprintf("; somebody waited for one for %s at the longest, all waiters together for %s", span(effective.Lo, effective.Hi, verdict.UnitSeconds), span(waited.Lo, waited.Hi, verdict.UnitSeconds))
	}
	return text
}

// together joins two ranges end by end; an open end stays open.
func together(a, b verdict.Range, join func(a, b float64) float64) verdict.Range {
	r := verdict.Range{Lo: join(a.Lo, b.Lo)}
	if a.Hi != nil && b.Hi != nil {
		hi := join(*a.Hi, *b.Hi)
		r.Hi = &hi
	}
	return r
}
