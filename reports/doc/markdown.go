package doc

import (
	"fmt"
	"slices"
	"strings"
)

// mostOfNote bounds the notes of a chat message, in columns.
const mostOfNote = 400

// Markdown is d for a chat or a CI step; full, it is a text to edit. Markup in names is escaped. A block begins with an empty line, or it
// would go on with the one before.
func Markdown(d *Document, l Level) string {
	m := &md{level: l}
	heads := []string{"## %s", "\n**%s**", "\n*%s*"}
	if l == Full {
		heads = []string{"# %s", "\n## %s", "\n### %s"}
	}
	m.line(heads[0], Escape(join(" · ", append([]string{d.Word.Before, d.Word.Text, d.Title, d.Tally}, d.Labels...)...)))
	for _, s := range d.Lead {
		m.line("\n%s", Escape(s))
	}
	m.items(items(d.Facts, l))
	for _, s := range sections(d.Sections, l) {
		if !s.Bare || l == Full {
			m.line(heads[1], Escape(s.Title))
		}
		for _, b := range blocks(s.Blocks, l) {
			if b.Heading != "" {
				m.line(heads[2], Escape(b.Heading))
			}
			m.block(&b)
		}
	}
	if tail := items(d.Tail, l); len(tail) > 0 {
		m.line("")
		for _, i := range tail {
			m.line("%s: %s  ", i.Label, Code(strings.Join(i.Texts, "; ")))
		}
	}
	return m.String()
}

type md struct {
	strings.Builder
	level Level
}

func (m *md) line(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

func (m *md) block(b *Block) {
	if b.Text != "" {
		m.line("\n%s", Escape(b.Text))
	}
	m.items(items(b.Items, m.level))
	if len(b.List) > 0 {
		m.line("")
	}
	for _, s := range b.List {
		m.line("- %s", Escape(s))
	}
	if b.Table != nil && len(b.Table.Rows) > 0 {
		m.table(b.Table)
	}
	if b.Code != "" {
		m.line("\n%s", fenced(b.Code))
	}
	if b.Blank != "" {
		m.line("\n_(%s)_", Escape(b.Blank))
	}
}

// fenced is text as a block of code, whatever fences it has.
func fenced(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + Harmless(strings.TrimRight(s, "\n")) + "\n" + fence
}

func (m *md) items(all []Item) {
	if len(all) > 0 {
		m.line("")
	}
	for _, i := range all {
		for _, s := range i.Texts {
			m.line("- %s: %s", Escape(i.Label), Escape(s))
		}
	}
}

func (m *md) table(x *Table) {
	columns := x.shown(m.level)
	var head []string
	for _, c := range columns {
		head = append(head, x.Columns[c].Name)
	}
	m.line("\n| %s |", strings.Join(head, " | "))
	m.line("| %s |", strings.Join(slices.Repeat([]string{"---"}, len(columns)), " | "))
	rows, more := x.rows(m.level)
	for _, r := range rows {
		var cells []string
		for _, i := range columns {
			c := &r.Cells[i]
			text := Escape(c.at(m.level))
			if text != "" && (c.Tone == Bad || c.Tone == Open) {
				text = "**" + text + "**"
			}
			if c.Link != "" {
				text = "[" + text + "](" + c.Link + ")"
			}
			cells = append(cells, text)
		}
		m.line("| %s |", strings.Join(cells, " | "))
	}
	if more > 0 {
		m.line("\n%s", Escape(strings.TrimSuffix(fmt.Sprintf("and %d more: %s", more, x.Where), ": ")))
	}
	m.notes(x, rows)
}

// notes are a list below the table, as its rows have no room for them. What several rows have is said once.
func (m *md) notes(x *Table, rows []Row) {
	told, left := 0, 0
	var said [][]Item
	for _, r := range rows {
		notes := items(r.Notes, m.level)
		if len(notes) == 0 || slices.ContainsFunc(said, func(s []Item) bool { return sameItems(s, notes) }) {
			continue
		}
		said = append(said, notes)
		if most := x.Told[m.level]; most > 0 && told == most {
			left++
			continue
		}
		if told++; told == 1 {
			m.line("")
		}
		var texts []string
		for _, n := range notes {
			text := strings.Join(n.Texts, "; ")
			if m.level < Full {
				text = Clip(Clean(text), mostOfNote)
			}
			texts = append(texts, Escape(n.Label+": "+text))
		}
		if seen := events(r.Refs, x); seen != "" && m.level == Full {
			texts = append(texts, Escape("see: "+seen))
		}
		m.line("- %s: %s", Escape(x.named(&r)), strings.Join(texts, " "))
	}
	if left > 0 {
		m.line("- besides: %d more", left)
	}
}

// named is what a list below the table calls a row.
func (t *Table) named(r *Row) string {
	var parts []string
	for i, c := range t.Columns {
		if c.Head || c.Named {
			parts = append(parts, r.Cells[i].Text)
		}
	}
	if len(parts) == 0 {
		return r.Cells[0].Text
	}
	return join(", ", parts...)
}
