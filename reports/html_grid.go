package reports

import (
	"fmt"
	"html/template"
	"strings"
	"unicode/utf8"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// grid is a table of the page. Label says to those who do not see it what it holds.
type grid struct {
	ID      string
	Label   string
	Columns []string
	Rows    []gridRow
	More    string // what was left out
	Log     bool   // the event log, whose lines may be linked to
}

type gridRow struct {
	ID    string
	Cells []gridCell
}

// gridCell is a text, a word of a verdict, or links to events.
type gridCell struct {
	Text  string
	Class string // pass, fail, open: the word says it as well
	Code  bool
	Short bool // code that is better not broken over lines
	Num   bool
	Refs  *refs
	Link  string // address of the page that the text names
}

// rowsOfGrid bounds a table of the page.
const rowsOfGrid = 100

// isShort reports a name that a table has room for on one line.
func isShort(s string) bool { return utf8.RuneCountInString(s) <= 30 }

func plainCell(s string) gridCell { return gridCell{Text: clipped(s, longText)} }
func codeCell(s string) gridCell {
	return gridCell{Text: clipped(s, longName), Code: s != "", Short: isShort(s)}
}
func figureCell(s string) gridCell {
	return gridCell{Text: s, Num: true}
}

func (g *grid) row(cells ...gridCell) { g.Rows = append(g.Rows, gridRow{Cells: cells}) }

// gridOf makes a row of each of the first of list, and says how many there are besides; nil where there is none.
func gridOf[T any](label string, columns []string, list []T, row func(T) []gridCell) *grid {
	if len(list) == 0 {
		return nil
	}
	g := &grid{Label: label, Columns: columns}
	for _, x := range first(list, rowsOfGrid) {
		g.row(row(x)...)
	}
	if more := len(list) - rowsOfGrid; more > 0 {
		g.More = fmt.Sprintf("and %s more: verdict.json has them all", figures.Count(more))
	}
	return g
}

// cell points at evidence.
func (ev *evidence) cell(numbers []int64) gridCell {
	r := ev.cite(numbers, citedOfRow)
	return gridCell{Refs: &r}
}

// rangeCell is a measured range of seconds; nil = not measured.
func rangeCell(r *verdict.Range) gridCell {
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
	Twin        *grid
}

// mostTwin bounds the rows of a twin.
const mostTwin = 200

// figureOf trusts the picture: package timeline escapes what it draws, and the tests feed it markup.
func figureOf(p timeline.Picture) *drawing {
	f := &drawing{Title: p.Title, Desc: p.Desc, SVG: template.HTML(p.SVG)}
	if len(p.Rows) == 0 {
		return f
	}
	f.Twin = &grid{Label: p.Title + ", as a table"}
	for _, c := range p.Columns {
		f.Twin.Columns = append(f.Twin.Columns, strings.ToLower(c)) // as in the tables of the page
	}
	for _, row := range first(p.Rows, mostTwin) {
		var cells []gridCell
		for _, text := range row {
			cells = append(cells, plainCell(text))
		}
		f.Twin.row(cells...)
	}
	if more := len(p.Rows) - mostTwin; more > 0 {
		f.Twin.More = fmt.Sprintf("and %s more", figures.Plural(more, "row"))
	}
	return f
}

func timelineBlocks(l *verdict.Lanes) []block {
	var trials []block
	for _, p := range timeline.Trials(l) {
		drawn := figureOf(p)
		drawn.Bare = true
		trials = append(trials, block{Fold: &fold{p.Title, []block{{Figure: drawn}}}})
	}
	blocks := []block{{Figure: figureOf(timeline.Overview(l))}}
	if len(trials) > 1 {
		return append(blocks, block{Fold: &fold{"Close-ups: " + figures.Plural(len(trials), "picture"), trials}})
	}
	return append(blocks, trials...)
}

func signalBlocks(l *verdict.Lanes) []block {
	var blocks []block
	for _, p := range timeline.Signals(l) {
		blocks = append(blocks, block{Figure: figureOf(p)})
	}
	if len(blocks) == 0 {
		return []block{{Muted: "The experiment watches no metric (probes.metrics)."}}
	}
	return blocks
}
