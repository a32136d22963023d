package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// tableBlock is a table under a heading; nothing where there is no table.
func tableBlock(heading string, g *Table) []Block {
	if g == nil {
		return nil
	}
	return []Block{{Heading: heading, Table: g}}
}

// correctnessBlocks are duplicates, overlaps, abandonments and stale writes, each with the events that show it.
func correctnessBlocks(r Run, ev *evidence) []Block {
	j := r.Judgement
	return slices.Concat(
		[]Block{itemBlock("", append(workItems(j), unknownItems(j, ofWork)...))},
		tableBlock("Duplicate terminal states", duplicateTable(j.Duplicates, ev)),
		tableBlock("Overlap", overlapTable(j.Overlap, ev)),
		tableBlock("Abandonments", abandonmentTable(j.Abandonments, ev)),
		tableBlock(lintTitle, lintTable(j.Lints, ev)),
		tableBlock("Findings: two ways to know the same thing disagree", tableOf("Findings", []string{"finding", "events"}, j.Findings,
			func(f verdict.Finding) []Cell { return []Cell{plainCell(f.What), ev.cell(f.Evidence)} })),
	)
}

func duplicateTable(list []verdict.Duplicate, ev *evidence) *Table {
	return tableOf("Jobs with more than one accepted terminal state", []string{"lock", "job", "too many", "kinds", "at", "by", "events"}, list,
		func(d verdict.Duplicate) []Cell {
			var at []string
			for _, s := range d.At {
				at = append(at, clockAt(s))
			}
			kinds := strings.Join(d.Kinds, ", ")
			if d.Resurrected {
				kinds += ", resurrected"
			}
			return []Cell{codeCell(d.Lock), codeCell(d.Job), figureCell(figures.Count(d.Extra)), plainCell(kinds), figureCell(strings.Join(at, ", ")),
				plainCell(strings.Join(d.Writers(), ", ")), ev.cell(d.Evidence)}
		})
}

func overlapTable(list []verdict.Overlap, ev *evidence) *Table {
	return tableOf("Overlap of each lock at each level", []string{"lock", "level", "more than one holder", "of that", "events"}, list,
		func(o verdict.Overlap) []Cell {
			unit, of := verdict.UnitSeconds, "holder-seconds in excess"
			if o.Level == "effect" {
				unit, of = verdict.UnitCount, fmt.Sprintf("%s, %s", figures.Plural(o.Stale, "stale effect"), figures.Plural(o.Unowned, "unowned effect"))
			}
			return []Cell{codeCell(o.Lock), plainCell(o.Level), figureCell(span(o.Lo, o.Hi, unit)), plainCell(of), ev.cell(o.Evidence)}
		})
}

func abandonmentTable(list []verdict.Abandonment, ev *evidence) *Table {
	return tableOf("Locks that were given up, or should have been", []string{"lock", "key", "replica", "reason", "timing", "need", "fence lag", "unowned work", "events"}, list,
		func(a verdict.Abandonment) []Cell {
			reason, need := a.Reason, a.Need
			if reason == "" {
				reason, need = "never given up", "–"
			}
			return []Cell{codeCell(a.Lock), codeCell(a.Key), plainCell(a.Replica), plainCell(reason), plainCell(a.Timing), plainCell(need),
				rangeCell(a.FenceLag), rangeCell(&a.Unowned), ev.cell(a.Evidence)}
		})
}

// debtBlocks are what the locks cost those who wanted them.
func debtBlocks(r Run, ev *evidence) []Block {
	j := r.Judgement
	items := debtItems(j.Debts)
	switch k := knows(j, "lock_debt"); {
	case len(j.Debts) > 0:
	case k == whole:
		items = []item{{"lock debt", "none: no key stayed taken after its work was done"}}
	case k == partial:
		items = []item{{"lock debt", "none was seen"}}
	}
	items = append(items, unknownItems(j, ofKeys)...)
	return slices.Concat(
		[]Block{itemBlock("", items)},
		tableBlock("Debts", debtTable(j.Debts, ev)),
		tableBlock("Answered \"not yours\"", notOwnedTable(j.NotOwned, ev)),
		tableBlock("Holds and waits of jobs", distributionTable(j.Distributions)),
	)
}

func debtTable(list []verdict.Debt, ev *evidence) *Table {
	return tableOf("Keys that stayed taken after nobody needed them", []string{"lock", "key", "replica", "cause", "from", "debt", "effective", "waiter-seconds", "events"}, list,
		func(d verdict.Debt) []Cell {
			return []Cell{codeCell(d.Lock), codeCell(d.Key), plainCell(d.Replica), plainCell(strings.ReplaceAll(d.Cause, "_", " ")), figureCell(clockAt(d.From)),
				rangeCell(&d.Debt), rangeCell(&d.Effective), rangeCell(&d.WaiterSeconds), ev.cell(d.Evidence)}
		})
}

func notOwnedTable(list []verdict.NotOwned, ev *evidence) *Table {
	return tableOf("Renewals and releases that were answered: not yours", []string{"lock", "operation", "answered", "absent", "other", "ratio", "events"}, list,
		func(o verdict.NotOwned) []Cell {
			return []Cell{codeCell(o.Lock), plainCell(o.Op), figureCell(figures.Count(o.Answered)), figureCell(figures.Count(o.Absent)), figureCell(figures.Count(o.Other)),
				figureCell(share(o.Ratio)), ev.cell(o.Evidence)}
		})
}

func distributionTable(list []verdict.Distribution) *Table {
	return tableOf("How long jobs held their lock, and waited for it", []string{"lock", "class", "measure", "n", "p50", "p95", "p99", "max"}, list,
		func(d verdict.Distribution) []Cell {
			cells := []Cell{codeCell(d.Lock), plainCell(cmp.Or(d.Class, "–")), plainCell(d.Measure), figureCell(figures.Count(d.N))}
			for _, q := range []verdict.Range{d.P50, d.P95, d.P99, d.Max} {
				cells = append(cells, rangeCell(&q))
			}
			return cells
		})
}
