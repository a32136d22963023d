package reports

import (
	"html/template"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Table has a cell for each column in each row.
type Table struct {
	ID      string
	Label   string // says to those who do not see it what it holds
	Columns []string
	Rows    [][]Cell
	More    string // what was left out
	left    int    // rows that were left out
	where   string // has them
	Log     bool   // the event log, whose lines may be linked to by the numbers in their first cells
}

// Cell is a text, perhaps with a link, or links to events.
type Cell struct {
	Text  string
	Link  string
	Class string // pass, fail, open: the text says it as well
	Code  bool
	Num   bool
	Refs  []int64 // rows of the event log: nothing else is set
}

// rowsOfTable bounds a table of the page.
const rowsOfTable = 100

func plainCell(s string) Cell  { return Cell{Text: s} }
func codeCell(s string) Cell   { return Cell{Text: doc.Shorten(s, doc.LongName), Code: s != ""} }
func figureCell(s string) Cell { return Cell{Text: s, Num: true} }

func (t *Table) row(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// tableOf makes a row of each of the first of list, and says how many there are besides; nil where there is none.
func tableOf[T any](label string, columns []string, list []T, row func(T) []Cell) *Table {
	if len(list) == 0 {
		return nil
	}
	g := &Table{Label: label, Columns: columns}
	for _, x := range first(list, rowsOfTable) {
		g.row(row(x)...)
	}
	if more := len(list) - rowsOfTable; more > 0 {
		g.left, g.where = more, "verdict.json has them all"
	}
	return g
}

// cell points at evidence.
func (ev *evidence) cell(numbers []int64) Cell {
	return Cell{Refs: ev.cite(numbers)}
}

// rangeCell is a measured range of seconds; nil = not measured.
func rangeCell(r *verdict.Range) Cell {
	if r == nil {
		return figureCell("–")
	}
	return figureCell(span(r.Lo, r.Hi, verdict.UnitSeconds))
}

// drawing is a picture with its twin.
type drawing struct {
	Title, Desc string
	Bare        bool // the title stands right above it
	SVG         template.HTML
	Twin        *Table
}

// mostTwin bounds the rows of a twin.
const mostTwin = 200

// figureOf trusts the picture: package timeline escapes what it draws, and the tests feed it markup.
func figureOf(p timeline.Picture) *drawing {
	f := &drawing{Title: p.Title, Desc: p.Desc, SVG: template.HTML(p.SVG)}
	if len(p.Rows) == 0 {
		return f
	}
	f.Twin = &Table{Label: p.Title + ", as a table"}
	for _, c := range p.Columns {
		f.Twin.Columns = append(f.Twin.Columns, strings.ToLower(c)) // as in the tables of the page
	}
	for _, row := range first(p.Rows, mostTwin) {
		var cells []Cell
		for _, text := range row {
			cells = append(cells, plainCell(text))
		}
		f.Twin.row(cells...)
	}
	if more := len(p.Rows) - mostTwin; more > 0 {
		f.Twin.left = more
	}
	return f
}

func timelineBlocks(l *timeline.Lanes) []Block {
	var trials []Block
	for _, p := range timeline.Trials(l) {
		drawn := figureOf(p)
		drawn.Bare = true
		trials = append(trials, Block{Fold: &fold{p.Title, []Block{{Figure: drawn}}}})
	}
	blocks := []Block{{Figure: figureOf(timeline.Overview(l))}}
	if len(trials) > 1 {
		return append(blocks, Block{Fold: &fold{"Close-ups: " + figures.Plural(len(trials), "picture"), trials}})
	}
	return append(blocks, trials...)
}

func signalBlocks(l *timeline.Lanes) []Block {
	var blocks []Block
	for _, p := range timeline.Signals(l) {
		blocks = append(blocks, Block{Figure: figureOf(p)})
	}
	if len(blocks) == 0 {
		return []Block{{Muted: "The experiment watches no metric (probes.metrics)."}}
	}
	return blocks
}

// pictureOf trusts the picture: package timeline escapes what it draws, and the tests feed it markup.
func pictureOf(p timeline.Picture) *doc.Figure {
	f := &doc.Figure{Title: p.Title, Desc: p.Desc, SVG: template.HTML(p.SVG)}
	if len(p.Rows) == 0 {
		return f
	}
	f.Twin = &doc.Table{Label: p.Title + ", as a table", Most: map[doc.Level]int{doc.Full: mostTwin}}
	for _, c := range p.Columns {
		f.Twin.Columns = append(f.Twin.Columns, doc.Column{Name: strings.ToLower(c)}) // as in the tables of the page
	}
	for _, row := range p.Rows {
		var cells []doc.Cell
		for _, text := range row {
			cells = append(cells, doc.Cell{Text: text})
		}
		f.Twin.Row(cells...)
	}
	return f
}
