package reports

import (
	"fmt"
	"io"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/sweep"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Sweep writes what a sweep found. value writes a value of its dial. Of o only Width and Color count.
func Sweep(w io.Writer, s *sweep.Document, value func(float64) string, o Options) error {
	p := newPage(o)
	p.flow(0, 2, strings.Join(sweptHead(p.paint(bold, "SWEEP"), s, value), "  "))
	p.flow(2, 2, ceilingOf(s, value))
	p.blank()
	t := table{indent: 2}
	for i := range s.Steps {
		step := &s.Steps[i]
		word, ink := outcomeWord(step.Outcome)
		near := tightest(step)
		if near != "" {
			near = "nearest to its limit: " + doc.Clean(near)
		}
		t.row(cell{value(step.Value), plain}, cell{word, ink}, cell{near, plain})
		t.note("why", doc.Clean(step.Why))
		t.note("run", doc.Clean(step.Run))
	}
	p.table(t)
	return p.to(w, "sweep")
}

func sweptHead(word string, s *sweep.Document, value func(float64) string) []string {
	what := s.Dial
	if s.Lock != "" {
		what += " of lock " + doc.Clean(s.Lock)
	}
	how := "live"
	if !s.Live {
		how = fmt.Sprintf("REHEARSED with %s a step: it says nothing about a live system", figures.Plural(s.Seeds, "seed"))
	}
	return []string{word, doc.Clean(s.Experiment), what + " from " + value(s.From) + " to " + value(s.To), how}
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

func outcomeWord(o sweep.Outcome) (string, ink) {
	switch o {
	case sweep.Held:
		return "held", green
	case sweep.Broken:
		return "BROKEN", red
	case sweep.Machine:
		return "machine", yellow
	}
	return "undecided", yellow
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

// SweepPage writes the page of a sweep: what was found, a picture of each row, and the steps.
func SweepPage(w io.Writer, s *sweep.Document, value func(float64) string) error {
	head := sweptHead("SWEEP", s, value)
	page := &Page{Word: head[0], Class: sweptClass(s), Title: s.Experiment, Tally: head[2], Sentences: []string{ceilingOf(s, value)},
		Note: "This page needs no network. lockdrill sweep -o json gives the same as data."}
	if !s.Live {
		page.Labels = []string{"REHEARSAL"}
	}
	var pictures []Block
	for _, p := range timeline.Sweep(s, value) {
		pictures = append(pictures, Block{Figure: figureOf(p)})
	}
	columns := []string{s.Dial, "outcome", "nearest to its limit", "why"}
	if s.Live {
		columns = append(columns, "run")
	}
	steps := tableOf("The steps", columns, s.Steps, func(step sweep.Step) []Cell {
		word, ink := outcomeWord(step.Outcome)
		cells := []Cell{figureCell(value(step.Value)), {Text: word, Class: classOf(ink)}, plainCell(tightest(&step)), plainCell(step.Why)}
		if s.Live {
			cells = append(cells, codeCell(step.Run))
		}
		return cells
	})
	page.Sections = []Section{{"steps", "The steps", "", []Block{{Table: steps}}}, {"rows", "Each promise by " + s.Dial, "", pictures}}
	return page.Write(w)
}

func sweptClass(s *sweep.Document) string {
	switch {
	case s.Holds == nil && s.By == sweep.Broken:
		return classOf(red)
	case s.Holds == nil:
		return classOf(yellow)
	}
	return classOf(green)
}
