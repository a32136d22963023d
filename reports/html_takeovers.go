package reports

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

func takeoverBlocks(r Run) []doc.Block {
	j := r.Judgement
	all := seriesOf(j.Takeovers, j.Faults)
	var blocks []doc.Block
	if len(all) == 0 {
		blocks = []doc.Block{{Text: "None: " + noTakeover + "."}}
	} else {
		blocks = []doc.Block{{Items: append(seriesItems(all), predictedItems(j)...)}}
	}
	if slices.ContainsFunc(all, func(s series) bool { return s.parts() != "" }) {
		blocks = append(blocks, doc.Block{Least: doc.Full, Text: "left of the lease: from the fault until the lease ends; pickup: until the next grant; warm-up: until the first accepted effect", Quiet: true})
	}
	blocks = append(blocks, doc.Block{Least: doc.Full, Items: itemsOf(j.Bands, func(b verdict.Band) doc.Item { return doc.Of("possible", b.Lock+": "+b.Sum) })})
	if r.Experiment != nil {
		blocks = append(blocks, pictured(timeline.Takeovers(r.Experiment, j), nil, "")...)
	}
	if g := trialTable(j.Takeovers); g != nil {
		blocks = append(blocks, doc.Block{Fold: "Each value with its evidence: " + figures.Count(len(j.Takeovers)), Table: g})
	}
	return blocks
}

// predictedItems are what rehearsals predicted.
func predictedItems(j *verdict.Judgement) []doc.Item {
	return itemsOf(j.Predicted, func(b verdict.Predicted) doc.Item { return doc.Of("predicted", predicted(b)) })
}

// seriesItems are the figures of each series, as the terminal says them.
func seriesItems(all []series) []doc.Item {
	var list []doc.Item
	for _, s := range all {
		list = append(list, doc.Of(s.lock, s.head()+": "+listed(s.extent())), doc.Item{Texts: []string{listed(s.parts())}, Least: doc.Full})
	}
	return list
}

func trialTable(takeovers []verdict.Takeover) *doc.Table {
	return tableOf("Each takeover", "fault,key,victim and successor,takeover,left of the lease,pickup,warm-up,ended by", takeovers,
		func(t verdict.Takeover) ([]doc.Cell, []int64) {
			end := t.End
			if t.Censored {
				end = "not seen to end"
			}
			if late := lateText(t.Lateness); late != "" {
				end += ", " + late
			}
			return []doc.Cell{figureCell(cmp.Or(t.Fault, "no fault of the run")), codeCell(t.Key), plainCell(t.Victim + ", " + cmp.Or(t.Successor, "nobody")), figureCell(span(t.Lo, t.Hi, verdict.UnitSeconds)),
				rangeCell(t.Residual), rangeCell(t.Pickup), rangeCell(t.Warmup), plainCell(end)}, t.Evidence
		})
}
