package reports

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

func takeoverBlocks(r Run, ev *evidence) []doc.Block {
	j := r.Judgement
	all := seriesOf(j.Takeovers, j.Faults)
	var blocks []doc.Block
	if len(all) == 0 {
		blocks = append(blocks, doc.Block{Text: "None: " + noTakeover + "."})
	}
	if len(all) > 0 {
		blocks = append(blocks, doc.Block{Items: append(seriesItems(all), predictedItems(j)...)})
	}
	if r.Experiment != nil && len(j.Bands) > 0 {
		blocks = append(blocks, doc.Block{Least: doc.Full, Heading: "Declared against measured", Table: declaredTable(r.Experiment, j.Bands, all)},
			doc.Block{Least: doc.Full, Text: "What is left of the lease is bounded by the TTL, pickup by the poll or the redelivery: medians, of what faults of the run brought about. The worst takeover stands beside what is possible by the sum below.", Quiet: true})
	}
	var sums []item
	for _, b := range j.Bands {
		sums = append(sums, item{"possible", b.Lock + ": " + bandText(b)})
	}
	blocks = append(blocks, doc.Block{Least: doc.Full, Items: itemsIn(sums)})
	if r.Experiment != nil {
		for _, p := range timeline.Takeovers(r.Experiment, j) {
			blocks = append(blocks, doc.Block{Figure: pictureOf(p)})
		}
	}
	if g := trialTable(j.Takeovers, ev); g != nil {
		blocks = append(blocks, doc.Block{Fold: "Each of the " + figures.Plural(len(j.Takeovers), "value") + ", with its evidence", Table: g})
	}
	return blocks
}

// predictedItems are what rehearsals predicted.
func predictedItems(j *verdict.Judgement) (list []doc.Item) {
	for _, b := range j.Predicted {
		list = append(list, doc.Of("predicted", predicted(b)))
	}
	return list
}

// seriesItems are the figures of each series, as the terminal says them.
func seriesItems(all []series) []doc.Item {
	var list []doc.Item
	for _, s := range all {
		list = append(list, doc.Of(s.lock, s.head()+": "+listed(s.extent())), doc.Item{Texts: []string{listed(s.parts())}, Least: doc.Full})
	}
	return list
}

func measuredCell(text string) doc.Cell {
	return figureCell(cmp.Or(text, "–"))
}

// declaredTable holds what the settings of each lock add up to against what was measured.
func declaredTable(e *experiments.Experiment, bands []verdict.Band, all []series) *doc.Table {
	scaled := experiments.Scale(e)
	return tableOf("Declared settings against measured takeovers",
		"lock,TTL,left of the lease,poll,pickup,possible,worst", bands,
		func(b verdict.Band) ([]doc.Cell, []int64) {
			ttl, poll := declaredOf(e, scaled, b.Lock)
			s := struckSeries(all, b.Lock)
			if s == nil {
				none := figureCell("–")
				return []doc.Cell{codeCell(b.Lock), figureCell(ttl), none, figureCell(poll), none, figureCell(possible(b)), none}, nil
			}
			residual, pickup := partOf(0), partOf(1)
			return []doc.Cell{codeCell(b.Lock), figureCell(ttl), measuredCell(s.rank(residual, 0.5)), figureCell(poll), measuredCell(s.rank(pickup, 0.5)),
				figureCell(possible(b)), plainCell(s.rank(total, 1) + " " + s.class)}, nil
		})
}

// struckSeries is the lock's series that the band speaks of: what faults of the run brought about.
func struckSeries(all []series, lock string) *series {
	i := slices.IndexFunc(all, func(s series) bool {
		return s.lock == lock && s.blamed && s.class != verdict.ClassRecovery && (s.class != verdict.ClassHandOver || !mixed(all, lock))
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// mixed reports a lock that was also taken over otherwise than by a hand-over.
func mixed(all []series, lock string) bool {
	return slices.ContainsFunc(all, func(s series) bool { return s.lock == lock && s.blamed && s.class != verdict.ClassHandOver })
}

// declaredOf are the lock's TTL, and its poll or what comes nearest to one: the redelivery of its jobs.
func declaredOf(e, scaled *experiments.Experiment, lock string) (ttl, poll string) {
	ttl, poll = "–", "–"
	if l, s := e.Lock(lock), scaled.Lock(lock); l != nil {
		ttl = declaredText(l.Policy.TTL, s.Policy.TTL, e.TimeScale)
		if l.Loop() {
			poll = declaredText(l.Policy.Loop.Poll, s.Policy.Loop.Poll, e.TimeScale)
		}
	}
	if w := e.WorkUnder(lock); w != nil {
		poll = declaredText(w.Redeliver, scaled.WorkUnder(lock).Redeliver, e.TimeScale) + " redelivery"
	}
	return ttl, poll
}

// declaredText is a duration as the file has it, and as it was run.
func declaredText(declared, run time.Duration, scale float64) string {
	if declared == run {
		return exact(run.Seconds(), verdict.UnitSeconds)
	}
	return fmt.Sprintf("%s (%s at %s)", exact(declared.Seconds(), verdict.UnitSeconds), exact(run.Seconds(), verdict.UnitSeconds), factor(scale))
}

func trialTable(takeovers []verdict.Takeover, ev *evidence) *doc.Table {
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
				rangeCell(t.Residual), rangeCell(t.Pickup), rangeCell(t.Warmup), plainCell(end)}, ev.cite(t.Evidence)
		})
}
