package reports

import (
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// baselineBlocks hold the run beside earlier ones: c has it as its head; nil = it was not compared.
func baselineBlocks(c *compare.Comparison) []Block {
	if c == nil {
		return []Block{{Muted: "This run was not compared with another one."}}
	}
	word, _ := answerWord(c.Answer)
	if c.Rehearsal {
		word = "REHEARSAL: " + word
	}
	blocks := []Block{{Text: word + ", " + beside(c) + ". " + answerSentence(c.Answer)}}
	blocks = appendItems(blocks, "", reasonItems(c.Reasons, mostReasonsOfPage, ""))
	if g := comparedTable(c); g != nil {
		blocks = append(blocks, Block{Table: g}, Block{Fold: &fold{"Confidence intervals, and from how many values", []Block{{Table: withinTable(c)}}}})
	}
	blocks = appendItems(blocks, "Correctness on both sides", correctnessOf(c))
	for _, p := range timeline.Trends(c) {
		blocks = append(blocks, Block{Figure: figureOf(p)})
	}
	if len(c.Rows) > 0 && len(c.Base)+len(c.Head) < 3 {
		blocks = append(blocks, Block{Muted: "Three runs or more make a trend."})
	}
	blocks = appendItems(blocks, "How it was compared", comparedHow(c))
	return append(blocks, Block{Fold: &fold{"The runs that were compared", []Block{itemBlock("", comparedRuns(c))}}})
}

// mostReasonsOfPage bounds the reasons of a comparison on the page.
const mostReasonsOfPage = 10

func appendItems(blocks []Block, heading string, list []item) []Block {
	if len(list) == 0 {
		return blocks
	}
	return append(blocks, itemBlock(heading, list))
}

func comparedTable(c *compare.Comparison) *Table {
	return tableOf("Each row beside the baseline, the medians", []string{"", "lock", "measure", "base", "head", "change", "p"}, worstRows(c.Rows),
		func(r compare.ComparedRow) []Cell {
			word, ink := rowWord(r.Word)
			change, p := plainCell(r.Why), figureCell("–")
			if parted(&r) && r.Shift != nil {
				change, p = figureCell(changeText(&r)), figureCell(oddsOf(&r))
			}
			return []Cell{{Text: word, Class: classOf(ink), Num: true}, codeCell(r.Lock), plainCell(verdict.MeasureWords(r.Measure)),
				figureCell(intervalText(r.Base.Median, r.Unit)), figureCell(intervalText(r.Head.Median, r.Unit)), change, p}
		})
}

// withinTable says how sure the medians and the change are, and from how much they were taken.
func withinTable(c *compare.Comparison) *Table {
	return tableOf("Confidence intervals and sizes", []string{"lock", "measure", "base within", "of", "head within", "of", "change within"}, worstRows(c.Rows),
		func(r compare.ComparedRow) []Cell {
			return []Cell{codeCell(r.Lock), plainCell(verdict.MeasureWords(r.Measure)), figureCell(intervalText(r.Base.Within, r.Unit)), plainCell(sizeText(&r, r.Base)),
				figureCell(intervalText(r.Head.Within, r.Unit)), plainCell(sizeText(&r, r.Head)), measuredCell(strings.TrimPrefix(withinText(&r), "within "))}
		})
}
