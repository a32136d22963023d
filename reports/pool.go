package reports

import (
	"fmt"
	"io"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Pool writes what many runs say together. Of o only Width and Color count.
func Pool(w io.Writer, p *compare.Pooled, o Options) error {
	page := newPage(o)
	word, ink := runWord(p.Verdict)
	page.flow(0, 2, page.paint(ink, word)+"  "+doc.Clean(p.Experiment)+"  "+figures.Plural(len(p.Runs), "run")+" together")
	page.flow(2, 2, pooledSentence(p))
	page.items(reasonItems(p.Reasons, mostRows, ": see -o json"))
	page.blank()
	if len(p.Rows) > 0 {
		page.title("Rows")
		t := table{indent: 2}
		for _, r := range p.Rows {
			word, ink := sloWord(r.Verdict)
			t.row(cell{word, ink}, cell{doc.Clean(r.Lock), plain}, cell{doc.Clean(verdict.MeasureWords(r.Measure)) + " <= " + figures.Exact(figures.Nanoseconds(r.Limit)), plain}, cell{doc.Clean(r.Why), plain})
		}
		page.table(t)
		page.blank()
	}
	page.section("Runs", pooledRuns(p))
	return page.to(w, "pool")
}

func pooledSentence(p *compare.Pooled) string {
	switch {
	case p.ExitCode == verdict.ExitRefused:
		return "The runs do not answer one question: they differ in what they stood on, in what was done to them, or in what was promised. Nothing was judged."
	case p.Start != "":
		return "The pool is every run with " + doc.Clean(p.Start) + "."
	}
	return "The runs were chosen by hand, so a row can fail and cannot pass. Give the runs a label (run --label release=1.4) and judge those with the label, or note a start (lockdrill history --start NAME)."
}

// pooledRuns lists the runs with what each gave to the rows.
func pooledRuns(p *compare.Pooled) (list []item) {
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
		list = append(list, item{r.Started[:min(10, len(r.Started))], doc.Clean(strings.Join(append([]string{word + "  " + r.ID}, gave...), "; "))})
	}
	if more := len(list) - 2*mostRows; more > 0 {
		list = append(list[:mostRows:mostRows], append([]item{{"", "and " + figures.Plural(more, "more run") + " between, in -o json"}}, list[len(list)-mostRows:]...)...)
	}
	return list
}
