package reports

import (
	"io"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// ComparisonMarkdown writes what a comparison says, for a step summary or a chat. Markup in names is escaped.
func ComparisonMarkdown(w io.Writer, c *compare.Comparison) error {
	m := &md{}
	word, _ := answerWord(c.Answer)
	m.line("## %s\n", doc.Escape(strings.Join(headOf(word, c.Experiment, beside(c), c.Rehearsal), " · ")))
	m.line("%s\n", doc.Escape(answerSentence(c.Answer)))
	for _, r := range first(c.Reasons, mostRows) {
		m.line("- %s", doc.Escape(doc.Clip(doc.Clean(r), mostOfReason)))
	}
	if more := len(c.Reasons) - mostRows; more > 0 {
		m.line("- and %s", figures.Plural(more, "more reason"))
	}
	if len(c.Rows) > 0 {
		m.line("")
		m.table("", "lock", "measure", "base", "head", "change", "p")
		rows := worstRows(c.Rows)
		for i := range first(rows, mostRows) {
			m.comparedRow(&rows[i])
		}
		if more := len(rows) - mostRows; more > 0 {
			m.line("\nand %s in the JSON", figures.Plural(more, "more row"))
		}
	}
	m.section("Correctness", correctnessOf(c))
	m.section("Runs", comparedRuns(c))
	m.section("How", comparedHow(c))
	return m.to(w, "comparison")
}

func (m *md) comparedRow(r *compare.ComparedRow) {
	word, _ := rowWord(r.Word)
	if r.Word != compare.Unchanged {
		word = "**" + word + "**"
	}
	change, p := doc.Escape(r.Why), ""
	if parted(r) && r.Shift != nil {
		change = doc.Escape(strings.TrimSpace(changeText(r) + " " + withinText(r)))
		p = oddsOf(r)
	}
	m.row(word, doc.Escape(r.Lock), doc.Escape(verdict.MeasureWords(r.Measure)), doc.Escape(cellOf(r, r.Base)), doc.Escape(cellOf(r, r.Head)), change, p)
}

// cellOf is one side of a row in a table.
func cellOf(r *compare.ComparedRow, s compare.ComparedSide) string {
	if s.N == 0 {
		return "–"
	}
	return intervalText(s.Median, r.Unit) + " (" + sizeText(r, s) + ")"
}
