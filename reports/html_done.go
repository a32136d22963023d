package reports

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// mostOfLabel bounds the texts below one label: a fault that never finds its target tries many times.
const mostOfLabel = 6

// validityBlocks answer whether the drill itself can be believed.
func validityBlocks(r Run) []Block {
	j := r.Judgement
	items := labelledOf(validityItems(j))
	for i := range items {
		if more := len(items[i].Texts) - mostOfLabel; more > 0 {
			items[i].Texts = append(items[i].Texts[:mostOfLabel:mostOfLabel], fmt.Sprintf("and %s more: see What was done", figures.Count(more)))
		}
	}
	blocks := []Block{{Items: items}}
	if len(j.Findings) > 0 {
		blocks = append(blocks, Block{Heading: "Findings", List: findingTexts(j)})
	}
	if len(j.Warnings) > 0 {
		blocks = append(blocks, Block{Heading: "Warnings", List: first(j.Warnings, rowsOfTable)})
	}
	return blocks
}

func findingTexts(j *verdict.Judgement) []string {
	var list []string
	for _, f := range first(j.Findings, rowsOfTable) {
		list = append(list, findingText(f))
	}
	return list
}

// doneBlocks are what the run did, and on what.
func doneBlocks(r Run, ev *evidence) ([]Block, error) {
	file, err := experiments.Marshal(r.Experiment)
	if err != nil {
		return nil, fmt.Errorf("show the experiment: %w", err)
	}
	blocks := []Block{itemBlock("", append(stoodOn(r.Record), calledItems(r.Lanes)...))}
	if g := shotTable(r, ev); g != nil {
		blocks = append(blocks, Block{Heading: "Faults and their victims", Table: g})
	} else {
		blocks = append(blocks, Block{Text: "No fault was fired."})
	}
	return append(blocks, Block{Heading: "The experiment", Fold: &fold{"Show the file as it was resolved: defaults filled in, secrets out", []Block{{Code: string(file)}}}}), nil
}

// stoodOn is what the run stood on.
func stoodOn(r *Record) []item {
	var list []item
	for _, e := range r.done {
		switch {
		case e.Environment != nil:
			list = append(list, item{"stores and fleet", environment(e.Environment)})
		case e.Calibration != nil:
			list = append(list, item{"calibration", calibration(e.Calibration)})
		}
	}
	return list
}

func shotTable(r Run, ev *evidence) *Table {
	events := map[string][]int64{}
	for _, e := range r.Record.done {
		if e.Fault != nil {
			events[e.Op] = append(events[e.Op], e.N)
		}
	}
	return tableOf("Each shot of each fault", []string{"shot", "what", "victim", "key", "declared", "in effect", "result", "events"}, r.Judgement.Faults,
		func(f verdict.FaultResult) []Cell {
			name := shotName(f)
			result := Cell{Text: "confirmed", Class: "pass"}
			switch {
			case f.Void:
				result = Cell{Text: "VOID: " + f.Why, Class: "open"}
			case !f.Confirmed:
				result = Cell{Text: "NOT confirmed: " + f.Why, Class: "open"}
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
			return []Cell{figureCell(doc.Shorten(name, doc.LongName)), plainCell(faultName(f)), plainCell(targets(specOf(f).Traits(), f.Victim, f.Victims)), codeCell(f.Key),
				figureCell(declared), figureCell(effect), result, ev.cell(events[name])}
		})
}

// cleanUpBlocks are the record of what was undone and of what ended.
func cleanUpBlocks(r Run, ev *evidence) []Block {
	g := &Table{Label: "Clean-up record", Columns: []string{"time", "what", "result", "events"}}
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
		result := Cell{Text: "verified", Class: "pass"}
		if !ok {
			result = Cell{Text: strings.TrimSuffix("NOT verified: "+e.Note.Why, ": "), Class: "fail"}
		}
		g.row(figureCell(figures.Clock(e.To)), plainCell(what), result, ev.cell([]int64{e.N}))
	}
	if more > 0 {
		g.left, g.where = more, "faults of which nothing is left; undo.jsonl has them all"
	}
	blocks := []Block{itemBlock("", []item{{"clean-up", cleanUpText(r.Judgement)}})}
	if len(g.Rows) > 0 {
		blocks = append(blocks, Block{Table: g})
	}
	return blocks
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
		again += " --confirm " + r.Experiment.Name
	}
	return again
}

// reproduceBlocks are how to get the run, and this page, again.
func reproduceBlocks(r Run) []Block {
	h := r.Record.Header
	note := "The seed fixes every choice of the run. Real time brings its own: figures of another run differ, its verdict should not."
	if h.Mode == history.Rehearsal {
		note = "A rehearsal with the same seed is the same, byte for byte."
	}
	return []Block{
		{Text: "In the folder of the run:"},
		{Code: Again(r, "experiment.yaml") + "\nlockdrill judge .\n"},
		itemBlock("", []item{
			{"run", h.Run},
			{"tool", h.Tool},
			{"seed", fmt.Sprint(h.Seed)},
			{"experiment", h.Digest},
			{"time scale", factor(h.TimeScale)},
			{"formats", fmt.Sprintf("history %d, verdict %d", h.Schema, r.Judgement.SchemaVersion)},
			{"recorded", h.Recorded},
		}),
		{Muted: note},
	}
}
