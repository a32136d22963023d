package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Comparison is what a comparison says.
func Comparison(c *compare.Comparison) *doc.Document {
	word, tone := answerWord(c.Answer)
	d := &doc.Document{Word: doc.Word{Text: word, Tone: tone}, Title: c.Experiment, Tally: beside(c), Lead: []string{answerSentence(c.Answer), gateOf(c.ExitCode, "")},
		Foot: pageFoot("compare"), Styles: timeline.Styles()}
	if c.Rehearsal {
		d.Word.Before = "REHEARSAL"
	}
	d.Sections = []doc.Section{
		{ID: "why", Title: "Why", Bare: true, Blocks: []doc.Block{{Items: reasonsAs(c.Reasons, mostRows)}}},
		{ID: "rows", Title: "Rows (less is better)", Blocks: comparedBlocks(c)},
		{ID: "correctness", Title: "Correctness", Blocks: []doc.Block{{Items: correctnessOf(c)}}},
		{ID: "runs", Title: "Runs", Blocks: []doc.Block{{Items: comparedRuns(c)}}},
		{ID: "how", Title: "How it was compared", Blocks: []doc.Block{{Items: comparedHow(c)}}},
	}
	return d
}

// comparedBlocks are the rows with what they came from, and a picture of each that has a trend.
func comparedBlocks(c *compare.Comparison) []doc.Block {
	return append([]doc.Block{{Table: comparedTable(c)}}, pictured(timeline.Trends(c), nil, "")...)
}

// comparedTable has the medians and the change in each row, and how sure they are below it.
func comparedTable(c *compare.Comparison) *doc.Table {
	t := &doc.Table{Label: "Each row beside the baseline, the medians", Cards: true, Most: map[doc.Level]int{doc.Short: mostRows, doc.Full: rowsOfTable}, Where: "lockdrill compare -f json has them all",
		Columns: []doc.Column{{Name: "verdict"}, {Name: "lock", Head: true}, {Name: "measure", Head: true}, {Name: "base"}, {Name: "head"}, {Name: "change"}, {Name: "by chance"}}}
	for _, r := range worstRows(c.Rows) {
		word, tone := rowWord(r.Word)
		row := doc.Row{Cells: []doc.Cell{{Text: word, Tone: tone}, {Text: r.Lock, Code: true}, {Text: verdict.MeasureWords(r.Measure)}, medianCell(&r, r.Base), medianCell(&r, r.Head), {Text: r.Why}, {Text: "–"}}}
		if parted(&r) && r.Shift != nil {
			row.Cells[5], row.Cells[6] = doc.Cell{Text: changeText(&r), Figure: true}, doc.Cell{Text: oddsOf(&r), Figure: true}
		}
		if parted(&r) {
			row.Notes = []doc.Item{{Label: "why", Texts: []string{map[bool]string{true: r.Why}[r.Shift != nil]}, Least: doc.Full}, {Label: "within", Texts: []string{sureness(&r, c)}, Least: doc.Full}}
		}
		if parts := partsText(&r); parts != "" {
			row.Notes = append(row.Notes, doc.Item{Label: "parts", Texts: []string{parts}, Least: map[bool]doc.Level{false: doc.Full}[r.Word == compare.Worse || r.Word == compare.Better]})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// medianCell is one side of a row.
func medianCell(r *compare.ComparedRow, s compare.ComparedSide) doc.Cell {
	if s.N == 0 {
		return doc.Cell{Text: "–"}
	}
	return doc.Cell{Text: intervalText(s.Median, r.Unit) + " (" + sizeText(r, s) + ")"}
}

// sureness is how sure the medians and the change of a row are.
func sureness(r *compare.ComparedRow, c *compare.Comparison) string {
	var within []string
	for _, side := range []struct {
		name string
		of   compare.ComparedSide
	}{{"base ", r.Base}, {"head ", r.Head}} {
		if side.of.Within != nil {
			within = append(within, side.name+intervalText(side.of.Within, r.Unit))
		}
	}
	if text := withinText(r); text != "" {
		within = append(within, "change "+text)
	}
	return list("; ", list(", ", within...), chanceText(r), oddsText(r, c))
}

// answerWord is the word of a comparison, and its ink.
func answerWord(a compare.Answer) (string, doc.Tone) {
	word := strings.ToUpper(strings.ReplaceAll(string(a), "-", " "))
	switch a {
	case compare.NoRegression:
		return word, doc.Good
	case compare.Regressed:
		return word, doc.Bad
	}
	return word, doc.Open
}

func answerSentence(a compare.Answer) string {
	switch a {
	case compare.NoRegression:
		return "No row got significantly worse by more than the tolerance, and nothing new broke. This does not prove that nothing changed: each row's interval says how much may have changed."
	case compare.Regressed:
		return "The head is worse than the base, or something broke that did not break in the base."
	case compare.Refused:
		return "Nothing was compared: the runs differ in their environment or in their faults. --allow-different FIELD allows one difference."
	}
	return "The runs show nothing worse, but they do not answer the whole question. This is not a pass."
}

func rowWord(w compare.Word) (string, doc.Tone) {
	switch w {
	case compare.Worse:
		return "WORSE", doc.Bad
	case compare.Better:
		return "BETTER", doc.Good
	case compare.TooFew, compare.NoData:
		return strings.ToUpper(string(w)), doc.Open
	case compare.Unchanged:
		return "same", doc.Plain
	}
	return string(w), doc.Plain
}

// worstRows has what needs a reader first: worse, then what was not answered, better, and the rest.
func worstRows(rows []compare.ComparedRow) []compare.ComparedRow {
	order := []compare.Word{compare.Worse, compare.TooFew, compare.NoData, compare.Better, compare.Unchanged}
	return slices.SortedStableFunc(slices.Values(rows), func(a, b compare.ComparedRow) int {
		return cmp.Compare(slices.Index(order, a.Word), slices.Index(order, b.Word))
	})
}

// parted reports whether the sides of a row have figures that are worth a line each: not the same one everywhere.
func parted(r *compare.ComparedRow) bool {
	if r.Shift == nil {
		return r.Base.N+r.Head.N > 0
	}
	same := func(i *compare.Interval) bool { return i.Lo != nil && i.Hi != nil && *i.Lo == 0 && *i.Hi == 0 }
	return !same(r.Shift) || r.ShiftWithin != nil && !same(r.ShiftWithin)
}

// beside is how many runs stand beside how many.
func beside(c *compare.Comparison) string {
	return fmt.Sprintf("base %s, head %s", figures.Plural(len(c.Base), "run"), figures.Plural(len(c.Head), "run"))
}

// correctnessOf lists what went wrong on either side.
func correctnessOf(c *compare.Comparison) (list []doc.Item) {
	for _, f := range c.Correctness {
		if f.Base+f.Head > 0 {
			text := fmt.Sprintf("%s: base %s, head %s", f.What, figures.Count(f.Base), figures.Count(f.Head))
			if f.Regressed {
				text += ", first in " + f.Run
			}
			list = append(list, doc.Of(map[bool]string{true: "broke", false: "seen"}[f.Regressed], text))
		}
	}
	if len(list) == 0 && len(c.Correctness) > 0 {
		list = append(list, doc.Of("none", fmt.Sprintf("no failure on either side (%d kinds checked)", len(c.Correctness))))
	}
	return list
}

// comparedRuns lists the runs of both sides.
func comparedRuns(c *compare.Comparison) (list []doc.Item) {
	for _, side := range []struct {
		name string
		runs []compare.ComparedRun
	}{{"base", c.Base}, {"head", c.Head}} {
		for _, r := range first(side.runs, mostRows) {
			word, _ := runWord(r.Verdict)
			text := r.ID + "  " + word
			if r.Folder != "" && !strings.HasSuffix(r.Folder, r.ID) {
				text += "  " + r.Folder
			}
			list = append(list, doc.Of(side.name, text))
		}
		if more := len(side.runs) - mostRows; more > 0 {
			list = append(list, doc.Of(side.name, "and "+figures.Plural(more, "more run")))
		}
	}
	return list
}

// mostAllowed bounds the differences that are listed as allowed: --allow-different all of unlike runs lists whole files.
const mostAllowed = 8

// comparedHow says by what rule the words were given.
func comparedHow(c *compare.Comparison) (list []doc.Item) {
	if len(c.Rows) > 0 {
		rule := "no row has enough values to show a significant difference"
		if c.Tested > 0 {
			rule = fmt.Sprintf("a row is worse or better if its change is significant (%s over the %s tested; Mann-Whitney, Holm) and larger than the tolerance (%s of the base's median)",
				share(c.Alpha), figures.Plural(c.Tested, "row"), share(c.Tolerance))
		}
		list = []doc.Item{doc.Of("rule", rule), doc.Of("figures", fmt.Sprintf("[a, b] is the range that the measurement allows; \"within\" is the %s confidence interval", share(c.Confidence)))}
	}
	allowed := 0
	for _, n := range c.Notes {
		if n.Allowed {
			if allowed++; allowed > mostAllowed {
				continue
			}
		}
		list = append(list, doc.Of("note", n.Text))
	}
	if more := allowed - mostAllowed; more > 0 {
		list = append(list, doc.Of("note", "allowed to differ: "+figures.Plural(more, "more setting")+", see -f json"))
	}
	return list
}
