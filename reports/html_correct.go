package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// tableBlock is a table under a heading; nothing where there is no table.
func tableBlock(least doc.Level, heading string, g *doc.Table) []doc.Block {
	if g == nil {
		return nil
	}
	return []doc.Block{{Least: least, Heading: heading, Table: g}}
}

// correctnessBlocks are duplicates, overlaps, abandonments and stale writes, each with the events that show it.
func correctnessBlocks(r Run) []doc.Block {
	j := r.Judgement
	return slices.Concat(
		[]doc.Block{{Items: slices.Concat(workItems(j), unknownItems(j, ofWork))}},
		tableBlock(doc.Page, "Duplicate terminal states", duplicateTable(j.Duplicates)),
		tableBlock(doc.Page, "Overlap", overlapTable(j.Overlap)),
		tableBlock(doc.Page, "Abandonments", abandonmentTable(j.Abandonments)),
	)
}

func duplicateTable(list []verdict.Duplicate) *doc.Table {
	return tableOf("Jobs with more than one accepted terminal state", "lock,job,too many,kinds,at,by", list,
		func(d verdict.Duplicate) ([]doc.Cell, []int64) {
			var at []string
			for _, s := range d.At {
				at = append(at, clockAt(s))
			}
			kinds := strings.Join(d.Kinds, ", ")
			if d.Resurrected {
				kinds += ", resurrected"
			}
			return []doc.Cell{codeCell(d.Lock), codeCell(d.Job), figureCell(figures.Count(d.Extra)), plainCell(kinds), figureCell(strings.Join(at, ", ")),
				plainCell(strings.Join(d.Writers(), ", "))}, d.Evidence
		})
}

func overlapTable(list []verdict.Overlap) *doc.Table {
	return tableOf("Overlap of each lock at each level", "lock,level,more than one holder,counted as", list,
		func(o verdict.Overlap) ([]doc.Cell, []int64) {
			unit, of := verdict.UnitSeconds, "time, of each extra holder"
			if o.Level == "effect" {
				unit, of = verdict.UnitCount, fmt.Sprintf("%s, %s", figures.Plural(o.Stale, "stale effect"), figures.Plural(o.Unowned, "unowned effect"))
			}
			return []doc.Cell{codeCell(o.Lock), plainCell(o.Level), figureCell(span(o.Lo, o.Hi, unit)), plainCell(of)}, o.Evidence
		})
}

func abandonmentTable(list []verdict.Abandonment) *doc.Table {
	return tableOf("Locks that were given up, or should have been", "lock,key,replica,reason,timing,need,fence lag,unowned work", list,
		func(a verdict.Abandonment) ([]doc.Cell, []int64) {
			reason, need := a.Reason, a.Need
			if reason == "" {
				reason, need = "never given up", "–"
			}
			return []doc.Cell{codeCell(a.Lock), codeCell(a.Key), plainCell(a.Replica), plainCell(reason), plainCell(a.Timing), plainCell(need),
				rangeCell(a.FenceLag), rangeCell(&a.Unowned)}, a.Evidence
		})
}

// debtBlocks are what the locks cost those who wanted them.
func debtBlocks(r Run) []doc.Block {
	j := r.Judgement
	items := debtItems(j.Debts)
	switch k := knows(j, "lock_debt"); {
	case len(j.Debts) > 0:
	case k == whole:
		items = []doc.Item{doc.Of("lock debt", "none: no key stayed taken after its work was done")}
	case k == partial:
		items = []doc.Item{doc.Of("lock debt", "none was seen")}
	}
	items = append(items, unknownItems(j, ofKeys)...)
	return slices.Concat(
		[]doc.Block{{Items: items}},
		tableBlock(doc.Page, "Debts (effective: while somebody waited; waiter-seconds: of all waiters together)", debtTable(j.Debts)),
		keyBlocks(j),
	)
}

// keyBlocks are the answers that a key was somebody else's, and how long jobs held theirs and waited for them.
func keyBlocks(j *verdict.Judgement) []doc.Block {
	return slices.Concat(
		tableBlock(doc.Full, "Answered \"not yours\"", notOwnedTable(j.NotOwned)),
		tableBlock(doc.Full, "Holds and waits of jobs", distributionTable(j.Distributions)),
	)
}

func debtTable(list []verdict.Debt) *doc.Table {
	return tableOf("Keys that stayed taken after nobody needed them", "lock,key,replica,cause,from,debt,effective,waiter-seconds", list,
		func(d verdict.Debt) ([]doc.Cell, []int64) {
			return []doc.Cell{codeCell(d.Lock), codeCell(d.Key), plainCell(d.Replica), plainCell(strings.ReplaceAll(d.Cause, "_", " ")), figureCell(clockAt(d.From)),
				rangeCell(&d.Debt), rangeCell(&d.Effective), rangeCell(&d.WaiterSeconds)}, d.Evidence
		})
}

func notOwnedTable(list []verdict.NotOwned) *doc.Table {
	return tableOf("Renewals and releases that were answered: not yours", "lock,operation,answered,absent,other,ratio", list,
		func(o verdict.NotOwned) ([]doc.Cell, []int64) {
			return []doc.Cell{codeCell(o.Lock), plainCell(o.Op), figureCell(figures.Count(o.Answered)), figureCell(figures.Count(o.Absent)), figureCell(figures.Count(o.Other)),
				figureCell(share(o.Ratio))}, o.Evidence
		})
}

func distributionTable(list []verdict.Distribution) *doc.Table {
	return tableOf("How long jobs held their lock, and waited for it", "lock,class,measure,n,p50,p95,p99,max", list,
		func(d verdict.Distribution) ([]doc.Cell, []int64) {
			cells := []doc.Cell{codeCell(d.Lock), plainCell(cmp.Or(d.Class, "–")), plainCell(d.Measure), figureCell(figures.Count(d.N))}
			for _, q := range []verdict.Range{d.P50, d.P95, d.P99, d.Max} {
				cells = append(cells, rangeCell(&q))
			}
			return cells, nil
		})
}
