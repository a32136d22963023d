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

	"github.com/lockdrill/lockdrill/reports/timeline"
)

//go:embed html
var htmlFiles embed.FS

// HTML writes report.html: one file that needs no network and no script. The same run gives the same bytes.
func HTML(w io.Writer, r Run) error { return writePage(w, r, mostEvents) }

// writePage is HTML with a bound of its own on the event log, in lines; those that evidence points at are not counted.
func writePage(w io.Writer, r Run, mostEvents int) error {
	doc, err := newDocument(r, mostEvents)
	if err != nil {
		return err
	}
	return doc.write(w)
}

// write makes the page of the document.
func (d *document) write(w io.Writer) error {
	t, err := template.ParseFS(htmlFiles, "html/*.tmpl")
	if err != nil {
		return fmt.Errorf("read the template of the page: %w", err)
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, "page", d); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if _, err := io.WriteString(w, presentable(b.String())); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// document is the page: the verdict, and sections of blocks.
type document struct {
	Verdict  verdictBar
	Sections []section
	Style    template.HTML // the style element
	StyleSum string        // its digest, for the policy
	JSON     template.HTML // verdict.json, in a script element that no browser runs
	JSONNote string
	Site     []Link // of a page that a server gives: its other pages
	Script   string // address of its script; "" = none
	Refresh  int    // seconds after which a reader without script gets it anew; 0 = never
}

// section answers one question.
type section struct {
	ID, Title string
	Short     string // of the title, for the list of sections; "" = the title
	Blocks    []block
}

// block is one thing of a section: exactly one field is set, besides the heading.
type block struct {
	Heading string
	Text    string
	Muted   string // text of lesser weight
	Items   []labelled
	SLOs    []sloView
	Grid    *grid
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
	Blocks  []block
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
		i = item{clipped(i.Label, longName), clipped(i.Text, longText)}
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

func itemBlock(heading string, items []item) block {
	return block{Heading: heading, Items: labelledOf(items)}
}

// newDocument puts the page together, in the order in which it is read.
func newDocument(r Run, mostEvents int) (*document, error) {
	ev := newEvidence(r.Record)
	doc := &document{Verdict: verdictOf(r)}
	var err error
	if doc.JSON, doc.JSONNote, err = embedded(r.Judgement); err != nil {
		return nil, err
	}
	done, err := doneBlocks(r, ev)
	if err != nil {
		return nil, err
	}
	doc.Sections = []section{
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
	doc.Sections = append(gathered(doc.Sections), section{"log", "Event log", "", log})
	doc.style()
	return doc, nil
}

// gathered puts the sections that have nothing to say into one, behind the others.
func gathered(all []section) []section {
	var kept []section
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
	return append(kept, section{"nothing", "Nothing to report", "", []block{{Items: nothing}}})
}

// silent reports a section of one sentence of lesser weight.
func (s section) silent() (text string, silent bool) {
	if len(s.Blocks) != 1 {
		return "", false
	}
	b := s.Blocks[0]
	return b.Muted, b.Muted != "" && b.Heading == "" && b.Fold == nil
}

// name is the section's in the list of sections.
func (s section) name() string { return cmp.Or(s.Short, s.Title) }

// style is one element with all rules, and its digest: the only style that the page's own policy lets a browser apply.
func (d *document) style() {
	own, err := htmlFiles.ReadFile("html/style.css")
	if err != nil {
		panic(err) // it is part of the binary
	}
	rules := string(own) + timeline.Styles()
	if d.Site != nil {
		rules += siteStyle
	}
	sum := sha256.Sum256([]byte(rules))
	d.Style = template.HTML("<style>" + rules + "</style>")
	d.StyleSum = base64.StdEncoding.EncodeToString(sum[:])
}
