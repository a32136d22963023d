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

func takeoverBlocks(r Run, ev *evidence) []Block {
	j := r.Judgement
	all := seriesOf(j.Takeovers, j.Faults)
	var blocks []Block
	if len(all) == 0 {
		blocks = append(blocks, Block{Text: "None: " + noTakeover + "."})
	}
	for _, p := range timeline.Takeovers(r.Experiment, j) {
		blocks = append(blocks, Block{Figure: figureOf(p)})
	}
	if len(all) > 0 {
		blocks = append(blocks, Block{Heading: "Measured", Items: seriesItems(all)})
	}
	if g := declaredTable(r.Experiment, j.Bands, all); g != nil {
		blocks = append(blocks, Block{Heading: "Declared against measured", Table: g},
			Block{Muted: "Residual is bounded by the TTL, pickup by the poll or the redelivery: medians, of what faults of the run brought about. The worst takeover stands beside what is possible by the sum below."})
		var sums []item
		for _, b := range j.Bands {
			sums = append(sums, item{b.Lock, bandText(b)})
		}
		blocks = append(blocks, Block{Items: labelledOf(sums)})
	}
	if items := rollingItems(j); len(items) > 0 {
		blocks = append(blocks, itemBlock(rollingTitle, items))
	}
	blocks = append(blocks, deathBlocks(j)...)
	if g := trialTable(j.Takeovers, ev); g != nil {
		blocks = append(blocks, Block{Fold: &fold{"Each of the " + figures.Plural(len(j.Takeovers), "value") + ", with its evidence", []Block{{Table: g}}}})
	}
	return blocks
}

// seriesItems are the figures of each series, as the terminal says them.
func seriesItems(all []series) []labelled {
	var list []labelled
	for _, s := range all {
		l := labelled{doc.Shorten(s.lock, doc.LongName), []string{s.head(), listed(s.extent())}}
		if parts := s.parts(); parts != "" {
			l.Texts = append(l.Texts, listed(parts))
		}
		list = append(list, l)
	}
	return list
}

func measuredCell(text string) Cell {
	return figureCell(cmp.Or(text, "–"))
}

// declaredTable holds what the settings of each lock add up to against what was measured.
func declaredTable(e *experiments.Experiment, bands []verdict.Band, all []series) *Table {
	scaled := experiments.Scale(e)
	return tableOf("Declared settings against measured takeovers",
		[]string{"lock", "TTL", "residual", "poll", "pickup", "possible", "worst"}, bands,
		func(b verdict.Band) []Cell {
			ttl, poll := declaredOf(e, scaled, b.Lock)
			s := struckSeries(all, b.Lock)
			if s == nil {
				none := figureCell("–")
				return []Cell{codeCell(b.Lock), figureCell(ttl), none, figureCell(poll), none, figureCell(possible(b)), none}
			}
			residual, pickup := partOf(0), partOf(1)
			return []Cell{codeCell(b.Lock), figureCell(ttl), measuredCell(s.rank(residual, 0.5)), figureCell(poll), measuredCell(s.rank(pickup, 0.5)),
				figureCell(possible(b)), plainCell(s.rank(total, 1) + " " + s.class)}
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

func trialTable(takeovers []verdict.Takeover, ev *evidence) *Table {
	return tableOf("Each takeover", []string{"fault", "key", "victim, successor", "takeover", "residual", "pickup", "warm-up", "ended by", "events"}, takeovers,
		func(t verdict.Takeover) []Cell {
			end := t.End
			if t.Censored {
				end = "not seen to end"
			}
			if late := lateText(t.Lateness); late != "" {
				end += ", " + late
			}
			return []Cell{figureCell(doc.Shorten(cmp.Or(t.Fault, "no fault of the run"), doc.LongName)), codeCell(t.Key), plainCell(t.Victim + ", " + cmp.Or(t.Successor, "nobody")), figureCell(span(t.Lo, t.Hi, verdict.UnitSeconds)),
				rangeCell(t.Residual), rangeCell(t.Pickup), rangeCell(t.Warmup), plainCell(end), ev.cell(t.Evidence)}
		})
}
