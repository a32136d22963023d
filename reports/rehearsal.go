package reports

import (
	"fmt"
	"math"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Rehearsal is what many rehearsals showed, in the times of the file. again is the command that a seed's number completes.
func Rehearsal(r *forecast.Rehearsal, again string) *doc.Document {
	d := &doc.Document{Word: rehearsedWord(r), Title: r.Experiment, Tally: figures.Plural(r.Seeds, "simulated run"), Lead: []string{
		fmt.Sprintf("In virtual time, with %d replicas at the durations of the file: it answers no SLO of a live system.", r.Replicas),
		"Simulated runs that broke any limit: " + shareOfSeeds(r.Breach, r.Seeds) + "."},
		Foot: pageFoot("rehearse")}
	if s := r.Worst; s != nil {
		d.Lead = append(d.Lead, fmt.Sprintf("Worst: seed %d with %s %s %s, limit %s. To see it: %s %d",
			s.Seed, s.Lock, verdict.MeasureWords(s.Measure), rehearsedFigure(&s.Value, s.Unit), rehearsedFigure(&s.Limit, s.Unit), again, s.Seed))
	}
	t := &doc.Table{Label: "Each promise over the simulated runs", Columns: []doc.Column{{Name: "lock"}, {Name: "promise"}, {Name: "min", Right: true}, {Name: "median", Right: true}, {Name: "p95", Right: true},
		{Name: "p99", Right: true}, {Name: "max", Right: true}, {Name: "breach", Right: true}}}
	var remarks []string
	for _, row := range r.Rows {
		breach := doc.Cell{Text: shareOfSeeds(row.Breach, r.Seeds), Figure: true}
		switch {
		case row.Seeds == 0: // no data is no "never"
			breach.Text = "-"
			remarks = append(remarks, fmt.Sprintf("%s %s: no simulated run measured it, because no fault hit a lock holder or it shows only in a live run", row.Lock, verdict.MeasureWords(row.Measure)))
		case row.Open > 0:
			remarks = append(remarks, fmt.Sprintf("%s %s: the end was not seen in %s, which count with what was seen", row.Lock, verdict.MeasureWords(row.Measure), figures.Plural(row.Open, "simulated run")))
		}
		if row.Breach > 0 {
			breach.Tone = doc.Bad
		}
		cells := []doc.Cell{{Text: row.Lock, Code: true}, {Text: verdict.MeasureWords(row.Measure) + " " + rehearsedLimit(&row)}}
		for _, v := range []*float64{row.Min, row.Median, row.P95, row.P99, row.Max} {
			cells = append(cells, doc.Cell{Text: rehearsedFigure(v, row.Unit), Figure: true})
		}
		t.Row(append(cells, breach)...)
	}
	remarks = append(remarks, fmt.Sprintf("Each simulated run gives one value, the middle of what it measured. Median, p95 and p99 are over these values, exact to %.1f%%.", 100*r.Resolution))
	d.Sections = []doc.Section{
		{ID: "rows", Title: "Each promise over the simulated runs", Bare: true, Blocks: []doc.Block{{Table: t}, {List: remarks}}},
		{ID: "expected", Title: "What the faults are expected to provoke", Blocks: []doc.Block{{Items: rehearsedExpectations(r, again)}}},
		lockSums(r.Locks, r.Seeds),
	}
	for i, l := range r.Locks { // a plan has it beside its checks
		at := &d.Sections[2].Blocks[i]
		at.Items = append(at.Items, doc.Of("next", l.Advice))
	}
	return d
}

// rehearsedWord is what the exit status says.
func rehearsedWord(r *forecast.Rehearsal) doc.Word {
	w := doc.Word{Text: "HELD", Tone: doc.Good, Before: "REHEARSAL"}
	switch {
	case r.Breach > r.FailAbove:
		w.Text, w.Tone = "FAIL", doc.Bad
	case !r.Provoked(), !r.Measured():
		w.Text, w.Tone = "INCONCLUSIVE", doc.Open
	}
	return w
}

// rehearsedExpectations say what the faults provoked, and in which seed one did not.
func rehearsedExpectations(r *forecast.Rehearsal, again string) (list []doc.Item) {
	for _, x := range r.Expected {
		text := fmt.Sprintf("%s provokes %s: in each of %s", x.Fault, rehearsedAsk(&x), figures.Plural(r.Seeds, "simulated run"))
		if x.Missed > 0 {
			text = fmt.Sprintf("%s provokes %s: not in %s of %s. Seed %d: %s. To see it: %s %d", x.Fault, rehearsedAsk(&x), figures.Count(x.Missed), figures.Plural(r.Seeds, "simulated run"), x.Seed, x.Why, again, x.Seed)
		}
		list = append(list, doc.Of(x.Lock, text))
	}
	return list
}

// rehearsedAsk is what an expectation asks for.
func rehearsedAsk(x *forecast.RehearsedExpectation) string {
	return verdict.MeasureWords(x.Measure) + " " + asks(x.Ask) + " " + rehearsedFigure(&x.Limit, x.Unit)
}

// rehearsedLimit is the limit of a row; a share of what another lock had says so.
func rehearsedLimit(r *forecast.RehearsalRow) string {
	limit := rehearsedFigure(&r.Limit, r.Unit)
	if r.Of != "" {
		limit = fmt.Sprintf("%.4g of %s", r.Share, r.Of)
	}
	if r.Ask == verdict.AtMost && r.Limit == 0 && r.Unit == verdict.UnitCount {
		return limit
	}
	return asks(r.Ask) + " " + limit
}

// rehearsedFigure is one value in its unit, to four digits; "-" where there is none.
func rehearsedFigure(v *float64, unit string) string {
	if v == nil {
		return "-"
	}
	switch unit {
	case verdict.UnitSeconds:
		return fmt.Sprintf("%.4gs", *v)
	case verdict.UnitRatio:
		return fmt.Sprintf("%.3g%%", 100**v)
	}
	return fmt.Sprintf("%.4g", *v)
}

// shareOfSeeds is a part of the seeds, by its count: a column has one kind of figure, and 100% of 20 is not 100% of 2000.
func shareOfSeeds(p float64, of int64) string {
	return fmt.Sprintf("%s of %s", figures.Count(int64(math.Round(p*float64(of)))), figures.Count(of))
}
