package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// HTML writes report.html: one file that needs no network and no script. The same run gives the same bytes.
func HTML(w io.Writer, r Run) error { return writePage(w, r, mostEvents) }

// writePage is HTML with a bound of its own on the event log, in lines; those that evidence points at are not counted.
func writePage(w io.Writer, r Run, mostEvents int) error {
	p, err := pageOf(r, mostEvents)
	if err != nil {
		return err
	}
	return p.Write(w)
}

// Page is a page: a report, or one of a server.
type Page struct {
	Word      string // what it says first: PASS, RUNS
	Class     string // pass, fail, open, or nothing
	Title     string
	Tally     string
	Labels    []string // rehearsal, time scale
	Facts     []item
	Sentences []string
	Sections  []Section
	Note      string // below all
	Site      []Link // of a page that a server gives, which never has nil: its other pages
	Script    string // address of its script, of the same origin; "" = none
	Refresh   int    // seconds after which a reader without script gets it anew; 0 = never

	verdict []byte // verdict.json, cut where it is long
}

// Section answers one question.
type Section struct {
	ID, Title string
	Short     string // of the title, for the list of sections; "" = the title
	Blocks    []Block
}

// Block is one thing of a section: one field is set, besides the heading.
type Block struct {
	Heading string
	Text    string
	Muted   string // text of lesser weight
	Items   []labelled
	Made    *doc.Block // it is made already; no other field is set
	Table   *Table
	Figure  *drawing
	Code    string
	List    []string
	Fold    *fold
	Blank   string // what people are to write here
	Form    *Form
}

// fold is what a reader may open.
type fold struct {
	Summary string
	Blocks  []Block
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	return Write(w, p.document())
}

// Write writes d as a page.
func Write(w io.Writer, d *doc.Document) error {
	text, err := doc.HTML(d)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// document is the page in the words of all reports.
func (p *Page) document() *doc.Document {
	d := &doc.Document{Word: doc.Word{Text: p.Word, Tone: doc.Tone(p.Class)}, Title: p.Title, Tally: p.Tally, Labels: p.Labels, Lead: p.Sentences,
		Foot: p.Note, Data: p.verdict, Styles: timeline.Styles()}
	for _, f := range p.Facts {
		d.Facts = append(d.Facts, doc.Of(f.Label, f.Text))
	}
	for _, s := range p.Sections {
		d.Sections = append(d.Sections, doc.Section{ID: s.ID, Title: s.Title, Short: s.Short, Blocks: blocksOf(s.Blocks)})
	}
	if p.Site != nil {
		d.Site = &doc.Site{Links: p.Site, Script: p.Script, Refresh: p.Refresh}
	}
	return d
}

// madeBlocks are blocks that are made already.
func madeBlocks(all []doc.Block) (list []Block) {
	for i := range all {
		list = append(list, Block{Made: &all[i]})
	}
	return list
}

func blocksOf(all []Block) (list []doc.Block) {
	for _, b := range all {
		if b.Made != nil {
			list = append(list, *b.Made)
			continue
		}
		made := doc.Block{Heading: b.Heading, Text: b.Text, Blank: b.Blank, List: b.List, Table: b.Table.made(), Form: b.Form, Code: b.Code}
		if b.Muted != "" {
			made.Text, made.Quiet = b.Muted, true
		}
		for _, i := range b.Items {
			made.Items = append(made.Items, doc.Item{Label: i.Label, Texts: i.Texts})
		}
		if f := b.Figure; f != nil {
			made.Figure = &doc.Figure{Title: f.Title, Desc: f.Desc, Bare: f.Bare, SVG: f.SVG, Twin: f.Twin.made()}
		}
		if b.Fold != nil {
			made.Fold, made.Blocks = b.Fold.Summary, blocksOf(b.Fold.Blocks)
		}
		list = append(list, made)
		if b.Table != nil && b.Table.More != "" {
			list = append(list, doc.Block{Text: b.Table.More, Quiet: true})
		}
	}
	return list
}

// made is the table in the words of all reports; nil of nil.
func (t *Table) made() *doc.Table {
	if t == nil {
		return nil
	}
	g := &doc.Table{ID: t.ID, Label: t.Label, Columns: doc.Columns(t.Columns...), Log: t.Log, Left: t.left, Where: t.where}
	if at := slices.Index(t.Columns, "events"); at >= 0 {
		g.Columns = slices.Delete(g.Columns, at, at+1)
	}
	for _, cells := range t.Rows {
		var row doc.Row
		for i, c := range cells {
			if t.Log && i == 0 {
				row.ID = "e" + c.Text
			}
			if c.Refs != nil {
				row.Refs = c.Refs
				continue
			}
			row.Cells = append(row.Cells, doc.Cell{Text: c.Text, Tone: doc.Tone(c.Class), Code: c.Code, Figure: c.Num, Link: c.Link})
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// labelled are the texts under one label.
type labelled struct {
	Label string
	Texts []string
}

// labelledOf joins items that share a label, or that have none.
func labelledOf(items []item) []labelled {
	var list []labelled
	for _, i := range items {
		i.Label = doc.Shorten(i.Label, doc.LongName)
		switch last := len(list) - 1; {
		case i.Text == "":
		case last >= 0 && (i.Label == "" || i.Label == list[last].Label):
			list[last].Texts = append(list[last].Texts, i.Text)
		default:
			list = append(list, labelled{i.Label, []string{i.Text}})
		}
	}
	return list
}

func itemBlock(heading string, items []item) Block {
	return Block{Heading: heading, Items: labelledOf(items)}
}

// pageOf puts the page of a run together, in the order in which it is read.
func pageOf(r Run, mostEvents int) (*Page, error) {
	ev := newEvidence(r.Record)
	p := headOfPage(r)
	var err error
	if p.verdict, p.Note, err = embedded(r.Judgement); err != nil {
		return nil, err
	}
	done, err := doneBlocks(r, ev)
	if err != nil {
		return nil, err
	}
	p.Sections = []Section{
		{"slos", sloTitle(r.Judgement), "SLOs", sloBlocks(r, ev)},
		{"valid", validTitle, "", validityBlocks(r)},
		{"timeline", "Timeline", "", timelineBlocks(r.Lanes)},
		{"takeovers", takeoverTitle, "Takeovers", takeoverBlocks(r, ev)},
		{"correctness", "Correctness", "", correctnessBlocks(r, ev)},
		{"debt", "Lock debt and waiters", "", debtBlocks(r, ev)},
		{"signals", "Signals before, during and after", "Signals", signalBlocks(r.Lanes)},
		{"baseline", "Baseline and trend", "", madeBlocks(baselineBlocks(r.Baseline))},
		{"done", "What was done", "", done},
		{"cleanup", "Clean-up", "", cleanUpBlocks(r, ev)},
		{"reproduce", "How to reproduce it", "Reproduce", reproduceBlocks(r)},
		{"postmortem", "Post-mortem", "", postmortemBlocks(r)},
	}
	ev.cited = doc.Cited(p.document())
	log, err := ev.blocks(mostEvents) // last: by now it knows what was cited
	if err != nil {
		return nil, err
	}
	p.Sections = append(gathered(p.Sections), Section{"log", "Event log", "", log})
	return p, nil
}

// gathered puts the sections that have nothing to say into one, behind the others.
func gathered(all []Section) []Section {
	var kept []Section
	var nothing []labelled
	for _, s := range all {
		if text, silent := s.silent(); silent {
			nothing = append(nothing, labelled{s.name(), []string{text}})
		} else {
			kept = append(kept, s)
		}
	}
	if len(nothing) == 0 {
		return kept
	}
	return append(kept, Section{"nothing", "Nothing to report", "", []Block{{Items: nothing}}})
}

// silent reports a section of one sentence of lesser weight.
func (s Section) silent() (text string, silent bool) {
	if len(s.Blocks) != 1 {
		return "", false
	}
	b := s.Blocks[0]
	if b.Made != nil && b.Made.Quiet {
		return b.Made.Text, true
	}
	return b.Muted, b.Muted != "" && b.Heading == "" && b.Fold == nil
}

// name is the section's in the list of sections.
func (s Section) name() string { return cmp.Or(s.Short, s.Title) }
