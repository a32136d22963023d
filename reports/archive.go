package reports

import (
	"fmt"
	"io"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Archive lists what runs have said over time. Of o only Width and Color count.
func Archive(w io.Writer, a *compare.Archive, o Options) error {
	p := newPage(o)
	for i := range a.Experiments {
		e := &a.Experiments[i]
		p.title(doc.Clean(e.Name) + ": " + figures.Plural(len(e.Runs), "run"))
		t := table{indent: 2}
		early := max(0, len(e.Runs)-mostArchived)
		if early > 0 {
			p.flow(2, 2, figures.Plural(early, "earlier run")+": see -f html or -f json")
		}
		for k := early; k < len(e.Runs); k++ {
			run := &e.Runs[k]
			word, ink := runWord(run.Verdict)
			t.row(cell{startOf(run.Started), plain}, cell{word, ink}, cell{doc.Clean(run.Labels.String()), plain}, cell{doc.Clean(tightestOf(e, k)), plain})
			if k == early || run.Why != e.Runs[k-1].Why { // said once for all that follow
				t.note("why", doc.Clean(run.Why))
			}
			if k > early || early == 0 {
				t.note("new", doc.Clean(strings.Join(run.Changed, "; ")))
			}
		}
		p.table(t)
		for _, c := range e.Changes {
			p.item(doc.Clean(c.From)+" -> "+doc.Clean(c.To), strings.Join(append([]string{strings.ReplaceAll(string(c.Answer), "-", " ")}, first(c.Reasons, 3)...), "; "))
		}
		p.blank()
	}
	p.section("Not read", unread(a))
	if len(a.Experiments)+len(a.Unread) == 0 {
		p.line("No runs.")
	}
	return p.to(w, "history")
}

// mostArchived bounds the runs of an experiment on the terminal: the latest.
const mostArchived = 30

// startOf is a start time to the minute.
func startOf(started string) string {
	return strings.Replace(started[:min(len(started), len("2006-01-02T15:04"))], "T", " ", 1)
}

func unread(a *compare.Archive) (list []item) {
	for _, u := range a.Unread {
		list = append(list, item{"", doc.Clean(u.Folder + ": " + u.Why)})
	}
	return list
}

// tightestOf is the row of a run that came nearest to its limit, or went furthest beyond.
func tightestOf(e *compare.ArchivedExperiment, run int) string {
	var n nearest
	for _, row := range e.Rows {
		for _, v := range row.Values {
			if row.Ask == verdict.AtMost && v.Run == run && v.N > 0 {
				n.note(row.Lock+" "+verdict.MeasureWords(row.Measure)+": ", row.Unit, verdict.Range{Lo: v.Lo, Hi: v.Hi}, v.Limit)
			}
		}
	}
	return n.text
}

// ArchivePage writes the same as a page: a picture of each row, and the runs with links to their reports. link gives the address of a file
// of a run's folder as the page sees it.
func ArchivePage(w io.Writer, a *compare.Archive, link func(folder string) string) error {
	return archivePage(a, link).Write(w)
}

func archivePage(a *compare.Archive, link func(folder string) string) *Page {
	runs := 0
	var sections []Section
	for i := range a.Experiments {
		e := &a.Experiments[i]
		runs += len(e.Runs)
		id := fmt.Sprintf("experiment-%d", i+1)
		var blocks []Block
		for _, c := range e.Changes {
			word, _ := answerWord(c.Answer)
			blocks = append(blocks, itemBlock("", []item{{c.From + " → " + c.To, strings.Join(append([]string{word}, first(c.Reasons, mostReasonsOfPage)...), "; ")}}))
		}
		blocks = append(blocks, Block{Table: archivedTable(e, link)})
		pictures, level := timeline.Archive(e, id)
		for _, p := range pictures {
			blocks = append(blocks, Block{Figure: figureOf(p)})
		}
		if len(level) > 0 {
			blocks = append(blocks, Block{Text: "Kept at 0 in every run: " + strings.Join(level, ", ") + "."})
		}
		sections = append(sections, Section{id, e.Name, "", blocks})
	}
	if len(a.Unread) > 0 {
		sections = append(sections, Section{"unread", "Runs that cannot be read", "", []Block{itemBlock("", unread(a))}})
	}
	return &Page{Word: "HISTORY", Title: figures.Plural(len(a.Experiments), "experiment"), Tally: figures.Plural(runs, "run"),
		Sentences: []string{"Each run keeps its own verdict. There is no score over them."}, Sections: sections,
		Note: "This page needs no network. lockdrill history -f json gives the same as data."}
}

func archivedTable(e *compare.ArchivedExperiment, link func(string) string) *Table {
	g := &Table{Label: "The runs of " + e.Name, Columns: []string{"started", "verdict", "labels", "nearest to its limit", "why", "changed", "run"}}
	early := max(0, len(e.Runs)-rowsOfTable)
	for k := len(e.Runs) - 1; k >= early; k-- { // the latest first: it is what people come for
		run := &e.Runs[k]
		word, ink := runWord(run.Verdict)
		id := codeCell(run.ID)
		id.Link = link(run.Folder)
		g.row(figureCell(startOf(run.Started)), Cell{Text: word, Class: classOf(ink)}, plainCell(run.Labels.String()), plainCell(tightestOf(e, k)), plainCell(run.Why), plainCell(strings.Join(run.Changed, "; ")), id)
	}
	if early > 0 {
		g.left, g.where = early, "lockdrill history -f json has the earlier runs"
	}
	return g
}
