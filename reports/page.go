package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/reports/doc"
)

// ink is an ANSI colour; the words carry the meaning without it.
type ink string

const (
	plain  ink = ""
	bold   ink = "1"
	red    ink = "1;31"
	green  ink = "1;32"
	yellow ink = "1;33"
)

// page collects lines of text, at most width columns wide where the figures allow it.
type page struct {
	strings.Builder
	width int
	color bool
}

func newPage(o Options) *page {
	if o.Width <= 0 {
		o.Width = 100
	}
	return &page{width: o.Width, color: o.Color}
}

// to writes the page at once: a reader sees all of it or an error that names what was written.
func (p *page) to(w io.Writer, what string) error {
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

func (p *page) paint(i ink, s string) string {
	if !p.color || i == plain {
		return s
	}
	return "\x1b[" + string(i) + "m" + s + "\x1b[0m"
}

// line is where text enters the page, and with it the terminal.
func (p *page) line(s string) { p.WriteString(doc.Painted(strings.TrimRight(s, " "), p.color) + "\n") }
func (p *page) blank()        { p.WriteString("\n") }

func (p *page) title(s string) { p.line(p.paint(bold, s)) }

// labels of items line up at this column.
const labelWidth = 13

// item is a labelled text; without a label it goes on with the one before. Every format shows the same ones.
type item struct{ Label, Text string }

func (p *page) items(list []item) {
	for _, i := range list {
		p.item(i.Label, i.Text)
	}
}

// section is a title with labelled texts below it; without any there is none.
func (p *page) section(title string, list []item) {
	if len(list) == 0 {
		return
	}
	p.title(title)
	p.items(list)
	p.blank()
}

// item is a labelled text, wrapped with a hanging indent. Empty texts are left out.
func (p *page) item(label, text string) {
	if text == "" {
		return
	}
	p.flow(2, 2+labelWidth+1, pad(label, labelWidth)+" "+text)
}

// flow wraps text: the first line is indented by first columns, the others by hang.
func (p *page) flow(first, hang int, text string) {
	line, used := strings.Repeat(" ", first), first
	fresh := true
	for _, w := range tokens(doc.OneLine(text)) {
		size := doc.Width(w.text)
		if !fresh && used+w.gap+size > p.width {
			p.line(line)
			line, used, w.gap = strings.Repeat(" ", hang), hang, 0
		}
		line += strings.Repeat(" ", w.gap) + w.text
		used += w.gap + size
		fresh = false
	}
	p.line(line)
}

// token is text that stays on one line, and the blanks before it.
type token struct {
	gap  int
	text string
}

// tokens splits at blanks, except inside brackets and between a number and its unit: figures are never broken.
func tokens(text string) []token {
	var list []token
	depth, gap := 0, 0
	start := -1
	flush := func(end int) {
		if start >= 0 {
			list = append(list, token{gap, text[start:end]})
			start, gap = -1, 0
		}
	}
	for i, r := range text {
		switch {
		case r == ' ' && depth == 0 && (start < 0 || !unitFollows(text[:i], text[i+1:])):
			flush(i)
			gap++
			continue
		case r == '[' && (i == 0 || text[i-1] != '\x1b'):
			depth++
		case r == ']' && depth > 0:
			depth--
		}
		if start < 0 {
			start = i
		}
	}
	flush(len(text))
	return list
}

// unitFollows reports whether the blank between before and after stands between a number and its unit.
func unitFollows(before, after string) bool {
	last := before[len(before)-1]
	unit, _, _ := strings.Cut(after, " ")
	return last >= '0' && last <= '9' && slices.Contains([]string{"us", "ms", "s", "min", "h", "%"}, strings.TrimRight(unit, ".,;:)"))
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-doc.Width(s)))
}

// cell of a table.
type cell struct {
	text string
	ink  ink
}

// table has rows of cells in aligned columns, with labelled notes between them.
type table struct {
	indent int
	rows   []tableRow
}

type tableRow struct {
	cells       []cell
	label, note string
}

func (t *table) row(cells ...cell) { t.rows = append(t.rows, tableRow{cells: cells}) }

func (t *table) note(label, text string) {
	if text != "" {
		t.rows = append(t.rows, tableRow{label: label, note: text})
	}
}

const columnGap = 2

// table writes a table; where it is too wide for the page, each row is wrapped between its cells instead.
func (p *page) table(t table) {
	widths := t.widths(p.width)
	hang := t.indent + columnGap
	if len(widths) > 0 {
		hang += widths[0]
	}
	for _, r := range t.rows {
		if r.cells == nil {
			p.flow(hang, hang+6, pad(r.label, 4)+"  "+r.note)
			continue
		}
		line, used := strings.Repeat(" ", t.indent), t.indent
		for i, c := range r.cells {
			text := pad(p.paint(c.ink, c.text), widths[i])
			if size := doc.Width(c.text); i > 1 && used+size > p.width {
				text = c.text
				line = strings.TrimRight(line, " ")
				if at := p.width - size; doc.Width(line)+columnGap <= at { // out of its column, it still fits
					line += strings.Repeat(" ", at-doc.Width(line))
					used = at
				} else {
					p.line(line)
					line, used = strings.Repeat(" ", hang), hang
				}
			}
			line += text + strings.Repeat(" ", columnGap)
			used += doc.Width(text) + columnGap
		}
		p.line(line)
	}
}

// widths are those of the columns. Beyond its first two cells, a row that is too long for the line does not push those of others aside.
func (t *table) widths(line int) []int {
	widths, total := t.columns(t.rows)
	if total <= line || len(widths) < 3 {
		return widths
	}
	first := tableRow{cells: []cell{{text: strings.Repeat(" ", widths[0])}, {text: strings.Repeat(" ", widths[1])}}}
	fits := []tableRow{first}
	for _, r := range t.rows {
		if _, alone := t.columns([]tableRow{first, r}); alone <= line {
			fits = append(fits, r)
		}
	}
	fitting, _ := t.columns(fits)
	return append(fitting, widths[len(fitting):]...)
}

// columns are the widths of some rows, and of a line of theirs.
func (t *table) columns(rows []tableRow) (widths []int, total int) {
	for _, r := range rows {
		for i, c := range r.cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], doc.Width(c.text))
		}
	}
	total = t.indent - columnGap
	for _, w := range widths {
		total += w + columnGap
	}
	return widths, total
}
