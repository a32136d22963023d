package reports

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/golden"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// comparedSide is of live runs of testdata/compared, which were recorded in turn: those of the head poll every 400 ms, those of the base every 120.
func comparedSide(t *testing.T, names ...string) (side []*compare.Observed) {
	t.Helper()
	for _, name := range names {
		e, h := testkit.Run(t, filepath.Join("testdata", "compared", name))
		side = append(side, compare.Observe(analysis.FactsOf(e, h), "runs/"+name))
	}
	return side
}

func comparison(t *testing.T, base, head []*compare.Observed, allow ...string) *compare.Comparison {
	t.Helper()
	c, err := compare.Compare(base, head, compare.CompareOptions{Alpha: 0.05, Tolerance: 0.1, Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComparisons(t *testing.T) {
	base, head := comparedSide(t, "base/1", "base/2", "base/3"), comparedSide(t, "head/1", "head/2", "head/3")
	late := comparedSide(t, "../recorded/inconclusive")
	var texts, mds golden.Book
	for _, c := range []struct {
		name   string
		made   *compare.Comparison
		answer compare.Answer
	}{
		{"regressed", comparison(t, base, head, "system.locks.leader.policy.loop.poll"), compare.Regressed},
		{"refused", comparison(t, base, head), compare.Refused},
		{"better", comparison(t, head, base, "system"), compare.CannotSay}, // one row is too few
		{"same", comparison(t, base[:1], base[1:]), compare.CannotSay},
		{"unanswered", comparison(t, late, head[:1], "all"), compare.CannotSay},
	} {
		if c.made.Answer != c.answer {
			t.Errorf("%s: %s, want %s: %q", c.name, c.made.Answer, c.answer, c.made.Reasons)
		}
		text := doc.Text(Comparison(c.made), doc.Full, doc.Look{})
		texts.Add(c.name, text)
		mds.Add(c.name, doc.Markdown(Comparison(c.made), doc.Short))
		if c.name == "regressed" {
			data, err := json.Marshal(c.made)
			if err != nil {
				t.Fatal(err)
			}
			figures, err := golden.Verdict(data, func(string, string) {}) // its sentences are those of the text
			if err != nil {
				t.Fatal(err)
			}
			isGolden(t, "compare-"+c.name+".figures.txt", figures)
		}
		for _, line := range strings.Split(text, "\n") {
			if doc.Width(line) > 100 {
				t.Errorf("%s: over 100 columns: %s", c.name, line)
			}
		}
	}
	isGolden(t, "compare.txt", texts.String())
	isGolden(t, "compare.md.txt", mds.String())
}

// Names come from a file that somebody else wrote.
func TestComparisonEscapesNames(t *testing.T) {
	c := comparison(t, comparedSide(t, "base/1"), comparedSide(t, "base/2"))
	c.Rows[0].Lock, c.Experiment, c.Base[0].Folder = "<b>|a|", "![x](http://y)\x1b[31m", "a|b"
	text, md := doc.Text(Comparison(c), doc.Full, doc.Look{}), doc.Markdown(Comparison(c), doc.Short)
	if strings.Contains(text, "\x1b") {
		t.Error("a name can speak to the terminal")
	}
	for _, bad := range []string{"<b>", "](http", " a|b"} {
		if strings.Contains(md, bad) {
			t.Errorf("%q is not escaped", bad)
		}
	}
}

func TestIntervalsAreWrittenAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		i    *compare.Interval
		unit string
		want string
	}{
		{&compare.Interval{Lo: at(0.9121), Hi: at(0.9129)}, verdict.UnitSeconds, "[912.10, 912.90]ms"},
		{&compare.Interval{Lo: at(2), Hi: nil}, verdict.UnitSeconds, "[2.000s, open]"},
		{&compare.Interval{Lo: nil, Hi: at(2)}, verdict.UnitSeconds, "[open, 2s]"},
		{&compare.Interval{}, verdict.UnitCount, "[open, open]"},
		{&compare.Interval{Lo: at(-3), Hi: at(4)}, verdict.UnitCount, "[-3, 4]"},
		{nil, verdict.UnitCount, "–"},
	} {
		if got := intervalText(c.i, c.unit); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	for _, c := range []struct {
		lo, hi *float64
		want   string
	}{{at(0.1204), at(0.1211), "[+12.0, +12.2]%"}, {at(-0.05), at(0), "[-5.0, +0.0]%"}, {at(0.25), at(0.25), "+25.0%"}, {nil, at(0.1), "[open, +10.0]%"}} {
		if got := relativeText(&compare.Interval{Lo: c.lo, Hi: c.hi}); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if got := []string{odds(1), odds(0.0496), odds(0.00001), odds(0.5)}; !slices.Equal(got, []string{"1", "0.0496", "<0.0001", "0.5"}) {
		t.Error(got)
	}
}

// The page shows the same comparison, with a picture of every row that has a trend.
func TestComparisonOnThePage(t *testing.T) {
	r := recorded(t, filepath.Join("..", "compared", "head/1"))
	if doc := htmlOf(t, r); !strings.Contains(doc, "This run was not compared with another one.") {
		t.Error("a run without a baseline does not say so")
	}
	r.Baseline = comparison(t, comparedSide(t, "base/1", "base/2", "base/3"), comparedSide(t, "head/1"), "system.locks")
	doc := htmlOf(t, r)
	text := outline(t, doc)
	said, _, found := strings.Cut(text[max(0, strings.LastIndex(text, "Baseline and trend")):], "What was done")
	if !found {
		t.Fatalf("no comparison on the page:\n%s", text)
	}
	isGolden(t, "compare-page.txt", said)
	if n := strings.Count(doc, `id="trend-`); !strings.Contains(doc, `id="trend-3"`) {
		t.Errorf("%d ids of trends, want pictures of three rows", n)
	}
	r.Baseline = comparison(t, comparedSide(t, "base/1"), comparedSide(t, "head/1"))
	if doc := htmlOf(t, r); !strings.Contains(doc, "REFUSED") || strings.Contains(doc, `id="trend-`) {
		t.Error("a refused comparison does not say so, or has a trend")
	}
}

// Unlike runs that were allowed to differ in everything list their first settings, and say how many more there are; other notes stay.
func TestAllowedDifferencesAreBounded(t *testing.T) {
	c := &compare.Comparison{}
	for i := range mostAllowed + 3 {
		c.Notes = append(c.Notes, compare.Note{Text: fmt.Sprintf("allowed to differ: setting %d", i), Allowed: true})
	}
	c.Notes = append(c.Notes, compare.Note{Text: "one run on a side"})
	list := comparedHow(c)
	if n := len(list); n != mostAllowed+2 || list[n-2].Texts[0] != "one run on a side" || list[n-1].Texts[0] != "allowed to differ: 3 more settings, see -f json" {
		t.Errorf("%+v", list)
	}
}
