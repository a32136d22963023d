// Package doc is what a report says, once: a builder makes a Document, and Text, Markdown and HTML are all that write one. It knows no lock.
//
// Its one invariant: the writers leave out, and never reword. A figure stands in all three forms as its builder wrote it, or not at all.
package doc

import (
	"html/template"
)

// Tone of a word. The word carries the meaning without it.
type Tone string

const (
	Plain Tone = ""
	Good  Tone = "pass"
	Bad   Tone = "fail"
	Open  Tone = "open"
)

// Level is how much a reader wants. What has a higher Least is left out.
type Level int

const (
	Brief Level = iota // the end of a command: a screen of 24 rows
	Short              // a chat message, the summary of a CI step
	Full               // all that is said
	Page               // what only a page has room for
)

// Document is one report, or one page of a server.
type Document struct {
	Word     Word
	Title    string
	Tally    string
	Labels   []string // of the whole: REHEARSAL, a time scale
	Facts    []Item   // beside the title; only a page has room for them
	Lead     []string
	Sections []Section
	Tail     []Item // where the rest lies: a page is the rest
	Data     []byte // the same as JSON, which a page carries; nil = none
	Foot     string // of a page
	Styles   string // rules of its pictures
	Site     *Site  // of a page that a server gives
}

// Word is what a document says first.
type Word struct {
	Text   string
	Tone   Tone
	Before string // what it is the word of, if not of a live system: REHEARSAL
}

// Section answers one question.
type Section struct {
	ID, Title string
	Short     string // of the title, for the list of sections; "" = the title
	Bare      bool   // text has no title above it
	Unlisted  bool   // not in the list of sections
	Least     Level
	Blocks    []Block
}

// Block is a heading, and what is set of the rest, in this order.
type Block struct {
	Least   Level
	Heading string
	Fold    string // what a reader of a page opens to see it; text and Markdown are without what is folded
	Text    string
	Quiet   bool   // the text is of lesser weight
	Blank   string // what people are to write here
	Items   []Item
	List    []string
	Table   *Table
	Figure  *Figure
	Code    string
	Blocks  []Block // of a fold
}

// Item is a label with its texts.
type Item struct {
	Label string
	Texts []string
	Least Level
}

// Table has a row of cells for each thing, and notes below it.
type Table struct {
	ID      string
	Label   string // says to those who do not see it what it holds
	Columns []Column
	Rows    []Row
	Most    map[Level]int // rows; 0 = all
	Told    map[Level]int // rows whose notes a list below the table has; 0 = all
	Left    int           // rows that are not even here
	Where   string        // has those that are left out
	Cards   bool          // on a narrow page each row is a card
	Log     bool          // its rows are what Refs point at: row e12 for 12
}

// Column of a table.
type Column struct {
	Name  string
	Least Level
	Head  bool // names the row
	Named bool // names it too, where the row itself is not in sight
	Right bool // figures that are compared: text puts them to the right
}

// Row of a table.
type Row struct {
	ID    string
	Cells []Cell
	Notes []Item
	Refs  []int64 // rows of a log that show it, the most telling first
	Tone  Tone    // of a card
}

// Cell is a text.
type Cell struct {
	Text   string
	Brief  string // stands for it in a brief report; "" = the same
	Tone   Tone
	Code   bool // somebody else's name
	Figure bool // not to be broken
	Link   string
	Meter  *Meter
}

// Meter is a measured range beside its limit, on a scale from 0 to Most. The cell says the same in figures.
type Meter struct{ Lo, Hi, Limit, Most float64 }

// Figure is a picture with its twin as a table.
type Figure struct {
	Title, Desc string
	Bare        bool // the title stands right above it
	SVG         template.HTML
	Legend      template.HTML
	Twin        *Table
}

// Site is what a page of a server has besides.
type Site struct {
	Links   []Link
	Refresh int // seconds after which a browser gets it anew; 0 = never
}

// Link is a link at the top of a page.
type Link struct {
	Text, Address string
	Here          bool // it is this page
}

// Columns are columns that all reports have.
func Columns(names ...string) []Column {
	all := make([]Column, len(names))
	for i, name := range names {
		all[i].Name = name
	}
	return all
}

// Row adds a row of cells.
func (t *Table) Row(cells ...Cell) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// Of is an item of one text.
func Of(label, text string) Item { return Item{Label: label, Texts: []string{text}} }

// rows are those that a report of this level has, and how many it leaves out.
func (t *Table) rows(l Level) (kept []Row, more int) {
	most := t.Most[l]
	if l == Page {
		most = t.Most[Full]
	}
	if most > 0 && len(t.Rows) > most {
		return t.Rows[:most], len(t.Rows) - most + t.Left
	}
	return t.Rows, t.Left
}

// shown are the numbers of the columns that a report of this level has.
func (t *Table) shown(l Level) (all []int) {
	for i, c := range t.Columns {
		if c.Least <= l {
			all = append(all, i)
		}
	}
	return all
}

func (c *Cell) at(l Level) string {
	if l == Brief && c.Brief != "" {
		return c.Brief
	}
	return c.Text
}

// items are those that a report of this level has, joined where one goes on with the label of the last or has none.
func items(all []Item, l Level) (out []Item) {
	for _, i := range all {
		var texts []string
		for _, text := range i.Texts {
			if text != "" {
				texts = append(texts, text)
			}
		}
		last := len(out) - 1
		switch {
		case i.Least > l || len(texts) == 0:
		case last >= 0 && (i.Label == "" || i.Label == out[last].Label):
			out[last].Texts = append(out[last].Texts[:len(out[last].Texts):len(out[last].Texts)], texts...)
		default:
			out = append(out, Item{Label: i.Label, Texts: texts})
		}
	}
	return out
}

// blocks are those of which text and Markdown of this level say something.
func blocks(all []Block, l Level) (out []Block) {
	for _, b := range all {
		says := b.Text != "" || b.Blank != "" || len(items(b.Items, l)) > 0 || len(b.List) > 0 || b.Table != nil && len(b.Table.Rows) > 0 || b.Code != ""
		if b.Least <= l && b.Fold == "" && (says || b.Heading != "" && b.Figure == nil && b.Items == nil && b.Table == nil) {
			out = append(out, b)
		}
	}
	return out
}

// sections are those of which text and Markdown of this level say something.
func sections(all []Section, l Level) (out []Section) {
	for _, s := range all {
		if s.Least <= l && len(blocks(s.Blocks, l)) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// silent reports a section that no form would have more of than its title.
func silent(s Section) bool {
	for _, b := range s.Blocks {
		if b.Heading != "" || b.Text != "" || b.Blank != "" || len(items(b.Items, Page)) > 0 || len(b.List) > 0 || b.Table != nil && len(b.Table.Rows) > 0 ||
			b.Figure != nil || b.Code != "" || len(b.Blocks) > 0 {
			return false
		}
	}
	return true
}
