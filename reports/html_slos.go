package reports

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// headOfPage is what a reader of a run's page sees first.
func headOfPage(r Run) *Page {
	j := r.Judgement
	word, ink := runWord(j.Verdict)
	p := &Page{Word: word, Class: classOf(ink), Title: j.Run.Experiment, Tally: tally(j), Sentences: sentences(j)}
	if d := r.Experiment.Description; d != "" {
		p.Facts = append(p.Facts, item{"drill", clipped(d, 3*longName)})
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

// sloView is one promise.
type sloView struct {
	ID, Word, Class, Lock                   string
	Promise, Observed, Margin, Sample, Risk string
	Meter                                   *meter
	Why, Next, Rests                        string
	Refs                                    refs
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
	var rows []sloView
	for i, s := range rowsOf(j) {
		v := sloView{ID: fmt.Sprintf("slo-%d", i+1), Word: s.word, Class: classOf(s.ink), Lock: clipped(s.Lock, longName), Promise: s.promise,
			Observed: s.observed, Margin: marginText(s.SLOResult), Meter: meterOf(s.SLOResult), Sample: sampleSize(s.SLOResult), Risk: "–", Refs: ev.cite(s.Evidence, citedOfSLO)}
		if bounded(s.SLOResult) {
			v.Risk = riskText(s.SLOResult)
		}
		v.Why, v.Next = beyond(s.SLOResult, j.Missing)
		v.Rests = s.Rests
		rows = append(rows, v)
	}
	blocks = append(blocks, Block{SLOs: rows})
	if slices.ContainsFunc(j.SLOs, bounded) {
		blocks = append(blocks, Block{Muted: boundNote})
	}
	return blocks
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
	return figures.Floor(figures.Nanoseconds(v))
}

// meter draws a measured range beside its limit, in units of its width; the row says the same in figures.
type meter struct {
	Lo, Range string // what was surely measured, and the width of the rest
	Limit     string // place of the limit's mark
}

const meterWidth = 96.0

// meterOf is nil where there is no scale to draw on.
func meterOf(s verdict.SLOResult) *meter {
	if s.N == 0 || s.Limit <= 0 || s.Lo < 0 || infinite(s.Lo) {
		return nil
	}
	most := math.Max(s.Limit*1.25, s.Lo*1.25)
	hi := most // open
	if s.Hi != nil {
		hi = *s.Hi
		most = math.Max(most, hi*1.05)
	}
	x := func(v float64) float64 { return math.Round(10*meterWidth*v/most) / 10 }
	text := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	return &meter{Lo: text(x(s.Lo)), Range: text(math.Max(x(hi)-x(s.Lo), 1.5)), Limit: text(x(s.Limit))}
}
