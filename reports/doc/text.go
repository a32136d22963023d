package doc

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Look is how text is read.
type Look struct {
	Width int  // columns; 0 = 100
	Color bool // repeats what the words say, never more
}

// Inks of a terminal.
const (
	bold   = "1"
	red    = "1;31"
	green  = "1;32"
	yellow = "1;33"
)

var inks = map[Tone]string{Good: green, Bad: red, Open: yellow}

// LabelWidth is the width of labels, which line up.
const LabelWidth = 13

// Text is d for a terminal.
func Text(d *Document, l Level, look Look) string {
	if look.Width <= 0 {
		look.Width = 100
	}
	t := &text{Look: look, level: l}
	t.flow(0, 2, join("  ", append([]string{d.Word.Before, t.paint(inks[d.Word.Tone], d.Word.Text), d.Title, d.Tally}, d.Labels...)...))
	for _, s := range d.Lead {
		t.flow(2, 2, s)
	}
	if facts := items(d.Facts, l); len(facts) > 0 {
		t.items(2, facts)
	}
	for _, s := range sections(d.Sections, l) {
		t.line("")
		if !s.Bare && s.Title != "" {
			t.flow(0, 2, t.paint(bold, s.Title))
		}
		t.blocks(s.Blocks)
	}
	if tail := items(d.Tail, l); len(tail) > 0 {
		t.line("")
		t.items(2, tail)
	}
	return t.String()
}

// text collects lines, at most Width columns wide where the figures allow it.
type text struct {
	strings.Builder
	Look
	level Level
}

func (t *text) paint(ink, s string) string {
	if !t.Color || ink == "" || s == "" {
		return s
	}
	return "\x1b[" + ink + "m" + s + "\x1b[0m"
}

// line is where text enters the page, and with it the terminal.
func (t *text) line(s string) { t.WriteString(Painted(strings.TrimRight(s, " "), t.Color) + "\n") }

func (t *text) blocks(all []Block) {
	for i, b := range blocks(all, t.level) {
		in := 2
		if i > 0 && b.Table != nil && b.Heading == "" {
			t.line("")
		}
		if b.Heading != "" {
			t.flow(2, 4, t.paint(bold, b.Heading))
			in = 4
		}
		if b.Text != "" {
			t.flow(in, in, b.Text)
		}
		t.items(in, items(b.Items, t.level))
		for _, s := range b.List {
			t.flow(in, in+2, s)
		}
		if b.Table != nil && len(b.Table.Rows) > 0 {
			t.table(in, b.Table)
		}
		for line := range strings.Lines(b.Code) {
			t.line(strings.Repeat(" ", in) + strings.TrimRight(line, "\n"))
		}
		if b.Blank != "" {
			t.flow(in, in, "("+b.Blank+")")
		}
	}
}

func (t *text) items(in int, all []Item) {
	for _, i := range all {
		for k, s := range i.Texts {
			label := i.Label
			if k > 0 {
				label = ""
			}
			t.flow(in, in+LabelWidth+1, Pad(label, LabelWidth)+" "+s)
		}
	}
}

const columnGap = 2

// table puts the cells of each row into columns, below their names. What is too long for the line goes on within its own column, so that
// figures stay on their row.
func (t *text) table(in int, x *Table) {
	columns := x.shown(t.level)
	rows, more := x.rows(t.level)
	widths, fits := t.widths(in, x, columns, rows)
	if fits && slices.ContainsFunc(x.Columns, func(c Column) bool { return c.Name != "" }) {
		var head []string
		for _, c := range columns {
			head = append(head, strings.ToUpper(x.Columns[c].Name))
		}
		t.row(in, x, columns, widths, fits, head, nil)
	}
	var above []Item
	for _, r := range rows {
		var cells []string
		tones := make([]Tone, len(columns))
		for i, c := range columns {
			cells = append(cells, r.Cells[c].at(t.level))
			tones[i] = r.Cells[c].Tone
		}
		t.row(in, x, columns, widths, fits, cells, tones)
		notes := items(r.Notes, t.level)
		hang := in + columnGap
		if len(widths) > 0 {
			hang += widths[0]
		}
		wide := 4
		for _, n := range notes {
			wide = max(wide, Width(n.Label))
		}
		for k, n := range notes {
			text := strings.Join(n.Texts, "; ")
			if same := sameItems(notes, above); same && k > 0 {
				continue
			} else if same {
				text = "The same as above."
			}
			t.flow(hang, hang+wide+2, Pad(n.Label, wide)+"  "+text)
		}
		if seen := events(r.Refs, x); seen != "" && t.level == Full && len(notes) > 0 {
			t.flow(hang, hang+wide+2, Pad("see", wide)+"  "+seen)
		}
		if len(notes) > 0 {
			above = notes
		}
	}
	if more > 0 {
		t.flow(in, in, strings.TrimSuffix(fmt.Sprintf("and %d more: %s", more, x.Where), ": "))
	}
}

func sameItems(a, b []Item) bool {
	return slices.EqualFunc(a, b, func(a, b Item) bool { return a.Label == b.Label && slices.Equal(a.Texts, b.Texts) })
}

// row writes the cells of a row, in as many lines as the longest of them needs.
func (t *text) row(in int, x *Table, columns, widths []int, fits bool, cells []string, tones []Tone) {
	if !fits { // what the row is about, and then each figure behind the name of its column
		head := max(0, slices.IndexFunc(columns, func(c int) bool { return x.Columns[c].Head })) + 1
		var named []string
		for i, c := range cells[head:] {
			named = append(named, join(" ", x.Columns[columns[head+i]].Name, c))
		}
		t.flow(in, in+2, join(": ", join("  ", cells[:head]...), strings.Join(named, ", ")))
		return
	}
	parts, high := make([][]string, len(cells)), 1
	for i, c := range cells {
		parts[i] = wrap(c, widths[i])
		high = max(high, len(parts[i]))
	}
	for k := range high {
		line := strings.Repeat(" ", in)
		for i := range cells {
			part := ""
			if k < len(parts[i]) {
				part = parts[i][k]
			}
			blanks := strings.Repeat(" ", max(0, widths[i]-Width(part)))
			if tones != nil {
				part = t.paint(inks[tones[i]], part)
			}
			if x.Columns[columns[i]].Right {
				line += blanks + part
			} else {
				line += part + blanks
			}
			line += strings.Repeat(" ", columnGap)
		}
		t.line(line)
	}
}

// widths are those of the columns: of what fits the line all, else the widest column that may be broken gives way first. fits is false
// where not even that is enough.
func (t *text) widths(in int, x *Table, columns []int, rows []Row) (widths []int, fits bool) {
	widths, least := make([]int, len(columns)), make([]int, len(columns))
	note := func(i int, s string, whole bool) {
		widths[i] = max(widths[i], Width(s))
		for _, w := range tokens(s) {
			least[i] = max(least[i], Width(w.text))
		}
		if whole {
			least[i] = max(least[i], Width(s))
		}
	}
	for i, c := range columns {
		note(i, strings.ToUpper(x.Columns[c].Name), true)
		for _, r := range rows {
			note(i, OneLine(r.Cells[c].at(t.level)), r.Cells[c].Figure)
		}
	}
	for i := range least {
		least[i] = max(least[i], min(widths[i], 10))
	}
	room := t.Look.Width - in + columnGap
	for {
		total, widest := 0, -1
		for i, w := range widths {
			total += w + columnGap
			if w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if total <= room {
			return widths, true
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest] = max(least[widest], widths[widest]-(total-room), second(widths, widest, least))
	}
}

// second is the width of the next widest column that may still give way: down to it the widest alone does.
func second(widths []int, widest int, least []int) int {
	next := 0
	for i, w := range widths {
		if i != widest && w > least[i] {
			next = max(next, w)
		}
	}
	return min(next, widths[widest]-1)
}

// wrap breaks text into lines of a column.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, w := range tokens(OneLine(s)) {
		if line != "" && Width(line)+w.gap+Width(w.text) > width {
			lines, line = append(lines, line), w.text
			continue
		}
		line += strings.Repeat(" ", w.gap) + w.text
	}
	return append(lines, line)
}

// flow wraps text: the first line is indented by first columns, the others by hang.
func (t *text) flow(first, hang int, s string) {
	line, used := strings.Repeat(" ", first), first
	fresh := true
	for _, w := range tokens(OneLine(s)) {
		size := Width(w.text)
		if !fresh && used+w.gap+size > t.Look.Width {
			t.line(line)
			line, used, w.gap = strings.Repeat(" ", hang), hang, 0
		}
		line += strings.Repeat(" ", w.gap) + w.text
		used += w.gap + size
		fresh = false
	}
	t.line(line)
}

// token is text that stays on one line, and the blanks before it.
type token struct {
	gap  int
	text string
}

// tokens splits at blanks, except inside brackets, between a number and its unit, and before a limit: figures are never broken.
func tokens(s string) []token {
	var list []token
	depth, gap := 0, 0
	start := -1
	flush := func(end int) {
		if start >= 0 {
			list = append(list, token{gap, s[start:end]})
			start, gap = -1, 0
		}
	}
	for i, r := range s {
		switch {
		case r == ' ' && depth == 0 && (start < 0 || !unitFollows(s[:i], s[i+1:])):
			flush(i)
			gap++
			continue
		case r == '[' && (i == 0 || s[i-1] != '\x1b'):
			depth++
		case r == ']' && depth > 0:
			depth--
		}
		if start < 0 {
			start = i
		}
	}
	flush(len(s))
	return list
}

// unitFollows reports whether the blank between before and after stands between a number and its unit, or a sign and its limit.
func unitFollows(before, after string) bool {
	if strings.HasSuffix(before, " <=") || strings.HasSuffix(before, " >=") {
		return true
	}
	last := before[len(before)-1]
	unit, _, _ := strings.Cut(after, " ")
	return last >= '0' && last <= '9' && slices.Contains([]string{"us", "ms", "s", "min", "h", "%"}, strings.TrimRight(unit, ".,;:)"))
}

// Width is the width of s on a terminal, escape sequences not counted.
func Width(s string) int {
	n := utf8.RuneCountInString(s)
	for {
		_, rest, found := strings.Cut(s, "\x1b[")
		if !found {
			return n
		}
		end := strings.IndexByte(rest, 'm') + 1
		n -= len("\x1b[") + end
		s = rest[end:]
	}
}

// Pad is s with blanks to the width.
func Pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-Width(s))) }

// join is strings.Join of what there is.
func join(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// Clip shortens a line to width columns, at a blank, so that no figure is cut in two.
func Clip(line string, width int) string {
	if Width(line) <= width || width <= 0 {
		return line
	}
	kept, used := "", 0
	for _, t := range tokens(line) {
		used += t.gap + Width(t.text)
		if used > width-len(" ..") {
			break
		}
		kept += strings.Repeat(" ", t.gap) + t.text
	}
	kept += " .."
	if runes := []rune(kept); len(runes) > width {
		return string(runes[:width])
	}
	return kept
}
