package reports

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Pool is what many runs say together.
func Pool(p *compare.Pooled) *doc.Document {
	word, tone := runWord(p.Verdict)
	rows := &doc.Table{Label: "Rows of all runs together", Columns: doc.Columns("verdict", "lock", "promise", "of all runs")}
	for _, r := range p.Rows {
		word, tone := sloWord(r.Verdict)
		rows.Row(doc.Cell{Text: word, Tone: tone}, doc.Cell{Text: r.Lock, Code: true}, doc.Cell{Text: verdict.MeasureWords(r.Measure) + " <= " + figures.Exact(figures.Nanoseconds(r.Limit))}, doc.Cell{Text: r.Why})
	}
	return &doc.Document{Word: doc.Word{Text: word, Tone: tone}, Title: p.Experiment, Tally: figures.Plural(len(p.Runs), "run") + " together", Lead: []string{pooledSentence(p), gateOf(p.ExitCode, "")},
		Foot: pageFoot("history --pool"),
		Sections: []doc.Section{
			{ID: "why", Title: "Why", Bare: true, Blocks: []doc.Block{{Items: reasonsAs(p.Reasons, mostRows)}}},
			{ID: "rows", Title: "Rows", Blocks: []doc.Block{{Table: rows}}},
			{ID: "runs", Title: "Runs", Blocks: []doc.Block{{Items: pooledRuns(p)}}},
		}}
}

// reasonsAs are the first reasons, and how many more there are.
func reasonsAs(reasons []string, most int) (list []doc.Item) {
	for _, r := range first(reasons, most) {
		list = append(list, doc.Of("why", r))
	}
	if more := len(reasons) - most; more > 0 {
		list = append(list, doc.Of("", "and "+figures.Plural(more, "more reason")+": see -f json"))
	}
	return list
}

func pooledSentence(p *compare.Pooled) string {
	switch {
	case p.ExitCode == verdict.ExitRefused:
		return "The runs do not answer one question: they differ in what they stood on, in what was done to them, or in what was promised. Nothing was judged."
	case p.Start != "":
		return "The pool is every run with " + p.Start + "."
	}
	return "The runs were chosen by hand, so a row can fail and cannot pass. Give the runs a label (run --label release=1.4) and judge those with the label, or note a start (lockdrill history --start NAME)."
}

// pooledRuns lists the runs with what each gave to the rows.
func pooledRuns(p *compare.Pooled) (list []doc.Item) {
	for i, r := range p.Runs {
		word, _ := runWord(r.Verdict)
		var gave []string
		for _, row := range p.Rows {
			h := row.Runs[i]
			text := fmt.Sprintf("%s %s: %s", row.Lock, row.Measure, figures.Plural(h.N, row.Of))
			if h.Maybe > 0 {
				text += ", " + figures.Count(h.Maybe) + " over"
			}
			if h.Why != "" {
				text += " (" + h.Why + ")"
			}
			gave = append(gave, text)
		}
		list = append(list, doc.Of(r.Started[:min(10, len(r.Started))], strings.Join(append([]string{word + "  " + r.ID}, gave...), "; ")))
	}
	if more := len(list) - 2*mostRows; more > 0 {
		list = append(list[:mostRows:mostRows], append([]doc.Item{doc.Of("between", figures.Plural(more, "more run")+", in -f json")}, list[len(list)-mostRows:]...)...)
	}
	return list
}
