package reports

import (
	"io"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// What a server gives are pages of the same kind as the reports, with links to its other pages.

// Link is a link at the top of a page.
type Link = doc.Link

// Page is a page of a server.
type Page struct {
	Word      string // what it says first: RUNS, LIVE
	Class     string // pass, fail, open, or nothing
	Title     string
	Tally     string
	Sentences []string
	Sections  []Section
	Note      string // below all
	Site      []Link // its other pages
	Refresh   int    // seconds after which a browser gets it anew; 0 = never
}

// Section answers one question.
type Section struct {
	ID, Title string
	Blocks    []Block
}

// Block is one thing of a section: one field is set.
type Block struct {
	Text  string
	Muted string // text of lesser weight
	Table *Table
	Code  string
}

// Table has a cell for each column in each row.
type Table struct {
	ID, Label string
	Columns   []string
	Rows      [][]Cell
	More      string // what was left out
}

// Cell is a text, perhaps with a link.
type Cell struct {
	Text  string
	Link  string
	Class string // pass, fail, open: the text says it as well
	Code  bool
	Num   bool
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error { return Write(w, p.document()) }

// document is the page in the words of all reports.
func (p *Page) document() *doc.Document {
	d := &doc.Document{Word: doc.Word{Text: p.Word, Tone: doc.Tone(p.Class)}, Title: p.Title, Tally: p.Tally, Lead: p.Sentences, Foot: p.Note, Styles: timeline.Styles(),
		Site: &doc.Site{Links: p.Site, Refresh: p.Refresh}}
	for _, s := range p.Sections {
		section := doc.Section{ID: s.ID, Title: s.Title}
		for _, b := range s.Blocks {
			made := doc.Block{Text: b.Text, Table: b.Table.made(), Code: b.Code}
			if b.Muted != "" {
				made.Text, made.Quiet = b.Muted, true
			}
			section.Blocks = append(section.Blocks, made)
			if b.Table != nil && b.Table.More != "" {
				section.Blocks = append(section.Blocks, doc.Block{Text: b.Table.More, Quiet: true})
			}
		}
		d.Sections = append(d.Sections, section)
	}
	return d
}

// made is the table in the words of all reports; nil of nil.
func (t *Table) made() *doc.Table {
	if t == nil {
		return nil
	}
	g := &doc.Table{ID: t.ID, Label: t.Label, Columns: doc.Columns(t.Columns...)}
	for _, cells := range t.Rows {
		var row []doc.Cell
		for _, c := range cells {
			row = append(row, doc.Cell{Text: c.Text, Tone: doc.Tone(c.Class), Code: c.Code, Figure: c.Num, Link: c.Link})
		}
		g.Row(row...)
	}
	return g
}

// VerdictCell is the verdict of a run as tables have it; "" = it has none.
func VerdictCell(name string) Cell {
	if name == "" {
		return Cell{Text: "NOT READ", Class: "fail"}
	}
	word, tone := runWord(name)
	return Cell{Text: word, Class: string(tone)}
}

// TimeCell is a start time to the minute.
func TimeCell(started string) Cell { return Cell{Text: startOf(started), Num: true} }

// SitePolicy is the policy for browsers of the pages that a server gives.
func SitePolicy() string { return doc.Policy(timeline.Styles()) }

// SiteRun is the report of a run as a server gives it.
func SiteRun(w io.Writer, r Run, site []Link) error {
	p, err := pageOf(r, mostEvents)
	if err != nil {
		return err
	}
	p.Site = &doc.Site{Links: site}
	return Write(w, p)
}

// SiteArchive is the page of the runs of experiments as a server gives it: what p has stands above. link gives the address of a run.
func SiteArchive(w io.Writer, a *compare.Archive, link func(folder string) string, p *Page) error {
	d := p.document()
	d.Sections = append(d.Sections, Archive(a, link).Sections...)
	return Write(w, d)
}
