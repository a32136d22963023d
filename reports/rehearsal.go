package reports

import (
	"fmt"
	"io"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Rehearsal writes what many rehearsals showed. again is the command that a seed's number completes. Of o only Width and Color count.
func Rehearsal(w io.Writer, r *forecast.Rehearsal, again string, o Options) error {
	p := newPage(o)
	p.line(p.paint(bold, "REHEARSAL") + "  in virtual time: it answers no SLO of a live system")
	p.flow(2, 2, fmt.Sprintf("%s, %s, with %d replicas at the durations of the file", r.Experiment, figures.Plural(r.Seeds, "simulated run"), r.Replicas))
	p.blank()
	table := [][]string{{"LOCK", "MEASURE", "LIMIT", "MIN", "MEDIAN", "P95", "P99", "MAX", "BREACH"}}
	for _, row := range r.Rows {
		cells := []string{row.Lock, row.Measure, rehearsedLimit(&row)}
		for _, v := range []*float64{row.Min, row.Median, row.P95, row.P99, row.Max} {
			cells = append(cells, rehearsedFigure(v, row.Unit))
		}
		breach := shareOfSeeds(row.Breach, r.Seeds)
		if row.Seeds == 0 { // no data is no "never"
			breach = "-"
		}
		table = append(table, append(cells, breach))
	}
	p.aligned(table)
	for _, row := range r.Rows {
		if row.Seeds == 0 {
			p.flow(2, 2, fmt.Sprintf("%s %s: no simulated run measured it, because no fault hit a lock holder or it shows only in a live run", row.Lock, row.Measure))
		} else if row.Open > 0 {
			p.flow(2, 2, fmt.Sprintf("%s %s: the end was not seen in %s, which count with what was seen", row.Lock, row.Measure, figures.Plural(row.Open, "simulated run")))
		}
	}
	p.rehearsedExpectations(r, again)
	p.lockSums(r.Locks, r.Seeds)
	p.blank()
	if s := r.Worst; s != nil {
		p.flow(2, 2, fmt.Sprintf("Worst: seed %d with %s %s %s, limit %s. To see it: %s %d",
			s.Seed, s.Lock, s.Measure, rehearsedFigure(&s.Value, s.Unit), rehearsedFigure(&s.Limit, s.Unit), again, s.Seed))
	}
	p.flow(2, 2, fmt.Sprintf("Simulated runs that broke any limit: %s. Percentiles are over the runs, to %.1f%%; each run counts with the middle of its range.",
		shareOfSeeds(r.Breach, r.Seeds), 100*r.Resolution))
	return p.to(w, "rehearsal")
}

// rehearsedExpectations says what the faults provoked, and in which seed one did not.
func (p *page) rehearsedExpectations(r *forecast.Rehearsal, again string) {
	for _, x := range r.Expected {
		what := fmt.Sprintf("Expected: %s provokes %s %s", x.Fault, x.Lock, rehearsedAsk(&x))
		if x.Missed == 0 {
			p.flow(2, 4, fmt.Sprintf("%s: in each of %s", what, figures.Plural(r.Seeds, "simulated run")))
			continue
		}
		p.flow(2, 4, fmt.Sprintf("%s: not in %s of %s. Seed %d: %s. To see it: %s %d", what, figures.Count(x.Missed), figures.Plural(r.Seeds, "simulated run"), x.Seed, x.Why, again, x.Seed))
	}
}

// rehearsedAsk is what an expectation asks for.
func rehearsedAsk(x *forecast.RehearsedExpectation) string {
	return verdict.MeasureWords(x.Measure) + " " + asks(x.Ask) + " " + rehearsedFigure(&x.Limit, x.Unit)
}

// rehearsedLimit is the limit of a row: a lower one, and a share of what another lock had, say so.
func rehearsedLimit(r *forecast.RehearsalRow) string {
	limit := rehearsedFigure(&r.Limit, r.Unit)
	if r.Of != "" {
		limit = fmt.Sprintf("%.4g of %s", r.Share, r.Of)
	}
	if r.Ask == verdict.AtMost {
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

// shareOfSeeds is a part of the seeds, in percent; what is not 0 does not look like it.
func shareOfSeeds(p float64, of int64) string {
	switch {
	case p == 0:
		return fmt.Sprintf("0 of %d", of)
	case p < 0.001:
		return "< 0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*p)
}

// aligned writes the cells of a table: the first two to the left, figures to the right.
func (p *page) aligned(table [][]string) {
	width := make([]int, len(table[0]))
	for _, row := range table {
		for i, c := range row {
			width[i] = max(width[i], len(c))
		}
	}
	for _, row := range table {
		line := "  "
		for i, c := range row {
			if i < 2 {
				line += fmt.Sprintf("%-*s  ", width[i], c)
			} else {
				line += fmt.Sprintf("%*s  ", width[i], c)
			}
		}
		p.line(line)
	}
}
