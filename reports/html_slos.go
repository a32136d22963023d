package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

func sloBlocks(j *verdict.Judgement) []doc.Block {
	missing := missingItems(j)
	if j.Verdict == "aborted" && len(missing) > 0 { // its first reason stands above
		missing = missing[1:]
	}
	blocks := []doc.Block{{Items: missing}}
	if len(j.SLOs) == 0 {
		return append(blocks, doc.Block{Text: "No SLO was judged."})
	}
	blocks = append(blocks, doc.Block{Table: sloTable(j)})
	of := func(thing string) func(verdict.SLOResult) bool {
		return func(s verdict.SLOResult) bool { return s.Of == thing }
	}
	for _, n := range []struct {
		of   func(verdict.SLOResult) bool
		note string
	}{{bounded, boundNote}, {of("epoch"), "epoch: one time that a holder has the lock, from its grant on"}, {of("jeopardy"), "jeopardy: an epoch whose work outlived its lease, or had to be given up before"}} {
		if slices.ContainsFunc(j.SLOs, n.of) {
			blocks = append(blocks, doc.Block{Least: doc.Short, Text: n.note, Quiet: true})
		}
	}
	return blocks
}

// sloTable is a row for each promise, violations first, each that was not met with its why and next.
func sloTable(j *verdict.Judgement) *doc.Table {
	t := &doc.Table{Label: "SLOs, violations first", Cards: true, Most: map[doc.Level]int{doc.Short: mostRows}, Told: map[doc.Level]int{doc.Short: mostReasons}, Where: "see report.html",
		Columns: []doc.Column{{Name: "verdict"}, {Name: "lock", Named: true}, {Name: "promise", Head: true}, {Name: "observed"}, {Name: "margin", Least: doc.Full}, {Name: "from"}}}
	risky := slices.ContainsFunc(j.SLOs, bounded)
	if risky {
		t.Columns = append(t.Columns, doc.Column{Name: "could break", Least: doc.Short})
	}
	for i, s := range rowsOf(j) {
		why, next := beyond(s.SLOResult, j.Missing)
		row := doc.Row{ID: fmt.Sprintf("slo-%d", i+1), Tone: s.tone, Refs: s.Evidence}
		if s.Verdict != verdict.Pass {
			row.Notes = []doc.Item{doc.Of("why", why), doc.Of("who", slowestOf(j, s.SLOResult)), doc.Of("next", next)}
		}
		row.Notes = append(row.Notes, doc.Item{Label: "based on", Texts: []string{s.Rests}, Least: doc.Full})
		row.Cells = []doc.Cell{{Text: s.word, Tone: s.tone}, {Text: s.Lock, Code: true}, {Text: s.promise}, {Text: s.observed, Brief: s.glance, Figure: true},
			{Text: marginText(s.inFile), Figure: true, Meter: meterOf(s.inFile)}, {Text: sampleSize(s.SLOResult), Brief: figures.Plural(s.N, cmp.Or(s.Of, "trial"))}}
		if risky {
			risk := doc.Cell{Text: "–"}
			if bounded(s.SLOResult) {
				risk = doc.Cell{Text: "up to " + percent(*s.Bound), Figure: true}
			}
			row.Cells = append(row.Cells, risk)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// slowestOf says of a takeover that failed which fault struck whom before the slowest that the row is about (its evidence has those, and not
// the takeovers of another class), and who took over; "" of any other row.
func slowestOf(j *verdict.Judgement, s verdict.SLOResult) string {
	if s.Verdict != verdict.Fail || s.Ask != verdict.AtMost || !strings.HasPrefix(s.Measure, "takeover") {
		return ""
	}
	var worst *verdict.Takeover
	for i := range j.Takeovers {
		t := &j.Takeovers[i]
		if t.Lock == s.Lock && t.Fault != "" && slices.ContainsFunc(t.Evidence, func(n int64) bool { return slices.Contains(s.Evidence, n) }) && (worst == nil || slower(t, worst)) {
			worst = t
		}
	}
	if worst == nil || worst.Victim == "" {
		return ""
	}
	return "The slowest: " + worst.Fault + " struck " + worst.Victim + ", and " + cmp.Or(worst.Successor, "nobody") + " took over."
}

// slower reports that a took longer than b: an open end is later than any other.
func slower(a, b *verdict.Takeover) bool {
	if a.Hi == nil || b.Hi == nil {
		return b.Hi != nil || a.Hi == nil && a.Lo > b.Lo
	}
	return *a.Hi > *b.Hi
}

// marginText is how far what was seen stays from the limit, or is beyond it: never more than was measured.
func marginText(s verdict.SLOResult) string {
	over := s.Lo - s.Limit
	switch {
	case s.N == 0 && s.Hi == nil:
		return "–"
	case s.Ask != verdict.AtMost && s.Hi != nil && *s.Hi < s.Limit:
		return atLeast(s.Limit-*s.Hi, s.Unit) + " short"
	case s.Ask == verdict.AtLeast && over >= 0:
		return atLeast(over, s.Unit) + " more"
	case s.Ask == verdict.AtLeast:
		return "not known"
	case over > 0:
		return atLeast(over, s.Unit) + " over"
	case s.Hi == nil || *s.Hi > s.Limit:
		return "not known"
	case s.Limit == 0:
		return "–"
	}
	left := s.Limit - *s.Hi
	text := atLeast(left, s.Unit) + " left"
	if s.Limit > 0 {
		text += fmt.Sprintf(" (%.0f%%)", math.Floor(100*left/s.Limit+noise))
	}
	return text
}

// atLeast writes a figure rounded down.
func atLeast(v float64, unit string) string {
	switch unit {
	case verdict.UnitCount:
		return number(v)
	case verdict.UnitValue:
		return number(math.Floor(v*1e3+noise) / 1e3)
	case verdict.UnitRatio:
		return share(math.Floor(v*1e5+noise) / 1e5)
	}
	return figures.Exact(figures.Down(figures.Nanoseconds(v)))
}

// meterOf is nil where there is no scale to draw on.
func meterOf(s verdict.SLOResult) *doc.Meter {
	if s.N == 0 || s.Limit <= 0 || s.Lo < 0 || infinite(s.Lo) {
		return nil
	}
	m := &doc.Meter{Lo: s.Lo, Limit: s.Limit, Most: math.Max(s.Limit*1.25, s.Lo*1.25)}
	if m.Hi = m.Most; s.Hi != nil { // else open
		m.Hi = *s.Hi
		m.Most = math.Max(m.Most, m.Hi*1.05)
	}
	return m
}
