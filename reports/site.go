package reports

import (
	_ "embed"
	"fmt"
	"io"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

//go:embed html/site.css
var siteStyle string

// What a server gives are pages of the same kind as the reports, with links to its other pages.

// Link is a link at the top of a page.
type Link struct {
	Text, Address string
	Here          bool // it is this page
}

// Page is a page of a server that is no report.
type Page struct {
	Word      string // what it says first: PASS, RUNS
	Class     string // pass, fail, open, or nothing
	Title     string
	Tally     string
	Sentences []string
	Site      []Link
	Sections  []Section
	Script    string // address of its script, of the same origin; "" = none
	Refresh   int    // seconds after which a reader without script gets it anew; 0 = never
	Note      string // below all
}

// Section answers one question.
type Section struct {
	ID, Title string
	Blocks    []Block
}

// Block is one thing of a section: one field is set, besides the heading.
type Block struct {
	Heading string
	Text    string
	Muted   string
	Items   [][2]string // labelled texts
	Table   *Table
	Form    *Form
	Code    string
	List    []string
}

// Table has a cell for each column in each row.
type Table struct {
	ID      string
	Label   string // says to those who do not see it what it holds
	Columns []string
	Rows    [][]Cell
	More    string // what was left out
}

// Cell is a text, and perhaps a link.
type Cell struct {
	Text  string
	Link  string
	Class string // pass, fail, open: the text says it as well
	Code  bool
	Num   bool
}

// Form changes something at the server.
type Form struct {
	Action string // address that it is posted to
	Button string
	Fields []Field
}

// Field of a form.
type Field struct {
	Name, Label, Value string
	Hidden             bool
	Long               bool
	Required           bool
	Options            []string // to choose from
}

// VerdictCell is the verdict of a run as tables have it; "" = it has none.
func VerdictCell(name string) Cell {
	if name == "" {
		return Cell{Text: "NOT READ", Class: "fail"}
	}
	word, ink := runWord(name)
	return Cell{Text: word, Class: classOf(ink)}
}

// TimeCell is a start time to the minute.
func TimeCell(started string) Cell { return Cell{Text: startOf(started), Num: true} }

// SitePolicy is the policy for browsers of the pages that a server gives, with script or without.
func SitePolicy(script bool) string {
	d := document{Site: []Link{{}}}
	d.style()
	scripts := ""
	if script {
		scripts = "script-src 'self'; connect-src 'self'; "
	}
	return fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; %sform-action 'self'; frame-ancestors 'none'", d.StyleSum, scripts)
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	doc := &document{JSONNote: p.Note}
	doc.take(p)
	return doc.write(w)
}

// take puts what a page has above what the document has.
func (d *document) take(p *Page) {
	d.Verdict = verdictBar{Word: p.Word, Class: p.Class, Name: clipped(p.Title, longName), Tally: p.Tally, Sentences: p.Sentences}
	d.Site, d.Script, d.Refresh = p.Site, p.Script, p.Refresh
	if d.Site == nil {
		d.Site = []Link{}
	}
	var own []section
	for _, s := range p.Sections {
		to := section{ID: s.ID, Title: s.Title}
		for _, b := range s.Blocks {
			to.Blocks = append(to.Blocks, b.block())
		}
		own = append(own, to)
	}
	d.Sections = append(own, d.Sections...)
	d.style()
}

func (b *Block) block() block {
	to := block{Heading: b.Heading, Text: clipped(b.Text, longText), Muted: clipped(b.Muted, longText), Code: b.Code, List: b.List, Form: b.Form}
	var items []item
	for _, i := range b.Items {
		items = append(items, item{i[0], i[1]})
	}
	to.Items = labelledOf(items)
	if t := b.Table; t != nil {
		to.Grid = &grid{ID: t.ID, Label: t.Label, Columns: t.Columns, More: t.More}
		for _, row := range t.Rows {
			var cells []gridCell
			for _, c := range row {
				cells = append(cells, gridCell{Text: clipped(c.Text, longText), Link: c.Link, Class: c.Class, Code: c.Code, Short: c.Code && isShort(c.Text), Num: c.Num})
			}
			to.Grid.row(cells...)
		}
	}
	return to
}

// SiteRun is the report of a run as a server gives it.
func SiteRun(w io.Writer, r Run, site []Link) error {
	doc, err := newDocument(r, mostEvents)
	if err != nil {
		return err
	}
	doc.Site = site
	doc.style()
	return doc.write(w)
}

// SiteArchive is the page of the runs of experiments as a server gives it: what p has stands above. link gives the address of a run.
func SiteArchive(w io.Writer, a *verdict.Archive, link func(folder string) string, p *Page) error {
	doc := archiveDocument(a, link)
	doc.JSONNote = p.Note
	doc.take(p)
	return doc.write(w)
}
