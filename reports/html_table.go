package reports

import (
	"html/template"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// rowsOfTable bounds a table of the page.
const rowsOfTable = 100

func plainCell(s string) doc.Cell             { return doc.Cell{Text: s} }
func codeCell(s string) doc.Cell              { return doc.Cell{Text: s, Code: s != ""} }
func figureCell(s string) doc.Cell            { return doc.Cell{Text: s, Figure: true} }
func tonedCell(s string, t doc.Tone) doc.Cell { return doc.Cell{Text: s, Tone: t} }

// tableOf makes a row of each of the first of list, with what shows it, and says how many there are besides; nil where there is none.
func tableOf[T any](label, columns string, list []T, row func(T) ([]doc.Cell, []int64)) *doc.Table {
	if len(list) == 0 {
		return nil
	}
	g := &doc.Table{Label: label, Columns: doc.Columns(strings.Split(columns, ",")...), Left: max(0, len(list)-rowsOfTable), Where: "verdict.json has them all"}
	for _, x := range first(list, rowsOfTable) {
		cells, refs := row(x)
		g.Rows = append(g.Rows, doc.Row{Cells: cells, Refs: refs})
	}
	return g
}

// rangeCell is a measured range of seconds; nil = not measured.
func rangeCell(r *verdict.Range) doc.Cell {
	if r == nil {
		return figureCell("–")
	}
	return figureCell(span(r.Lo, r.Hi, verdict.UnitSeconds))
}

// mostTwin bounds the rows of a twin.
const mostTwin = 200

func timelineBlocks(l *timeline.Lanes) []doc.Block {
	var trials []doc.Block
	for _, p := range timeline.Trials(l) {
		drawn := pictureOf(p)
		drawn.Bare = true
		trials = append(trials, doc.Block{Fold: "Close-up of the worst: " + strings.ToLower(p.Title[:1]) + p.Title[1:], Figure: drawn})
	}
	blocks := []doc.Block{{Figure: pictureOf(timeline.Overview(l))}}
	if len(trials) > 1 {
		return append(blocks, doc.Block{Fold: "Close-ups: " + figures.Plural(len(trials), "picture"), Blocks: trials})
	}
	return append(blocks, trials...)
}

func signalBlocks(l *timeline.Lanes) []doc.Block {
	if blocks := pictured(timeline.Signals(l), nil, ""); len(blocks) > 0 {
		return blocks
	}
	return []doc.Block{{Text: "The experiment watches no metric (probes.metrics).", Quiet: true}}
}

// pictured are pictures one below the other, and the rows that need none: they were kept at 0 in each of what is named.
func pictured(ps []timeline.Picture, level []string, each string) (blocks []doc.Block) {
	for _, p := range ps {
		blocks = append(blocks, doc.Block{Figure: pictureOf(p)})
	}
	if len(level) > 0 {
		blocks = append(blocks, doc.Block{Text: "Kept at 0 " + each + ": " + strings.Join(level, ", ") + "."})
	}
	return blocks
}

// pictureOf trusts the picture: package timeline escapes what it draws, and the tests feed it markup.
func pictureOf(p timeline.Picture) *doc.Figure {
	f := &doc.Figure{Title: p.Title, Desc: p.Desc, SVG: template.HTML(p.SVG), Legend: template.HTML(p.Legend)}
	if len(p.Rows) == 0 {
		return f
	}
	rows := p.Rows[:min(len(p.Rows), mostTwin)]
	f.Twin = &doc.Table{Label: p.Title + ", as a table", Left: len(p.Rows) - len(rows), Where: "history.jsonl has all"}
	for _, c := range p.Columns {
		f.Twin.Columns = append(f.Twin.Columns, doc.Column{Name: strings.ToLower(c)}) // as in the tables of the page
	}
	for _, row := range rows {
		var cells []doc.Cell
		for _, text := range row {
			cells = append(cells, doc.Cell{Text: text})
		}
		f.Twin.Row(cells...)
	}
	return f
}
