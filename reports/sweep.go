package reports

import (
	"fmt"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/sweep"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Sweep is what a sweep found: the steps, and a picture of each row. value writes a value of its dial.
func Sweep(s *sweep.Document, value func(float64) string) *doc.Document {
	what := s.Dial
	if s.Lock != "" {
		what += " of lock " + s.Lock
	}
	d := &doc.Document{Word: doc.Word{Text: "SWEEP", Tone: sweptTone(s)}, Title: s.Experiment, Tally: what + " from " + value(s.From) + " to " + value(s.To), Lead: []string{ceilingOf(s, value)},
		Foot: pageFoot("rehearse --sweep"), Styles: timeline.Styles()}
	if s.Live {
		d.Labels = []string{"live"}
	} else {
		d.Labels = []string{"REHEARSAL"}
		d.Lead = append(d.Lead, fmt.Sprintf("Each step is %s in virtual time: it says nothing about a live system.", figures.Plural(s.Seeds, "seed")))
	}
	g := &doc.Table{Label: "The steps", Columns: doc.Columns(s.Dial, "outcome", "nearest to its limit")}
	for i := range s.Steps {
		step := &s.Steps[i]
		word, tone := outcomeWord(step.Outcome)
		g.Rows = append(g.Rows, doc.Row{Cells: []doc.Cell{{Text: value(step.Value), Figure: true}, {Text: word, Tone: tone}, {Text: tightest(step)}},
			Notes: []doc.Item{doc.Of("why", step.Why), doc.Of("run", step.Run)}})
	}
	pictures, level := timeline.Sweep(s, value)
	d.Sections = []doc.Section{{ID: "steps", Title: "The steps", Bare: true, Blocks: []doc.Block{{Table: g}}}, {ID: "rows", Title: "Each promise by " + s.Dial, Blocks: pictured(pictures, level, "at every value")}}
	return d
}

// ceilingOf says how far the dial can be turned.
func ceilingOf(s *sweep.Document, value func(float64) string) string {
	limit := map[sweep.Outcome]string{
		sweep.Broken: "a promise breaks", sweep.Machine: "this machine is too slow to tell", sweep.Undecided: "the promises could not be judged",
	}[s.By]
	switch {
	case s.Holds == nil && s.Breaks == nil:
		return "Nothing was drilled."
	case s.Holds == nil:
		return "No safe value was found: at " + value(*s.Breaks) + " already " + limit + "."
	case s.Breaks == nil:
		return "All promises held up to " + value(*s.Holds) + ", the highest value that was tried: the ceiling is above it."
	}
	return "All promises held at " + value(*s.Holds) + "; at " + value(*s.Breaks) + " " + limit + ". The ceiling lies between."
}

func outcomeWord(o sweep.Outcome) (string, doc.Tone) {
	switch o {
	case sweep.Held:
		return "held", doc.Good
	case sweep.Broken:
		return "BROKEN", doc.Bad
	case sweep.Machine:
		return "machine", doc.Open
	}
	return "undecided", doc.Open
}

// tightest is the row that came nearest to its upper limit, of a step at which all held: of the others is said what broke.
func tightest(step *sweep.Step) string {
	if step.Outcome != sweep.Held {
		return ""
	}
	var n nearest
	for _, r := range step.Rows {
		if r.Lo != nil && r.Ask == verdict.AtMost {
			n.note(r.Lock+" "+verdict.MeasureWords(r.Measure)+", ", r.Unit, verdict.Range{Lo: *r.Lo, Hi: r.Hi}, r.Limit)
		}
	}
	return n.text
}

// nearest is the row that came nearest to its upper limit, or went furthest beyond.
type nearest struct {
	text string
	by   float64
}

func (n *nearest) note(row, unit string, measured verdict.Range, limit float64) {
	most := measured.Lo
	if measured.Hi != nil {
		most = *measured.Hi
	}
	if by := most / limit; limit > 0 && (n.text == "" || by > n.by) {
		n.by, n.text = by, row+rehearsedFigure(&most, unit)+" of "+rehearsedFigure(&limit, unit)
	}
}

func sweptTone(s *sweep.Document) doc.Tone {
	switch {
	case s.Holds == nil && s.By == sweep.Broken:
		return doc.Bad
	case s.Holds == nil:
		return doc.Open
	}
	return doc.Good
}
