package doc

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// sample has something of everything.
func sample() *Document {
	runs := &Table{Label: "the runs", Where: "runs.json", Cards: true, Most: map[Level]int{Short: 2}, Told: map[Level]int{Short: 1},
		Columns: []Column{{Name: "verdict"}, {Name: "lock"}, {Name: "promise", Head: true}, {Name: "observed"}, {Name: "from", Least: Short}}}
	for i, word := range []string{"FAIL", "FAIL", "PASS"} {
		runs.Rows = append(runs.Rows, Row{ID: fmt.Sprintf("row-%d", i+1), Refs: []int64{9, 3, 9},
			Cells: []Cell{{Text: word, Tone: map[bool]Tone{true: Good, false: Bad}[word == "PASS"]}, {Text: fmt.Sprintf("lock-%d", i+1), Code: true}, {Text: "takeover max <= 30s"},
				{Text: "[71.21, 75.7]s", Brief: "75.7s", Figure: true, Meter: &Meter{Lo: 71.21, Hi: 75.7, Limit: 30, Most: 94.6}}, {Text: "12 kills"}},
			Notes: []Item{{Label: "why", Texts: []string{"the sum says 90s"}}, {Label: "next", Texts: []string{"shorten the poll"}, Least: Short}}})
	}
	return &Document{Word: Word{"FAIL", Bad, ""}, Title: "drill", Tally: "2 of 3 broken", Labels: []string{"REHEARSAL"}, Lead: []string{"It broke."},
		Facts: []Item{Of("run", "of today")}, Tail: []Item{Of("again", "lockdrill run | x")}, Foot: "The end.", Data: []byte(`{"a":"</script>"}`),
		Sections: []Section{
			{ID: "rows", Title: "Promises", Bare: true, Blocks: []Block{{Table: runs}}},
			{ID: "more", Title: "More", Least: Short, Blocks: []Block{
				{Heading: "Jobs", Items: []Item{Of("jobs", "3 done"), {Label: "", Texts: []string{"", "1 late"}}, Of("none", "")}},
				{Least: Full, List: []string{"only in full"}},
				{Fold: "Show it", Code: "folded\n"},
				{Figure: &Figure{Title: "A picture", SVG: "<svg></svg>", Twin: &Table{Columns: Columns("a"), Rows: []Row{{Cells: []Cell{{Text: "twin"}}}}}}},
			}},
			{ID: "log", Title: "Log", Blocks: []Block{{Fold: "Show the log", Blocks: []Block{{Table: &Table{Label: "log", Log: true, Columns: Columns("event"), Rows: []Row{{ID: "e3", Cells: []Cell{{Text: "3"}}}}}}}}}},
		}}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		level Level
		want  string
	}{
		{Brief, `FAIL  drill  2 of 3 broken  REHEARSAL
  It broke.
  run           of today

  VERDICT  LOCK    PROMISE              OBSERVED
  FAIL     lock-1  takeover max <= 30s  75.7s
           why   the sum says 90s
  FAIL     lock-2  takeover max <= 30s  75.7s
           why   The same as above.
  PASS     lock-3  takeover max <= 30s  75.7s
           why   The same as above.

  again         lockdrill run | x
`},
		{Short, `FAIL  drill  2 of 3 broken  REHEARSAL
  It broke.
  run           of today

  VERDICT  LOCK    PROMISE          OBSERVED        FROM
  FAIL     lock-1  takeover max     [71.21, 75.7]s  12 kills
                   <= 30s
           why   the sum says 90s
           next  shorten the poll
  FAIL     lock-2  takeover max     [71.21, 75.7]s  12 kills
                   <= 30s
           why   The same as above.
  and 1 more: runs.json

More
  Jobs
    jobs          3 done
                  1 late

  again         lockdrill run | x
`},
	} {
		if got := Text(sample(), c.level, Look{Width: 60}); got != c.want {
			t.Errorf("level %d:\n%s\nwant\n%s", c.level, got, c.want)
		}
	}
	if full := Text(sample(), Full, Look{}); !strings.Contains(full, "see   events 3, 9 of history.jsonl") || !strings.Contains(full, "only in full") || strings.Contains(full, "folded") {
		t.Errorf("full:\n%s", full)
	}
}

// A figure stays on its row whatever the width, and no line is longer than that where the words allow it.
func TestTextKeepsFiguresOnTheirRow(t *testing.T) {
	d := sample()
	d.Sections[0].Blocks[0].Table.Rows[1].Cells[2].Text = strings.Repeat("a promise of many words ", 9)
	for width := 60; width < 130; width += 7 {
		text := Text(d, Short, Look{Width: width})
		for line := range strings.Lines(text) {
			if Width(strings.TrimRight(line, "\n")) > width {
				t.Errorf("over %d columns: %s", width, line)
			}
			if strings.Contains(line, "75.7") && !strings.Contains(line, "FAIL") {
				t.Errorf("width %d: a figure left its row: %s", width, line)
			}
		}
	}
	narrow := Text(d, Short, Look{Width: 20})
	if !strings.Contains(narrow, "[71.21, 75.7]s") {
		t.Errorf("a figure is broken where there is no room for columns:\n%s", narrow)
	}
}

func TestMarkdown(t *testing.T) {
	got := Markdown(sample(), Short)
	want := `## FAIL · drill · 2 of 3 broken · REHEARSAL

It broke.

- run: of today

| verdict | lock | promise | observed | from |
| --- | --- | --- | --- | --- |
| **FAIL** | lock-1 | takeover max <= 30s | [71.21, 75.7]s | 12 kills |
| **FAIL** | lock-2 | takeover max <= 30s | [71.21, 75.7]s | 12 kills |

and 1 more: runs.json

- takeover max <= 30s: why: the sum says 90s next: shorten the poll

**More**

*Jobs*

- jobs: 3 done
- jobs: 1 late

` + "again: `lockdrill run | x`  \n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	var b strings.Builder
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM)).Convert([]byte(got), &b); err != nil || strings.Count(b.String(), "<tr>") != 3 || strings.Count(b.String(), "<ul>") != 3 {
		t.Errorf("%v: %s", err, b.String())
	}
	if full := Markdown(sample(), Full); !strings.HasPrefix(full, "# FAIL") || !strings.Contains(full, "\n## Promises\n") || strings.Count(full, "why: the sum") != 1 {
		t.Errorf("full:\n%s", full)
	}
}

func TestHTML(t *testing.T) {
	got, err := HTML(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<strong class="word fail">FAIL</strong> <span class="label">REHEARSAL</span>`, `<tbody role="rowgroup" id="row-1" class="">`,
		`<th role="rowheader" scope="row" data-label="promise">takeover max &lt;= 30s</th>`, `<dt>evidence</dt><dd><a href="#e3">3</a>, <a href="#e9">9</a></dd>`,
		`<div class="box log"`, `<tr id="e3">`, "<summary>Show it</summary>", "only in full", `<svg class="meter"`, "The same as a table",
		`id="verdict">{"a":"\u003c/script\u003e"}</script>`, "<dd>3 done</dd><dd>1 late</dd>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, ">none<") {
		t.Error("an item without text stands there")
	}
	if again, _ := HTML(sample()); again != got {
		t.Error("the same document gives other bytes")
	}
	if cited := Cited(sample(), 8); cited[9] || !cited[3] {
		t.Errorf("cited beyond the log: %v", cited)
	}
	if cited := Cited(sample(), 9); !cited[3] || !cited[9] || len(cited) != 2 {
		t.Errorf("cited: %v", cited)
	}
}

// A server's page names its style in the header as the page does.
func TestPolicyAllowsTheStyleOfThePage(t *testing.T) {
	d := sample()
	d.Styles, d.Site = "svg { color: red }", &Site{Refresh: 5}
	got, err := HTML(d)
	if err != nil {
		t.Fatal(err)
	}
	sum := regexp.MustCompile(`sha256-[^']+`)
	if a, b := html.UnescapeString(sum.FindString(got)), sum.FindString(Policy(d.Styles)); a == "" || a != b {
		t.Errorf("%s in the page, %s in the header", a, b)
	}
	if !strings.Contains(got, `<meta http-equiv="refresh" content="5">`) {
		t.Error("the page is not loaded anew")
	}
}

// Whatever stands in a document, it is no markup of a form, and a terminal does not obey it.
func TestWritersEscape(t *testing.T) {
	const hostile = "<b>|a|</b> ![x](http://y) \x1b]0;t\x07 ##[error]z"
	d := &Document{Word: Word{Text: hostile}, Title: hostile, Tally: hostile, Labels: []string{hostile}, Lead: []string{hostile}, Facts: []Item{Of(hostile, hostile)}, Tail: []Item{Of("x", hostile)},
		Sections: []Section{{ID: "s", Title: hostile, Blocks: []Block{{Heading: hostile, Text: hostile, Blank: hostile, Items: []Item{Of(hostile, hostile)}, List: []string{hostile}, Code: hostile + "\n```\n",
			Table: &Table{Columns: Columns("a", "b"), Where: hostile, Left: 2, Rows: []Row{{Cells: []Cell{{Text: hostile}, {Text: hostile, Tone: Bad, Code: true}}, Notes: []Item{Of(hostile, hostile)}}}}}}}}}
	page, err := HTML(d)
	if err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{"text": Text(d, Full, Look{Color: true}), "markdown": Markdown(d, Full), "html": page} {
		for _, bad := range []string{"\x07", "##[error]"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s lets %q through:\n%s", form, bad, text)
			}
		}
		if form == "html" && strings.Contains(text, "<b>") {
			t.Errorf("markup in the page")
		}
	}
	var b strings.Builder
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM)).Convert([]byte(Markdown(d, Full)), &b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<img") || strings.Contains(b.String(), "<b>") || strings.Count(b.String(), "<td>") != 2 || strings.Count(b.String(), "<code") != 2 {
		t.Errorf("markup in a name is markup of the document:\n%s", b.String())
	}
}
