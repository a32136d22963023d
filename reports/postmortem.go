package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// mostMoments bounds the timeline of a post-mortem: sixty kills with their takeovers fit.
const mostMoments = 200

// Postmortem writes the skeleton of a post-mortem: what was measured is filled in, what only people know is left to them and says so.
func Postmortem(w io.Writer, r Run, o Options) error {
	d, err := postmortem(r, o)
	if err != nil {
		return err
	}
	return put(w, "post-mortem", doc.Markdown(d, doc.Full))
}

func postmortem(r Run, o Options) (*doc.Document, error) {
	j := r.Judgement
	word, tone := runWord(j.Verdict)
	d := &doc.Document{Word: doc.Word{Text: "Post-mortem", Tone: tone}, Title: j.Run.Experiment, Lead: []string{"Measured by lockdrill; whatever stands in (brackets) is for people."}}
	told := fmt.Sprintf("%s, %s (exit status %d)", word, tally(j), j.ExitCode)
	if s := scale(j); s != "" {
		told += ", " + s
	}
	if !j.Run.Live {
		told = "REHEARSAL: " + told
	}
	d.Facts = []doc.Item{doc.Of("verdict", told), doc.Of("run", j.Run.ID), doc.Of("when", runText(j.Run)), doc.Of("clean-up", cleanUpText(j)), doc.Of("recorded by", r.Record.Header.Tool),
		doc.Of("full report", o.Report), doc.Of("folder", o.Folder), doc.Of("run again", o.Reproduce), doc.Of("authors", "(names)"), doc.Of("status", "(draft)")}
	unmet := sloTable(j)
	unmet.Rows = slices.DeleteFunc(unmet.Rows, func(r doc.Row) bool { return r.Tone == doc.Good })
	violated := doc.Block{Table: unmet}
	if len(unmet.Rows) == 0 {
		violated = doc.Block{Text: "No SLO was violated."}
	}
	var kept []doc.Item
	for _, s := range held(j) {
		kept = append(kept, doc.Of(s.Lock, s.heldText()))
	}
	moments, err := momentTable(r)
	if err != nil {
		return nil, err
	}
	human := func(p forPeople) doc.Section {
		return doc.Section{ID: p.title, Title: p.title, Blocks: []doc.Block{{Blank: p.hint}}}
	}
	actions := human(pmActions)
	table := &doc.Table{Label: "Actions", Columns: doc.Columns("action", "proposed by", "owner", "due")}
	for _, next := range nextsOf(j) { // for people to take or leave
		table.Row(plainCell(next), plainCell("lockdrill"), doc.Cell{}, doc.Cell{})
	}
	table.Row(plainCell("(action)"), doc.Cell{}, doc.Cell{}, doc.Cell{})
	actions.Blocks = append([]doc.Block{{Table: table}}, actions.Blocks...)
	d.Sections = []doc.Section{
		human(pmSummary),
		{ID: "impact", Title: pmImpact.title + ", as measured", Blocks: slices.Concat(
			[]doc.Block{violated, {Heading: heading(realTimes(j, "Takeovers"), len(j.Takeovers)), Items: seriesItems(seriesOf(j.Takeovers, j.Faults))}, {Items: predictedItems(j)},
				{Heading: "Work", Items: slices.Concat(workItems(j), debtItems(j.Debts), unknownItems(j, ofBoth))}},
			keyBlocks(j), tableBlock(doc.Full, "Duplicates", duplicateTable(j.Duplicates)), []doc.Block{{Blank: pmImpact.hint}})},
		{ID: "held", Title: "What held", Blocks: []doc.Block{{Items: kept}}},
		{ID: "timeline", Title: "Timeline", Blocks: []doc.Block{{Table: moments}}},
		{ID: "left", Title: "Not cleaned up", Blocks: []doc.Block{{Items: leftItems(r.Record, o.Folder)}}},
		{ID: "valid", Title: drillTitle, Blocks: validityBlocks(Run{Judgement: j})},
		{ID: "findings", Title: "Findings: two ways to know the same thing disagree", Blocks: []doc.Block{{Table: findingTable(j)}}},
		human(pmDetection), human(pmCauses), human(pmLuck), actions,
	}
	return d, nil
}

// forPeople is a heading of a post-mortem, and what people are to write below it. That of a game day has the same ones.
type forPeople struct{ title, hint string }

var (
	pmSummary   = forPeople{"Summary", "two sentences: what was tried, what happened, what it means for users"}
	pmImpact    = forPeople{"Impact", "who noticed it, and what it would have cost in production"}
	pmDetection = forPeople{"Detection", "which alert fired, when, and who saw it; which should have"}
	pmCauses    = forPeople{"Root causes", "why the system allowed it"}
	pmLuck      = forPeople{"What went well, what was luck", "what kept it from being worse"}
	pmActions   = forPeople{"Actions", "what is done about it, by whom, until when"}
)

// unmet are the rows that did not pass, the worst first.
func unmet(j *verdict.Judgement) []sloRow {
	return slices.DeleteFunc(rowsOf(j), func(s sloRow) bool { return s.Verdict == verdict.Pass })
}

// held are the rows that passed.
func held(j *verdict.Judgement) []sloRow {
	return slices.DeleteFunc(rowsOf(j), func(s sloRow) bool { return s.Verdict != verdict.Pass })
}

// heldText is a promise that was kept, with what shows it.
func (s sloRow) heldText() string { return s.promise + ": " + s.observed + ", " + s.sample }

// moment is one line of the timeline.
type moment struct {
	ns   int64
	text string
}

// momentTable is the run as a person would retell it: faults, what they led to, and the end.
func momentTable(r Run) (*doc.Table, error) {
	all, err := moments(r)
	if err != nil {
		return nil, err
	}
	t := &doc.Table{Label: "What happened when", Columns: doc.Columns("T+", "UTC", "what"), Most: map[doc.Level]int{doc.Full: mostMoments}, Where: "more moments, see the full report and history.jsonl"}
	started, unknown := time.Parse(time.RFC3339Nano, r.Judgement.Run.Started)
	for _, at := range all {
		wall := ""
		if unknown == nil {
			wall = started.Add(time.Duration(at.ns)).UTC().Format("15:04:05.0")
		}
		t.Row(figureCell(strings.TrimPrefix(figures.Clock(at.ns), "T+")), figureCell(wall), plainCell(at.text))
	}
	return t, nil
}

// moments are the lines of the story that matter afterwards, with the takeovers and duplicates that were concluded from them.
func moments(r Run) ([]moment, error) {
	all := slices.Clone(r.Record.moments)
	var evidence []int64
	for _, t := range r.Judgement.Takeovers {
		evidence = append(evidence, t.Evidence...)
	}
	ends := map[int64]int64{} // instant of an event, by its number
	if err := r.Record.events(evidence, func(e *history.Event) { ends[e.N] = e.To }); err != nil {
		return nil, err
	}
	for _, t := range r.Judgement.Takeovers {
		at := int64(0)
		for _, n := range t.Evidence {
			at = max(at, ends[n])
		}
		text := fmt.Sprintf("takeover of %s after %s: %s", t.Key, cmp.Or(t.Fault, "no fault of the run"), span(t.Lo, t.Hi, verdict.UnitSeconds))
		if t.Censored {
			text += ", not seen to end"
		} else {
			text += " by " + t.Successor
		}
		all = append(all, moment{at, text})
	}
	for _, d := range r.Judgement.Duplicates {
		if len(d.At) > 0 {
			all = append(all, moment{int64(d.At[len(d.At)-1] * 1e9), fmt.Sprintf("job %s has a second terminal state (%s)", d.Job, strings.Join(d.Kinds, ", "))})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.ns, b.ns) })
	return all, nil
}

func matters(e *history.Event) bool {
	switch e.Kind {
	case history.FaultApplied, history.FaultVoid, history.FaultReverted, history.AbandonKind, history.UnownedEnter, history.StoreIncarnation,
		history.ReplicaExit, history.RunAbort, history.RunCleanup, history.RunEnd, history.GapKind:
		return true
	}
	return false
}

// nextsOf are the steps that the verdict proposes, each once.
func nextsOf(j *verdict.Judgement) []string {
	var list []string
	for _, s := range unmet(j) {
		if s.Next != "" && !slices.Contains(list, s.Next) {
			list = append(list, s.Next)
		}
	}
	return list
}
