package reports

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// headOfPage is what a reader of a run's page sees first.
func headOfPage(r Run) *Page {
	j := r.Judgement
	word, ink := runWord(j.Verdict)
	p := &Page{Word: word, Class: classOf(ink), Title: j.Run.Experiment, Tally: tally(j), Sentences: sentences(j)}
	if d := r.Experiment.Description; d != "" {
		p.Facts = append(p.Facts, item{"drill", doc.Shorten(d, 3*doc.LongName)})
	}
	if !j.Run.Live {
		p.Labels = append(p.Labels, "REHEARSAL")
	}
	if s := scale(j); s != "" {
		p.Labels = append(p.Labels, s)
	}
	answer, says := validOf(j)
	p.Facts = append(p.Facts, item{"valid", answer + ". " + says},
		item{"run", runText(j.Run)},
		item{"exit status", fmt.Sprintf("%d (%s)", j.ExitCode, j.Verdict)},
		item{"clean-up", cleanUpText(j)},
	)
	return p
}

// classOf names an ink for the style sheet.
func classOf(i ink) string {
	return map[ink]string{green: "pass", red: "fail", yellow: "open"}[i]
}

func sloBlocks(r Run, ev *evidence) []Block {
	j := r.Judgement
	if len(j.SLOs) == 0 {
		return []Block{{Text: "No SLO was judged."}}
	}
	var blocks []Block
	if lacks := missingItems(j); len(lacks) > 0 {
		blocks = append(blocks, itemBlock("", lacks))
	}
	table := sloTable(j, ev)
	blocks = append(blocks, Block{Made: &doc.Block{Table: table}})
	if slices.ContainsFunc(j.SLOs, bounded) {
		blocks = append(blocks, Block{Muted: boundNote})
	}
	return blocks
}

// sloTable is a row for each promise, violations first.
func sloTable(j *verdict.Judgement, ev *evidence) *doc.Table {
	t := &doc.Table{Label: "SLOs, violations first", Cards: true, Columns: []doc.Column{
		{Name: "verdict"}, {Name: "lock"}, {Name: "promise", Head: true}, {Name: "observed"}, {Name: "margin"}, {Name: "from"}, {Name: "could still break"}}}
	for i, s := range rowsOf(j) {
		risk := "–"
		if bounded(s.SLOResult) {
			risk = riskText(s.SLOResult)
		}
		why, next := beyond(s.SLOResult, j.Missing)
		row := doc.Row{ID: fmt.Sprintf("slo-%d", i+1), Tone: toneOf(s.ink), Refs: ev.cite(s.Evidence), Notes: []doc.Item{doc.Of("why", why), doc.Of("next", next), doc.Of("rests on", s.Rests)}}
		row.Cells = []doc.Cell{{Text: s.word, Tone: toneOf(s.ink)}, {Text: s.Lock, Code: true}, {Text: s.promise}, {Text: s.observed, Figure: true},
			{Text: marginText(s.SLOResult), Figure: true, Meter: meterOf(s.SLOResult)}, {Text: sampleSize(s.SLOResult)}, {Text: risk}}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// toneOf is the tone of an ink.
func toneOf(i ink) doc.Tone { return doc.Tone(classOf(i)) }

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
	return figures.Floor(figures.Nanoseconds(v))
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
