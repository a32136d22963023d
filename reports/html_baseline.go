package reports

import (
	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// baselineBlocks hold the run beside earlier ones: c has it as its head; nil = it was not compared.
func baselineBlocks(c *compare.Comparison) []doc.Block {
	if c == nil {
		return []doc.Block{{Text: "This run was not compared with another one.", Quiet: true}}
	}
	made := Comparison(c)
	word := made.Word.Text
	if c.Rehearsal {
		word = "REHEARSAL: " + word
	}
	blocks := []doc.Block{{Text: word + ", " + made.Tally + ". " + made.Lead[0]}}
	if len(c.Rows) > 0 && len(c.Base)+len(c.Head) < 3 {
		blocks = append(blocks, doc.Block{Text: "Three runs or more make a trend.", Quiet: true})
	}
	for _, s := range made.Sections {
		if s.Blocks[0].Heading = s.Title; s.Bare || len(s.Blocks[0].Items) == 0 && s.Blocks[0].Table == nil {
			s.Blocks[0].Heading = ""
		}
		blocks = append(blocks, s.Blocks...)
	}
	return blocks
}
