package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// mostOfLabel bounds the texts below one label: a fault that never finds its target tries many times.
const mostOfLabel = 6

// validityBlocks answer whether the drill itself can be believed. A chat has no room for single shots, and what is void stands above.
func validityBlocks(r Run) []doc.Block {
	j := r.Judgement
	var list []doc.Item
	for _, i := range validityItems(j) {
		if last := len(list) - 1; last >= 0 && i.Label == list[last].Label {
			list[last].Texts = append(list[last].Texts, i.Texts...)
		} else {
			list = append(list, i)
		}
	}
	for i := range list {
		if slices.Contains([]string{"void", "confirmed"}, list[i].Label) {
			list[i].Least = doc.Full
		}
		if more := len(list[i].Texts) - mostOfLabel; more > 0 {
			list[i].Texts = append(list[i].Texts[:mostOfLabel:mostOfLabel], fmt.Sprintf("and %s more: see What was done", figures.Count(more)))
		}
	}
	if r.Lanes != nil {
		list = append(list, calledItems(r.Lanes)...)
	}
	return []doc.Block{{Items: list}, {Heading: heading("Warnings", len(j.Warnings)), List: firstWarnings(j.Warnings), Least: doc.Full}}
}

// firstWarnings are the first warnings, and how many more there are.
func firstWarnings(warnings []string) []string {
	if more := len(warnings) - mostRemarks; more > 0 {
		return append(warnings[:mostRemarks:mostRemarks], "and "+figures.Plural(more, "more warning")+" in verdict.json")
	}
	return warnings
}

// heading is text where there are n things below it.
func heading(text string, n int) string {
	if n == 0 {
		return ""
	}
	return text
}

// doneBlocks are what the run did, and on what.
func doneBlocks(r Run) ([]doc.Block, error) {
	file, err := experiments.Marshal(r.Experiment)
	if err != nil {
		return nil, fmt.Errorf("show the experiment: %w", err)
	}
	blocks := []doc.Block{{Items: stoodOn(r.Record)}}
	if g := shotTable(r); g != nil {
		blocks = append(blocks, doc.Block{Heading: "Faults and their victims", Table: g})
	} else {
		blocks = append(blocks, doc.Block{Text: "No fault was fired."})
	}
	return append(blocks, doc.Block{Heading: "The experiment", Fold: "Show the file as it was resolved: defaults filled in, secrets out", Code: string(file)}), nil
}

// stoodOn is what the run stood on.
func stoodOn(r *Record) []doc.Item {
	var list []doc.Item
	for _, e := range r.done {
		switch {
		case e.Environment != nil:
			list = append(list, doc.Of("stores and fleet", environment(e.Environment)))
		case e.Calibration != nil:
			list = append(list, doc.Of("calibration", calibration(e.Calibration)))
		}
	}
	return list
}

func shotTable(r Run) *doc.Table {
	events := map[string][]int64{}
	for _, e := range r.Record.done {
		if e.Fault != nil {
			events[e.Op] = append(events[e.Op], e.N)
		}
	}
	return tableOf("Each shot of each fault", "shot,what,victim,key,declared,in effect,result", r.Judgement.Faults,
		func(f verdict.FaultResult) ([]doc.Cell, []int64) {
			name := shotName(f)
			result := doc.Cell{Text: "confirmed", Tone: doc.Good}
			switch {
			case f.Void:
				result = doc.Cell{Text: "VOID: " + f.Why, Tone: doc.Open}
			case !f.Confirmed:
				result = doc.Cell{Text: "NOT confirmed: " + f.Why, Tone: doc.Open}
			}
			if seen := measuredIn(f); seen != "" && f.Confirmed {
				result.Text += ": " + seen
			}
			declared := "when settled"
			if f.Declared != nil {
				declared = window(f.Declared)
			}
			effect := "–"
			if f.Effective != nil {
				effect = window(f.Effective)
			}
			return []doc.Cell{figureCell(name), plainCell(faultName(f)), plainCell(targets(specOf(f).Traits(), f.Victim, f.Victims)), codeCell(f.Key),
				figureCell(declared), figureCell(effect), result}, events[name]
		})
}

// cleanUpBlocks are the record of what was undone and of what ended.
func cleanUpBlocks(r Run) []doc.Block {
	g := &doc.Table{Label: "Clean-up record", Columns: doc.Columns("time", "what", "result")}
	undone, more := 0, 0
	for _, e := range r.Record.done {
		what, ok := ended(e)
		if what == "" {
			continue
		}
		if e.Fault != nil {
			if undone++; undone > rowsOfTable {
				more++
				continue
			}
		}
		result := doc.Cell{Text: "verified", Tone: doc.Good}
		if !ok {
			result = doc.Cell{Text: strings.TrimSuffix("NOT verified: "+e.Note.Why, ": "), Tone: doc.Bad}
		}
		g.Rows = append(g.Rows, doc.Row{Cells: []doc.Cell{figureCell(figures.Clock(e.To)), plainCell(what), result}, Refs: []int64{e.N}})
	}
	if more > 0 {
		g.Left, g.Where = more, "faults of which nothing is left; undo.jsonl has them all"
	}
	if len(g.Rows) == 0 {
		return []doc.Block{{Items: []doc.Item{doc.Of("clean-up", cleanUpText(r.Judgement))}}}
	}
	return []doc.Block{{Table: g}}
}

// ended is what an event says to have been undone or ended, and whether that was read back; "" for any other event.
func ended(e *history.Event) (what string, ok bool) {
	switch {
	case e.Kind == history.FaultVerified:
		return "fault " + e.Op + ": nothing of it is left", true
	case e.Kind == history.RunCleanup:
		return e.Note.What, e.Note.OK
	case e.Kind == history.RunEnd && e.Note.OK:
		return "end of the run: " + e.Note.What + ", nothing left behind", true
	case e.Kind == history.RunEnd:
		return "end of the run: " + e.Note.What, false
	}
	return "", false
}

// Again is the command that runs it again from that file, with the consent that a run of it needs.
func Again(r Run, file string) string {
	if !r.Judgement.Run.Live {
		return fmt.Sprintf("lockdrill rehearse %s --replay %d", file, r.Judgement.Run.Seed)
	}
	again := fmt.Sprintf("lockdrill run %s --seed %d", file, r.Judgement.Run.Seed)
	if len(r.Experiment.Foreign()) > 0 {
		again += " --environment " + r.Experiment.Environment + " --confirm " + r.Experiment.Name // the target may not say what it is
	}
	return again
}

// reproduceBlocks are how to get the run, and this page, again.
func reproduceBlocks(r Run) []doc.Block {
	h := r.Record.Header
	note := "The seed fixes every choice of the run. Real time brings its own: figures of another run differ, its verdict should not."
	if h.Mode == history.Rehearsal {
		note = "A rehearsal with the same seed is the same, byte for byte."
	}
	return []doc.Block{
		{Text: "In the folder of the run:"},
		{Code: Again(r, "experiment.yaml") + "\nlockdrill judge .\n"},
		{Items: []doc.Item{
			doc.Of("run", h.Run),
			doc.Of("tool", h.Tool),
			doc.Of("seed", fmt.Sprint(h.Seed)),
			doc.Of("experiment", h.Digest),
			doc.Of("time scale", factor(h.TimeScale)),
			doc.Of("formats", fmt.Sprintf("history %d, verdict %d", h.Schema, r.Judgement.SchemaVersion)),
			doc.Of("recorded", h.Recorded),
			doc.Of("post-mortem", "lockdrill judge . -f postmortem-md writes one with what was measured filled in"),
		}},
		{Text: note, Quiet: true},
	}
}
