package reports

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Tuning is the policy that measured work asks for, how it comes about, and what it changes; or why there is none. written is the file
// that the drill was written to, "" = none.
func Tuning(t *forecast.Tuning, written string) *doc.Document {
	d := &doc.Document{Word: doc.Word{Text: "RECOMMENDED", Tone: doc.Good}, Title: "the timings of a lock",
		Tally: "by the rule ttl = p99 + jitter + guard, renew = ttl / 3, takeover = ttl + jitter + poll", Foot: pageFoot("tune")}
	if !t.Possible {
		d.Word, d.Title, d.Tally = doc.Word{Text: "NO SUCH POLICY", Tone: doc.Bad}, "", ""
		broken := &doc.Table{Label: "The rules that it breaks", Columns: doc.Columns("rule", "what it comes to")}
		for _, s := range t.Broken {
			broken.Rows = append(broken.Rows, doc.Row{Cells: []doc.Cell{{Text: s.Rule}, {Text: s.Text}}, Notes: []doc.Item{doc.Of("means", s.Means)}})
		}
		d.Sections = []doc.Section{{ID: "broken", Title: "Why there is none", Blocks: []doc.Block{{Table: broken}}}}
	}
	if len(t.Measured) > 0 {
		d.Sections = append(d.Sections, doc.Section{ID: "measured", Title: "Measured, from " + t.Measured[0].Source, Blocks: []doc.Block{
			{Table: measuredWork(t)}, {Text: "The truth lies within each range. The upper end of the p99 counts.", Quiet: true}}})
	}
	if t.Possible {
		d.Sections = append(d.Sections, tuned(t, written)...)
	}
	return d
}

// measuredWork is what the hold times were, by class.
func measuredWork(t *forecast.Tuning) *doc.Table {
	g := &doc.Table{Label: "Hold times by class", Columns: doc.Columns("class", "p50", "p95", "p99", "count")}
	for _, m := range t.Measured {
		row := doc.Row{Cells: []doc.Cell{{Text: cmp.Or(m.Class, "all")}, {Text: bracket(m.P50), Figure: true}, {Text: bracket(m.P95), Figure: true}, {Text: bracket(m.P99), Figure: true},
			{Text: number(float64(m.N)), Figure: true}}}
		note := func(format string, args ...any) {
			row.Notes = append(row.Notes, doc.Of("note", fmt.Sprintf(format, args...)))
		}
		if m.Cut > 0 {
			note("%d cut off by the holder's death are not counted", m.Cut)
		}
		if need := int64(stats.TrialsNeeded(0.99, 0)); m.N < need {
			note("fewer than %d cannot show a p99 at 95%% confidence", need)
		}
		if m.Class == t.Chosen && len(t.Measured) > 1 {
			note("the longest p99: it decides")
		}
		if m.TTL99 > 0 && len(t.Measured) > 1 {
			note("without renewals this class asks for ttl %s by its p99, %s by its p95", figures.Seconds(m.TTL99, &m.TTL99), figures.Seconds(m.TTL95, &m.TTL95))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// bracket is a range as measured, or as wide as its bucket.
func bracket(r verdict.Range) string { return span(r.Lo, r.Hi, verdict.UnitSeconds) }

func tuned(t *forecast.Tuning, written string) []doc.Section {
	var steps []doc.Item
	for _, s := range t.Steps {
		steps = append(steps, doc.Of(s.Field, s.Text))
	}
	file := []doc.Block{{Code: t.YAML}}
	if t.Policy.Loop == nil {
		file = append(file, doc.Block{Text: "and in its work: redeliver " + secs(t.Pickup)})
	}
	if written != "" {
		file = append(file, doc.Block{Text: "The rehearsed drill is in " + written + ": lockdrill run " + written})
	}
	return []doc.Section{
		{ID: "policy", Title: "The policy", Blocks: []doc.Block{{Items: steps}}},
		{ID: "trade", Title: fmt.Sprintf("The trade, with %s locks held at once", number(float64(t.Locks))), Blocks: []doc.Block{{Table: tradeTable(t)}}},
		{ID: "rehearsal", Title: fmt.Sprintf("Rehearsal in virtual time, %s of each. It proves nothing about a live system", figures.Plural(t.Seeds, "seed")), Blocks: beforeAndAfter(t)},
		{ID: "file", Title: "For an experiment file, below system", Blocks: file},
	}
}

// tradeTable is what a renewal interval buys and costs.
func tradeTable(t *forecast.Tuning) *doc.Table {
	g := &doc.Table{Label: "Renewal intervals", Columns: []doc.Column{{Name: "ttl /", Right: true}, {Name: "renew every", Right: true}, {Name: "may fail in a row", Right: true}, {Name: "writes a second", Right: true}, {}}}
	for _, r := range t.Trade {
		mark := doc.Cell{}
		if r.Recommends {
			mark = doc.Cell{Text: "<- recommended"}
		}
		g.Row(doc.Cell{Text: strconv.Itoa(r.Parts)}, doc.Cell{Text: roughly(r.RenewEvery)}, doc.Cell{Text: strconv.Itoa(r.Failures)}, doc.Cell{Text: perSecond(r.Writes)}, mark)
	}
	return g
}

// perSecond is a rate to three digits.
func perSecond(f float64) string {
	if f >= 100 {
		return number(math.Round(f))
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// beforeAndAfter holds the policies' sums and rehearsals beside one another.
func beforeAndAfter(t *forecast.Tuning) (blocks []doc.Block) {
	policies := []*forecast.TunedPolicy{t.After}
	if t.Before != nil {
		policies = []*forecast.TunedPolicy{t.Before, t.After}
	}
	for _, q := range policies {
		g := &doc.Table{Label: "Promises of " + q.Name, Columns: doc.Columns("promise", "breached in", "median", "longest")}
		for _, b := range q.Breaches {
			breached := shareOfSeeds(b.Breach, t.Seeds)
			if b.Seeds == 0 { // no data is no "never"
				breached = "not reached by any seed"
			}
			median, longest := "-", "-"
			if b.Median != nil {
				median, longest = roughly(*b.Median), roughly(*b.Max)
			}
			g.Row(doc.Cell{Text: b.Promise}, doc.Cell{Text: breached}, doc.Cell{Text: median, Figure: true}, doc.Cell{Text: longest, Figure: true})
		}
		var sums []doc.Item
		if s := q.Sums.Seeds; s.Mean != nil {
			sums = append(sums, doc.Of("takeovers", fmt.Sprintf("%s to %s, on average %s", roughly(*s.Min), roughly(*s.Max), roughly(*s.Mean))))
		}
		text := fmt.Sprintf("takeover %s to %s", secs(q.Sums.Takeover.Lo), secs(q.Sums.Takeover.Hi))
		if f := q.Sums.Failures; f != nil {
			text += "; " + failuresOf(f, &forecast.SeedSums{}) + "; " + perSecond(q.Writes) + " writes a second"
		} else {
			text += "; never renewed"
		}
		blocks = append(blocks, doc.Block{Heading: q.Name, Table: g}, doc.Block{Items: append(sums, doc.Of("sums", text))})
	}
	if t.P50Assumed {
		blocks = append(blocks, doc.Block{Text: "You gave no median of the work (--p50). The rehearsals assume p99 / 3 = " + roughly(t.P50) + "."})
	}
	if t.Before == nil {
		blocks = append(blocks, doc.Block{Text: "Before: name the policy that you have now with --profile, or give a run of it with --from."})
	}
	return blocks
}
