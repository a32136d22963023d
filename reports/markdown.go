package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Caps of report.md: it has to fit a chat message. The full report has everything.
const (
	mostRows     = 20  // SLOs, violations first
	mostReasons  = 3   // rows of which why and next are said
	mostOfReason = 400 // columns of a why, and of a next
)

// Markdown writes report.md: the verdict, the promises, why and what next, and where the rest lies. Markup in keys and notes is escaped.
func Markdown(w io.Writer, r Run, o Options) error {
	j := r.Judgement
	m := &md{}
	m.head(j)
	m.section("Not cleaned up", leftItems(r.Record, o.Folder))
	m.promises(j)
	m.reasons(j)
	m.section("Takeovers", takeoverItems(j))
	m.section(rollingTitle, rollingItems(j))
	m.section(deathTitle(j), deathItems(j))
	m.section("Work", append(workItems(j), unknownItems(j, ofWork)...))
	m.section(drillTitle, append(slices.DeleteFunc(validityItems(j), func(i item) bool {
		return slices.Contains([]string{"void", "confirmed", ""}, i.Label) // said above, or one line a shot: in the full report
	}), calledItems(r.Lanes)...))
	m.section(lintTitle, lintItems(j))
	m.remarks(j)
	m.places(o)
	return m.to(w, "report.md")
}

// MarkdownUnjudged writes the summary of a drill that has no verdict: refused, or broken before there was one.
func MarkdownUnjudged(w io.Writer, experiment, word, why string) error {
	m := &md{}
	m.line("## %s\n\nWhy: %s", doc.Escape(strings.ToUpper(word)+" · "+experiment+" · no verdict"), doc.Escape(why))
	return m.to(w, "summary")
}

// md collects Markdown. Its methods escape what they are given, but for line and row. A block begins with an empty line, or it would go on
// with the one before.
type md struct{ strings.Builder }

func (m *md) line(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// row of a table; the cells are Markdown.
func (m *md) row(cells ...string) { m.line("| %s |", strings.Join(cells, " | ")) }

func (m *md) table(columns ...string) {
	m.row(columns...)
	m.row(slices.Repeat([]string{"---"}, len(columns))...)
}

// section is a list of labelled texts below a word in bold; without any there is no section.
func (m *md) section(title string, list []item) {
	list = slices.DeleteFunc(slices.Clone(list), func(i item) bool { return i.Text == "" })
	if len(list) == 0 {
		return
	}
	m.line("\n**%s**\n", doc.Escape(title))
	for _, i := range list {
		m.line("- %s: %s", doc.Escape(i.Label), doc.Escape(i.Text))
	}
}

func (m *md) to(w io.Writer, what string) error {
	if _, err := io.WriteString(w, m.String()); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

func (m *md) head(j *verdict.Judgement) {
	word, _ := runWord(j.Verdict)
	m.line("## %s", doc.Escape(strings.Join(headOf(word, j.Run.Experiment, tally(j), !j.Run.Live), " · ")))
	if s := scale(j); s != "" {
		m.line("\n%s: real seconds against scaled limits.", doc.Escape(strings.ToUpper(s[:1])+s[1:]))
	}
	for _, s := range sentences(j) {
		m.line("\n%s", doc.Escape(s))
	}
	answer, says := validOf(j)
	m.line("\n**%s** %s", validTitle, doc.Escape(answer+". "+says))
	for _, i := range missingItems(j) {
		m.line("- %s: %s", i.Label, doc.Escape(i.Text))
	}
}

// promises is the table of SLOs, violations first.
func (m *md) promises(j *verdict.Judgement) {
	if len(j.SLOs) == 0 {
		return
	}
	m.line("")
	m.table("", "lock", "promise", "observed", "from")
	rows := rowsOf(j)
	for _, s := range first(rows, mostRows) {
		word := s.word
		if s.Verdict != verdict.Pass {
			word = "**" + word + "**"
		}
		m.row(word, doc.Escape(s.Lock), doc.Escape(s.promise), doc.Escape(s.observed), doc.Escape(s.sample))
	}
	if more := len(rows) - mostRows; more > 0 {
		m.line("\nand %s in the full report", figures.Plural(more, "more SLO"))
	}
	if slices.ContainsFunc(j.SLOs, bounded) {
		m.line("\n%s", doc.Escape(boundNote))
	}
}

// reasons says of the worst rows why, and what to do next. A reason that holds for several is said once.
func (m *md) reasons(j *verdict.Judgement) {
	var list []item
	more := 0
	said := map[string]bool{}
	for _, s := range unmet(j) {
		if s.Why == "" || said[s.Why] {
			continue
		}
		said[s.Why] = true
		if len(list) == mostReasons {
			more++
			continue
		}
		text := doc.Clip(doc.Clean(s.Why), mostOfReason)
		if s.Next != "" {
			text += " Next: " + doc.Clip(doc.Clean(s.Next), mostOfReason)
		}
		list = append(list, item{s.Lock + ", " + s.promise, text})
	}
	if more > 0 {
		list = append(list, item{"besides", figures.Plural(more, "more reason") + " in the full report"})
	}
	m.section("Why, and what next", list)
}

// leftItems are the parts of the clean-up that did not succeed, and who undoes them.
func leftItems(r *Record, folder string) []item {
	var list []item
	for _, e := range r.done {
		if e.Kind == history.RunCleanup && !e.Note.OK {
			list = append(list, item{e.Note.What, cmp.Or(e.Note.Why, "not verified")})
		}
	}
	if len(list) > 0 {
		list = append(list, item{"next", "lockdrill recover " + cmp.Or(folder, "DIR (this folder)") + " undoes what it can, and names what is left"})
	}
	return list
}

// takeoverItems are the series in one line each, and what rehearsals predicted.
func takeoverItems(j *verdict.Judgement) []item {
	var list []item
	for _, s := range seriesOf(j.Takeovers, j.Faults) {
		list = append(list, item{s.lock, s.head() + ": " + listed(s.extent())})
	}
	for _, b := range j.Predicted {
		list = append(list, item{"predicted", predicted(b)})
	}
	return list
}

// remarks are the contradictions, and how many warnings there are besides.
func (m *md) remarks(j *verdict.Judgement) {
	var list []item
	for _, f := range j.Findings[:min(len(j.Findings), mostReasons)] {
		list = append(list, item{"finding", doc.Clip(doc.Clean(findingText(f)), mostOfReason)})
	}
	if more := len(j.Findings) - mostReasons; more > 0 {
		list = append(list, item{"besides", figures.Plural(more, "more finding") + " in the full report"})
	}
	if n := len(j.Warnings); n > 0 {
		list = append(list, item{"warnings", figures.Count(n) + " in the full report"})
	}
	m.section("Remarks", list)
}

// places says where everything lies, and how to get it again.
func (m *md) places(o Options) {
	m.line("")
	for _, i := range []item{{"Full report", o.Report}, {"Folder", o.Folder}, {"Run again", o.Reproduce}} {
		if i.Text != "" {
			m.line("%s: %s  ", i.Label, doc.Code(i.Text))
		}
	}
}
