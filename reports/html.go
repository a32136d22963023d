package reports

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/lockdrill/lockdrill/reports/timeline"
)

//go:embed html
var htmlFiles embed.FS

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
	Refresh   int    // seconds after which a browser gets it anew; 0 = never

	verdict template.HTML // verdict.json, in a script element that no browser runs
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
	SLOs    []sloView
	Table   *Table
	Figure  *drawing
	Code    string
	List    []string
	Fold    *fold
	Blank   string // what people are to write here
}

// fold is what a reader may open.
type fold struct {
	Summary string
	Blocks  []Block
}

// Write writes the page. It cuts names and texts that are too long to be read.
func (p *Page) Write(w io.Writer) error {
	t, err := template.New("").Funcs(template.FuncMap{
		"name":  func(s string) string { return clipped(s, longName) },
		"text":  func(s string) string { return clipped(s, longText) },
		"short": func(s string) bool { return utf8.RuneCountInString(s) <= 30 }, // a table has room for it on one line
	}).ParseFS(htmlFiles, "html/*.tmpl")
	if err != nil {
		return fmt.Errorf("read the template of the page: %w", err)
	}
	style, sum := styleOf(p.Site != nil)
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, "page", struct {
		*Page
		Style, JSON template.HTML
		StyleSum    string
	}{p, style, p.verdict, sum}); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if _, err := io.WriteString(w, presentable(b.String())); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
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
		i.Label = clipped(i.Label, longName)
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
		{"baseline", "Baseline and trend", "", baselineBlocks(r.Baseline)},
		{"done", "What was done", "", done},
		{"cleanup", "Clean-up", "", cleanUpBlocks(r, ev)},
		{"reproduce", "How to reproduce it", "Reproduce", reproduceBlocks(r)},
		{"postmortem", "Post-mortem", "", postmortemBlocks(r)},
	}
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
	return b.Muted, b.Muted != "" && b.Heading == "" && b.Fold == nil
}

// name is the section's in the list of sections.
func (s Section) name() string { return cmp.Or(s.Short, s.Title) }

// styleOf is one element with all rules, and its digest: the only style that the page's own policy lets a browser apply. onSite adds
// those of a server's pages.
func styleOf(onSite bool) (element template.HTML, digest string) {
	own, err := htmlFiles.ReadFile("html/style.css")
	if err != nil {
		panic(err) // it is part of the binary
	}
	rules := string(own) + timeline.Styles()
	if onSite {
		rules += siteStyle
	}
	sum := sha256.Sum256([]byte(rules))
	return template.HTML("<style>" + rules + "</style>"), base64.StdEncoding.EncodeToString(sum[:])
}
