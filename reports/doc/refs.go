package doc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rows of a log that a page points at, and text names.
const (
	mostOfCard = 8
	mostOfRow  = 4
)

func (t *Table) mostRefs() int {
	if t.Cards {
		return mostOfCard
	}
	return mostOfRow
}

// cited are the most telling of these numbers, in their order, and how many more there are.
func cited(numbers []int64, most int) (kept []int64, more int) {
	for _, n := range numbers {
		switch {
		case n < 1 || slices.Contains(kept, n):
		case len(kept) == most:
			more++
		default:
			kept = append(kept, n)
		}
	}
	slices.Sort(kept)
	return kept, more
}

// Cited are the rows of a log that a page of d points at. What is beyond the last row of the log is taken out of d.
func Cited(d *Document, last int64) map[int64]bool {
	all := map[int64]bool{}
	var walk func([]Block)
	walk = func(blocks []Block) {
		for _, b := range blocks {
			if b.Table != nil {
				rows, _ := b.Table.rows(Page)
				for i := range rows {
					r := &rows[i]
					r.Refs = slices.DeleteFunc(slices.Clone(r.Refs), func(n int64) bool { return n > last })
					kept, _ := cited(r.Refs, b.Table.mostRefs())
					for _, n := range kept {
						all[n] = true
					}
				}
			}
			walk(b.Blocks)
		}
	}
	for _, s := range d.Sections {
		walk(s.Blocks)
	}
	return all
}

// events names rows of a log in text.
func events(numbers []int64, of *Table) string { return named(numbers, of.mostRefs()) }

// Events names the events of a run that show something.
func Events(numbers []int64) string { return named(numbers, mostOfCard) }

func named(numbers []int64, most int) string {
	kept, more := cited(numbers, most)
	if len(kept) == 0 {
		return ""
	}
	var names []string
	for _, n := range kept {
		names = append(names, strconv.FormatInt(n, 10))
	}
	text := "event"
	if len(numbers) > 1 {
		text += "s"
	}
	text += " " + strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " of history.jsonl"
}
