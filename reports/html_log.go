package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

const mostEvents = 1000 // lines of the event log

// logged is one line of the event log.
type logged struct {
	n         int64
	who, what string
	at        int64
	rank      int // evident, ofTheRun, ofReplicas
}

// logBlocks is the event log: all that the page points at, and as much of the story as fits.
func logBlocks(r *Record, cited map[int64]bool, most int) ([]doc.Block, error) {
	lines, all, err := logLines(r, cited)
	if err != nil {
		return nil, err
	}
	kept := fitting(lines, most)
	text := fmt.Sprintf("%s of the %s in history.jsonl: each that this page points at, and the story of the run", figures.Count(len(kept)), figures.Plural(r.count, "event"))
	if len(kept) < all {
		text += fmt.Sprintf(", capped: %s left out, those of replicas first", figures.Plural(all-len(kept), "line"))
	}
	g := &doc.Table{Label: "Event log", Columns: doc.Columns("event", "time", "who", "what"), Log: true}
	for _, l := range kept {
		g.Rows = append(g.Rows, doc.Row{ID: fmt.Sprintf("e%d", l.n), Cells: []doc.Cell{figureCell(strconv.FormatInt(l.n, 10)), figureCell(fmt.Sprintf("T+%.3fs", float64(l.at)/1e9)), codeCell(l.who), plainCell(l.what)}})
	}
	return []doc.Block{{Text: text + ".", Quiet: true}, {Fold: "Show the " + figures.Plural(len(kept), "line"), Table: g}}, nil
}

// logLines are those of the story that are kept, and of the evidence. all counts those that are not kept, too.
func logLines(r *Record, cited map[int64]bool) (lines []logged, all int, err error) {
	lines, all = slices.Clone(r.told), r.lines
	seen := map[int64]bool{}
	for i := range lines {
		if l := &lines[i]; cited[l.n] {
			l.rank, seen[l.n] = evident, true
		}
	}
	var missing []int64
	for n := range cited {
		if !seen[n] {
			missing = append(missing, n)
		}
	}
	err = r.events(missing, func(e *history.Event) {
		l, new := r.again(e)
		if lines = append(lines, l); new {
			all++
		}
	})
	slices.SortFunc(lines, func(a, b logged) int { return cmp.Compare(a.n, b.n) })
	return lines, all, err
}

// fitting keeps all evidence, and of the rest the most important lines.
func fitting(lines []logged, most int) []logged {
	keep := map[int64]bool{}
	for rank := range ofReplicas + 1 {
		for _, l := range lines {
			if l.rank == rank && (rank == evident || most > 0) {
				keep[l.n] = true
				if rank > evident {
					most--
				}
			}
		}
	}
	return slices.DeleteFunc(lines, func(l logged) bool { return !keep[l.n] })
}

// eventText says what an event records, for those that are no news of the story.
func eventText(e *history.Event) string {
	var parts []string
	add := func(format string, args ...any) {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
	if e.Key != "" {
		add("%s", doc.Shorten(e.Key, doc.LongName))
	}
	if e.Outcome != "" {
		add("%s", e.Outcome)
	}
	if e.Fence != 0 {
		add("fence %d", e.Fence)
	}
	switch {
	case e.Call != nil:
		callText(e.Call, add)
	case e.Entry != nil:
		answer := "accepted"
		if !e.Entry.Accepted {
			answer = "refused"
		}
		add("state %q of %s, position %d, %s %s", e.Entry.State, doc.Shorten(e.Entry.Subject, doc.LongName), e.Entry.Pos, answer, e.Entry.Reason)
	case e.Write != nil:
		add("state %q of %s %s", e.Write.State, doc.Shorten(e.Write.Subject, doc.LongName), e.Write.Reason)
	case e.Work != nil:
		add("%s %s", doc.Shorten(e.Work.Subject, doc.LongName), e.Work.Why)
	case e.Abandon != nil:
		add("%s", e.Abandon.Reason)
	case e.Job != nil:
		add("job %s %s%s", doc.Shorten(e.Job.ID, doc.LongName), e.Job.Ack, e.Job.To)
	case e.Look != nil && e.Look.Present:
		add("present, %s left", figures.Short(e.Look.PTTL))
	case e.Look != nil:
		add("absent")
	case e.Replica != nil:
		add("%s %s", e.Replica.Incarnation, e.Replica.Exit)
	case e.Sample != nil:
		add("metric %s of %s: %d series %s", e.Sample.Metric, e.Sample.Target, len(e.Sample.Values), because(cmp.Or(e.Sample.Gone, e.Sample.Partial), e.Sample.Why))
	case e.Unread != nil:
		add("%s of %s, %s", figures.Plural(e.Unread.Count, "record"), e.Unread.Source, because(string(e.Unread.Reason), doc.Shorten(e.Unread.Detail, doc.LongName)))
	case e.Belief != nil:
		add("%s %s", cmp.Or(e.Belief.Incarnation, e.Belief.Named), cmp.Or(e.Belief.Gone, map[bool]string{true: "leads", false: "does not lead"}[e.Belief.Holds]))
	case e.Fault != nil:
		add("%s %s", e.Op, because(string(e.Fault.Why), e.Fault.Detail))
	case e.Note != nil:
		add("%s", because(e.Note.What, e.Note.Why))
	case e.Coverage != nil:
		add("%s, %s", e.Coverage.Probe, figures.Plural(e.Coverage.Samples, "sample"))
	}
	return string(e.Kind) + " " + strings.Join(parts, ", ")
}

func callText(c *history.Call, add func(string, ...any)) {
	if c.Result != "" {
		add("%s", c.Result)
	}
	if c.PTTL > 0 {
		add("the holder has %s left", figures.Short(c.PTTL))
	}
	if c.Err != "" {
		add("%s", doc.Shorten(c.Err, doc.LongText))
	}
	if c.Fault != "" {
		add("made to fail by %s", c.Fault)
	}
	if c.Why != "" {
		add("%s", c.Why)
	}
}
