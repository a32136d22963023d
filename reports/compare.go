package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Comparison writes what a comparison says. Of o only Width and Color count.
func Comparison(w io.Writer, c *compare.Comparison, o Options) error {
	p := newPage(o)
	word, ink := answerWord(c.Answer)
	p.flow(0, 2, strings.Join(headOf(p.paint(ink, word), doc.Clean(c.Experiment), beside(c), c.Rehearsal), "  "))
	p.flow(2, 2, answerSentence(c.Answer))
	p.items(reasonItems(c.Reasons, mostRows, ": see -o json"))
	p.blank()
	p.comparedRows(c)
	p.section("Correctness", correctnessOf(c))
	p.section("Runs", comparedRuns(c))
	p.section("How", comparedHow(c))
	return p.to(w, "comparison")
}

func (p *page) comparedRows(c *compare.Comparison) {
	if len(c.Rows) == 0 {
		return
	}
	p.title("Rows (less is better)")
	t := table{indent: 2}
	for _, r := range worstRows(c.Rows) {
		word, ink := rowWord(r.Word)
		cells := []cell{{word, ink}, {doc.Clean(r.Lock), plain}, {doc.Clean(verdict.MeasureWords(r.Measure)), plain}}
		if r.Word == compare.TooFew {
			t.row(cells...)
			t.note("why", doc.Clean(r.Why))
		} else {
			t.row(append(cells, cell{doc.Clean(r.Why), plain})...)
		}
		if parted(&r) {
			t.note("base", sideText(&r, r.Base))
			t.note("head", sideText(&r, r.Head))
			t.note("diff", spaced(changeText(&r), withinText(&r), chanceText(&r), oddsText(&r, c)))
		}
	}
	p.table(t)
	p.blank()
}

// spaced joins what there is.
func spaced(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "  ")
}

// reasonItems are the first reasons, and how many more there are; where says where.
func reasonItems(reasons []string, most int, where string) []item {
	var list []item
	for _, r := range first(reasons, most) {
		list = append(list, item{"why", doc.OneLine(r)})
	}
	if more := len(reasons) - most; more > 0 {
		list = append(list, item{"", "and " + figures.Plural(more, "more reason") + where})
	}
	return list
}

// answerWord is the word of a comparison, and its ink.
func answerWord(a compare.Answer) (string, ink) {
	word := strings.ToUpper(strings.ReplaceAll(string(a), "-", " "))
	switch a {
	case compare.NoRegression:
		return word, green
	case compare.Regressed:
		return word, red
	}
	return word, yellow
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

func rowWord(w compare.Word) (string, ink) {
	switch w {
	case compare.Worse:
		return "WORSE", red
	case compare.Better:
		return "BETTER", green
	case compare.TooFew, compare.NoData:
		return strings.ToUpper(string(w)), yellow
	}
	return string(w), plain
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
func correctnessOf(c *compare.Comparison) []item {
	var list []item
	for _, f := range c.Correctness {
		if f.Base+f.Head > 0 {
			text := fmt.Sprintf("%s: base %s, head %s", f.What, figures.Count(f.Base), figures.Count(f.Head))
			if f.Regressed {
				text += ", first in " + f.Run
			}
			list = append(list, item{map[bool]string{true: "broke", false: "seen"}[f.Regressed], text})
		}
	}
	if len(list) == 0 && len(c.Correctness) > 0 {
		list = append(list, item{"none", fmt.Sprintf("no failure on either side (%d kinds checked)", len(c.Correctness))})
	}
	return list
}

// comparedRuns lists the runs of both sides.
func comparedRuns(c *compare.Comparison) []item {
	var list []item
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
			list = append(list, item{side.name, text})
		}
		if more := len(side.runs) - mostRows; more > 0 {
			list = append(list, item{side.name, "and " + figures.Plural(more, "more run")})
		}
	}
	return list
}

// mostAllowed bounds the differences that are listed as allowed: --allow-different all of unlike runs lists whole files.
const mostAllowed = 8

// comparedHow says by what rule the words were given.
func comparedHow(c *compare.Comparison) []item {
	var list []item
	if len(c.Rows) > 0 {
		rule := "no row has enough values to show a significant difference"
		if c.Tested > 0 {
			rule = fmt.Sprintf("a row is worse or better if its change is significant (%s over the %s tested; Mann-Whitney, Holm) and larger than the tolerance (%s of the base's median)",
				share(c.Alpha), figures.Plural(c.Tested, "row"), share(c.Tolerance))
		}
		list = []item{{"rule", rule}, {"figures", fmt.Sprintf("[a, b] is the range that the measurement allows; \"within\" is the %s confidence interval", share(c.Confidence))}}
	}
	allowed := 0
	for _, n := range c.Notes {
		if n.Allowed {
			if allowed++; allowed > mostAllowed {
				continue
			}
		}
		list = append(list, item{"note", n.Text})
	}
	if more := allowed - mostAllowed; more > 0 {
		list = append(list, item{"note", "allowed to differ: " + figures.Plural(more, "more setting") + ", see -o json"})
	}
	return list
}
