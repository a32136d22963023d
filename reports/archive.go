package reports

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Archive is what runs have said over time, the latest first: a picture of each row, and the runs. link gives the address of a run's
// report as the page sees it; nil = there is none.
func Archive(a *compare.Archive, link func(folder string) string) *doc.Document {
	runs := 0
	d := &doc.Document{Word: doc.Word{Text: "HISTORY"}, Title: figures.Plural(len(a.Experiments), "experiment"), Lead: []string{"Each run keeps its own verdict. There is no score over them."},
		Foot: pageFoot("history"), Styles: timeline.Styles()}
	for i := range a.Experiments {
		e := &a.Experiments[i]
		runs += len(e.Runs)
		id := fmt.Sprintf("experiment-%d", i+1)
		var changes []doc.Item
		for _, c := range e.Changes {
			word, _ := answerWord(c.Answer)
			changes = append(changes, doc.Of(c.From+" -> "+c.To, strings.Join(append([]string{word}, first(c.Reasons, 3)...), "; ")))
		}
		blocks := []doc.Block{{Items: changes}, {Table: archivedTable(e, link)}}
		pictures, level := timeline.Archive(e, id)
		blocks = append(blocks, pictured(pictures, level, "in every run")...)
		d.Sections = append(d.Sections, doc.Section{ID: id, Title: e.Name + ": " + figures.Plural(len(e.Runs), "run"), Short: e.Name, Blocks: blocks})
	}
	d.Sections = append(d.Sections, doc.Section{ID: "unread", Title: "Runs that cannot be read", Blocks: []doc.Block{{Items: unread(a)}}})
	if d.Tally = figures.Plural(runs, "run"); runs+len(a.Unread) == 0 {
		d.Lead = []string{"No runs."}
	}
	if len(a.Unread) == 0 {
		d.Sections = d.Sections[:len(d.Sections)-1]
	}
	return d
}

func archivedTable(e *compare.ArchivedExperiment, link func(string) string) *doc.Table {
	g := &doc.Table{Label: "The runs of " + e.Name, Cards: true, Most: map[doc.Level]int{doc.Brief: mostArchived, doc.Short: mostArchived, doc.Full: rowsOfTable}, Where: "earlier runs, see lockdrill history -f json",
		Columns: []doc.Column{{Name: "started", Head: true}, {Name: "verdict"}, {Name: "labels"}, {Name: "nearest to its limit"}, {Name: "run", Least: doc.Full}}}
	for k := len(e.Runs) - 1; k >= 0; k-- { // the latest first: it is what people come for
		run := &e.Runs[k]
		id := doc.Cell{Text: run.ID, Code: true}
		if link != nil {
			id.Link = link(run.Folder)
		}
		g.Rows = append(g.Rows, doc.Row{Cells: []doc.Cell{TimeCell(run.Started), VerdictCell(run.Verdict), {Text: run.Labels.String()}, {Text: tightestOf(e, k)}, id},
			Notes: []doc.Item{doc.Of("why", run.Why), doc.Of("new", strings.Join(run.Changed, "; ")), {Label: "parts", Texts: []string{archivedParts(e, k)}, Least: doc.Full}}})
	}
	return g
}

// archivedParts are what the takeovers of a run were made of, lock by lock: medians.
func archivedParts(e *compare.ArchivedExperiment, run int) string {
	var locks []string
	for _, row := range e.Rows {
		for _, v := range row.Values {
			if v.Run != run || len(v.Parts) == 0 {
				continue
			}
			var parts []string
			for _, p := range v.Parts {
				parts = append(parts, p.Name+" "+intervalText(&p.Median, row.Unit))
			}
			locks = append(locks, row.Lock+": "+strings.Join(parts, ", "))
		}
	}
	return strings.Join(locks, "; ")
}

// mostArchived bounds the runs of an experiment on the terminal: the latest.
const mostArchived = 30

// VerdictCell is the verdict of a run as tables have it; "" = it has none.
func VerdictCell(name string) doc.Cell {
	if name == "" {
		return tonedCell("NOT READ", doc.Bad)
	}
	return tonedCell(runWord(name))
}

// TimeCell is a start time to the minute.
func TimeCell(started string) doc.Cell { return figureCell(startOf(started)) }

// startOf is a start time to the minute.
func startOf(started string) string {
	return strings.Replace(started[:min(len(started), len("2006-01-02T15:04"))], "T", " ", 1)
}

func unread(a *compare.Archive) (list []doc.Item) {
	for _, u := range a.Unread {
		list = append(list, doc.Of(u.Folder, u.Why))
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
