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
	j := r.Judgement
	m := &md{}
	m.line("# Post-mortem: %s\n", doc.Escape(j.Run.Experiment))
	m.line("Measured by lockdrill; whatever stands in _(brackets)_ is for people.\n")
	m.facts(r, o)
	m.human(pmSummary)
	m.impact(j)
	m.shown(j)
	if err := m.timeline(r); err != nil {
		return err
	}
	m.section("Not cleaned up", leftItems(r.Record, o.Folder))
	m.section(drillTitle, validityItems(j))
	m.remarks(j)
	m.human(pmDetection)
	m.human(pmCauses)
	m.human(pmLuck)
	m.actions(j)
	return m.to(w, "post-mortem")
}

// forPeople is a heading of a post-mortem, and what people are to write below it. The page has the same ones.
type forPeople struct{ title, hint string }

var (
	pmSummary   = forPeople{"Summary", "two sentences: what was tried, what happened, what it means for users"}
	pmImpact    = forPeople{"Impact", "who noticed it, and what it would have cost in production"}
	pmDetection = forPeople{"Detection", "which alert fired, when, and who saw it; which should have"}
	pmCauses    = forPeople{"Root causes", "why the system allowed it"}
	pmLuck      = forPeople{"What went well, what was luck", "what kept it from being worse"}
	pmActions   = forPeople{"Actions", "what is done about it, by whom, until when"}
)

// human is a heading with nothing below it but its hint.
func (m *md) human(p forPeople) {
	m.line("\n## %s\n", p.title)
	m.line("_(%s)_", p.hint)
}

func (m *md) facts(r Run, o Options) {
	j := r.Judgement
	word, _ := runWord(j.Verdict)
	verdict := fmt.Sprintf("%s, %s (exit status %d)", word, tally(j), j.ExitCode)
	if s := scale(j); s != "" {
		verdict += ", " + s
	}
	if !j.Run.Live {
		verdict = "REHEARSAL: " + verdict
	}
	m.table("", "")
	for _, i := range []item{
		{"verdict", doc.Escape(verdict)},
		{"run", doc.Escape(j.Run.ID)},
		{"when", doc.Escape(runText(j.Run))},
		{"recorded by", doc.Escape(r.Record.Header.Tool)},
		{"full report", inRow(doc.Code(o.Report))},
		{"folder", inRow(doc.Code(o.Folder))},
		{"run again", inRow(doc.Code(o.Reproduce))},
		{"authors", "_(names)_"},
		{"status", "_(draft)_"},
	} {
		if i.Text != "" {
			m.row(i.Label, i.Text)
		}
	}
}

// inRow keeps the bars of a code span from ending the cell of a table that it stands in.
func inRow(span string) string { return strings.ReplaceAll(span, "|", "\\|") }

// impact is what failed, and what the faults cost besides, as far as it was measured.
func (m *md) impact(j *verdict.Judgement) {
	m.line("\n## %s, as measured\n", pmImpact.title)
	m.violated(j)
	m.section("Takeovers", takeoverItems(j))
	work := workItems(j)
	for _, i := range keyItems(j) {
		work = append(work, item{i.Label, listed(i.Text)})
	}
	m.section("Work", append(work, unknownItems(j, ofBoth)...))
	var list []item
	for _, d := range j.Duplicates {
		list = append(list, item{"duplicate", fmt.Sprintf("job %s of lock %s: %s too many (%s), by %s",
			d.Job, d.Lock, figures.Plural(d.Extra, "terminal state"), strings.Join(d.Kinds, ", "), strings.Join(d.Writers(), ", "))})
	}
	m.section("Duplicates", cut(list))
	m.line("\n_(%s)_", pmImpact.hint)
}

// cut bounds a list, and says so.
func cut(list []item) []item {
	const most = 20
	if more := len(list) - most; more > 0 {
		list = append(list[:most:most], item{"besides", fmt.Sprintf("%s more, see verdict.json", figures.Count(more))})
	}
	return list
}

func (m *md) violated(j *verdict.Judgement) {
	rows := unmet(j)
	if len(rows) == 0 {
		m.line("No SLO was violated.")
	}
	for _, s := range rows {
		m.line("- **%s** %s, %s: %s, %s", s.word, doc.Escape(s.Lock), doc.Escape(s.promise), doc.Escape(s.observed), doc.Escape(s.sample))
		for _, i := range s.explained() {
			m.line("  - %s: %s", i.Label, doc.Escape(i.Text))
		}
	}
}

// unmet are the rows that did not pass, the worst first.
func unmet(j *verdict.Judgement) []sloRow {
	return slices.DeleteFunc(rowsOf(j), func(s sloRow) bool { return s.Verdict == verdict.Pass })
}

func (m *md) shown(j *verdict.Judgement) {
	var list []item
	for _, s := range held(j) {
		list = append(list, item{s.Lock, s.heldText()})
	}
	m.section("What held", list)
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

// timeline is the run as a person would retell it: faults, what they led to, and the end.
func (m *md) timeline(r Run) error {
	all, err := moments(r)
	if err != nil {
		return err
	}
	m.line("\n## Timeline\n")
	m.table("T+", "UTC", "what")
	started, unknown := time.Parse(time.RFC3339Nano, r.Judgement.Run.Started)
	for _, at := range all[:min(len(all), mostMoments)] {
		wall := ""
		if unknown == nil {
			wall = started.Add(time.Duration(at.ns)).UTC().Format("15:04:05.0")
		}
		m.row(strings.TrimPrefix(figures.Clock(at.ns), "T+"), wall, doc.Escape(at.text))
	}
	if more := len(all) - mostMoments; more > 0 {
		m.line("\nand %s: see the full report and history.jsonl", figures.Plural(more, "more moment"))
	}
	return nil
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

// actions are what the verdict proposes, for people to take or leave.
func (m *md) actions(j *verdict.Judgement) {
	m.line("\n## %s\n", pmActions.title)
	m.table("action", "proposed by", "owner", "due")
	for _, next := range nextsOf(j) {
		m.row(doc.Escape(next), "lockdrill", "", "")
	}
	m.row("_(action)_", "", "", "")
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
