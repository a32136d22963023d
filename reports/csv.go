package reports

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// TakeoversCSV writes one row a takeover trial. Durations are seconds, of a range both ends; an open or unmeasured end is empty.
// docs/gating.md has the columns.
func TakeoversCSV(w io.Writer, r Run) error {
	rows := [][]string{{"experiment", "lock", "key", "class", "fault", "victim", "successor", "end", "censored", "takeover_lo", "takeover_hi",
		"residual_lo", "residual_hi", "pickup_lo", "pickup_hi", "warmup_lo", "warmup_hi", "tick_gap_lo", "tick_gap_hi", "time_scale", "lateness", "tick_lateness"}}
	j := r.Judgement
	for _, t := range j.Takeovers {
		row := texts(j.Run.Experiment, t.Lock, t.Key, t.Class, t.Fault, t.Victim, t.Successor, t.End, strconv.FormatBool(t.Censored))
		for _, of := range []*verdict.Range{total(t), t.Residual, t.Pickup, t.Warmup, t.TickGap} {
			row = append(row, ends(of)...)
		}
		rows = append(rows, append(row, decimal(j.Run.TimeScale), decimal(t.Lateness), decimal(t.TickLateness)))
	}
	return writeCSV(w, rows)
}

// SLOsCSV writes one row an SLO, in the order of the file. Figures are in the row's unit: s, count, ratio or value.
func SLOsCSV(w io.Writer, r Run) error {
	rows := [][]string{{"experiment", "lock", "slo", "verdict", "unit", "limit", "limit_declared", "observed_lo", "observed_hi", "n", "of", "bound", "bound_n", "why", "next", "time_scale", "lateness"}}
	j := r.Judgement
	for _, s := range j.Rows() {
		row := texts(j.Run.Experiment, s.Lock, s.Name(), string(s.Verdict), s.Unit)
		row = append(row, decimal(s.Limit), decimal(s.Declared))
		row = append(row, ends(&verdict.Range{Lo: s.Lo, Hi: s.Hi})...)
		row = append(row, strconv.Itoa(s.N), spreadsheet(s.Of))
		if s.Bound != nil {
			row = append(row, decimal(*s.Bound), strconv.Itoa(s.BoundN))
		} else {
			row = append(row, "", "")
		}
		row = append(row, texts(s.Why, s.Next)...)
		rows = append(rows, append(row, decimal(j.Run.TimeScale), decimal(s.Lateness)))
	}
	return writeCSV(w, rows)
}

func texts(all ...string) []string {
	var cells []string
	for _, s := range all {
		cells = append(cells, spreadsheet(s))
	}
	return cells
}

func ends(r *verdict.Range) []string {
	switch {
	case r == nil:
		return []string{"", ""}
	case r.Hi == nil:
		return []string{decimal(r.Lo), ""}
	}
	return []string{decimal(r.Lo), decimal(*r.Hi)}
}

func decimal(v float64) string {
	if infinite(v) {
		return number(v)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func writeCSV(w io.Writer, rows [][]string) error {
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	return nil
}
