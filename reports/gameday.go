package reports

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/gameday"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Titles of the parts of a game day's report: page and text have the same ones.
const (
	daySteps    = "Steps"
	dayWindows  = "Takeover windows: declared against measured"
	dayFigures  = "Other figures of all drills"
	dayNotes    = "Observations"
	dayAfter    = "Post-mortem"
	reportOfRun = "report.html"
)

// dayTables are the steps, the figures and the observations.
func dayTables(g *gameday.Document) []*doc.Table {
	steps := &doc.Table{ID: "steps", Label: daySteps, Columns: []doc.Column{{Name: "step"}, {Name: "what", Head: true}, {Name: "outcome"}, {Name: "verdict"}, {Name: "when"}, {Name: "by"}}}
	for i := range g.Steps {
		s := &g.Steps[i]
		what := doc.Cell{Text: s.Name + ": " + s.Drill + s.Manual}
		if s.Judged != nil {
			what.Link = path.Join(s.Folder, reportOfRun)
		}
		word := doc.Cell{}
		if s.Verdict != "" {
			text, tone := runWord(s.Verdict)
			word = doc.Cell{Text: text, Tone: tone}
		}
		outcome := doc.Cell{Text: s.Outcome}
		if s.Note != "" {
			outcome.Text += ": " + s.Note
		}
		if s.Outcome != gameday.StepDone {
			outcome.Tone = doc.Open
		}
		if n := len(s.Aborted); n > 0 {
			outcome.Text += fmt.Sprintf(", %s cut off before", figures.Plural(n, "attempt"))
		}
		steps.Row(doc.Cell{Text: fmt.Sprint(s.N), Figure: true}, what, outcome, word, doc.Cell{Text: startOf(s.Started), Figure: true}, doc.Cell{Text: s.Who})
	}
	columns := doc.Columns("step", "lock", "promise", "measured", "from", "verdict")
	windows, others := &doc.Table{ID: "windows", Label: dayWindows, Columns: columns}, &doc.Table{ID: "figures", Label: dayFigures, Columns: columns}
	for _, f := range g.Figures {
		r := rowOf(f.SLOResult, &verdict.Judgement{Run: verdict.RunInfo{TimeScale: f.TimeScale}})
		to := others
		if f.Fault == "" && strings.HasPrefix(f.Measure, "takeover") {
			to = windows
		}
		to.Row(doc.Cell{Text: fmt.Sprint(f.Step), Figure: true}, doc.Cell{Text: r.Lock}, doc.Cell{Text: r.promise}, doc.Cell{Text: r.observed, Figure: true}, doc.Cell{Text: r.sample},
			doc.Cell{Text: r.word, Tone: r.tone})
	}
	notes := &doc.Table{ID: "observations", Label: dayNotes, Columns: doc.Columns("when", "who", "step", "observation")}
	for _, o := range g.Observations {
		step := ""
		if o.Step > 0 {
			step = fmt.Sprint(o.Step)
		}
		notes.Row(doc.Cell{Text: startOf(o.At), Figure: true}, doc.Cell{Text: o.Who}, doc.Cell{Text: step}, doc.Cell{Text: o.Text})
	}
	return []*doc.Table{steps, windows, others, notes}
}

// dayTally counts the steps by how they ended.
func dayTally(g *gameday.Document) string {
	counts := map[string]int{}
	for _, s := range g.Steps {
		counts[s.Outcome]++
	}
	var parts []string
	for _, o := range []string{gameday.StepDone, gameday.StepSkipped, gameday.StepAborted, gameday.StepNotRun} {
		if n := counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return figures.Plural(len(g.Steps), "step") + ": " + strings.Join(parts, ", ")
}

// dayFacts are what the sheet says, and how the day ended.
func dayFacts(g *gameday.Document) []doc.Item {
	list := []doc.Item{doc.Of("hypothesis", g.Hypothesis), doc.Of("owner", g.Owner)}
	for _, role := range slices.Sorted(maps.Keys(g.Roles)) {
		list = append(list, doc.Of(role, g.Roles[role]))
	}
	when := startOf(g.Started)
	if g.Ended != "" {
		when += " to " + startOf(g.Ended)
	}
	list = append(list, doc.Of("stop criterion", g.StopCriterion), doc.Of("when", when+" UTC"))
	if g.Stopped != "" {
		list = append(list, doc.Of("ended early", g.Stopped))
	}
	return list
}

// dayTold are lines of all drills for the post-mortem, each with its step.
func dayTold(g *gameday.Document, of func(*verdict.Judgement) []string) (list []string) {
	for _, s := range g.Steps {
		if s.Judged == nil {
			continue
		}
		for _, line := range of(s.Judged) {
			list = append(list, s.Name+": "+line)
		}
	}
	return list
}

// dayMoments are the day as a person would retell it.
func dayMoments(g *gameday.Document) (list []string) {
	for _, s := range g.Steps {
		if s.Started != "" {
			list = append(list, s.Started+" "+s.Name+" begins ("+s.Who+")")
		}
		if s.Ended != "" {
			text := s.Ended + " " + s.Name + " " + s.Outcome
			if s.Verdict != "" {
				text += ": " + s.Verdict
			}
			list = append(list, text)
		}
	}
	for _, o := range g.Observations {
		list = append(list, o.At+" "+o.Who+": "+o.Text)
	}
	slices.SortStableFunc(list, func(a, b string) int { return strings.Compare(a[:min(len(a), 20)], b[:min(len(b), 20)]) })
	return list
}

// GameDay is a game day: the sheet, the steps, the figures of all drills, what people saw, and the headings of its post-mortem.
func GameDay(g *gameday.Document) *doc.Document {
	word, tone := runWord(g.Verdict)
	d := &doc.Document{Word: doc.Word{Text: word, Tone: tone}, Title: g.Name, Tally: dayTally(g), Foot: "This page needs no network. gameday.json has the same as data.",
		Lead: append(dayTold(g, func(j *verdict.Judgement) []string { return []string{heldSentence(j)} }), gateOf(g.ExitCode, ""))}
	if g.Stopped != "" {
		d.Lead = slices.Insert(d.Lead, 0, "The day ended early: "+g.Stopped)
	}
	d.Sections = []doc.Section{{ID: "day", Title: "The day", Least: doc.Full, Blocks: []doc.Block{{Items: dayFacts(g)}}}}
	for _, t := range dayTables(g) {
		d.Sections = append(d.Sections, doc.Section{ID: t.ID, Title: t.Label, Blocks: []doc.Block{{Table: t}}})
		t.ID += "-table" // apart from its section
	}
	after := doc.Section{ID: "postmortem", Title: dayAfter, Least: doc.Full, Blocks: slices.Concat(
		forPeopleToSay(pmSummary, g.Name+": "+word+"; "+dayTally(g)),
		forPeopleToSay(pmImpact, dayTold(g, impactTexts)...),
		forPeopleToSay(forPeople{"Timeline", "what people saw and did besides"}, dayMoments(g)...),
		forPeopleToSay(pmDetection),
		forPeopleToSay(pmCauses, dayTold(g, reasonsOf)...),
		forPeopleToSay(pmLuck, dayTold(g, heldTexts)...),
		forPeopleToSay(pmActions, dayTold(g, nextsOf)...),
	)}
	d.Sections = append(d.Sections, after)
	return d
}

// forPeopleToSay is a heading with what was measured, and room for people.
func forPeopleToSay(p forPeople, measured ...string) []doc.Block {
	return []doc.Block{{Heading: p.title, List: first(measured, rowsOfTable), Blank: p.hint}}
}

// impactTexts are what a drill did to the locks: what was not met, the takeovers, and what became of the work.
func impactTexts(j *verdict.Judgement) []string {
	var list []string
	for _, s := range unmet(j) {
		list = append(list, fmt.Sprintf("%s: %s, %s: %s, %s", s.word, doc.Shorten(s.Lock, doc.LongName), s.promise, s.observed, s.sample))
	}
	for _, s := range seriesOf(j.Takeovers, j.Faults) {
		list = append(list, fmt.Sprintf("takeover of %s: %s: %s", doc.Shorten(s.lock, doc.LongName), s.head(), listed(s.extent())))
	}
	for _, i := range slices.Concat(workItems(j), debtItems(j.Debts), unknownItems(j, ofBoth)) {
		if i.Texts[0] != "" {
			list = append(list, i.Label+": "+i.Texts[0])
		}
	}
	return list
}

func reasonsOf(j *verdict.Judgement) []string {
	var list []string
	for _, s := range unmet(j) {
		list = append(list, fmt.Sprintf("%s %s: %s", doc.Shorten(s.Lock, doc.LongName), s.promise, s.Why))
	}
	return list
}

func heldTexts(j *verdict.Judgement) []string {
	var list []string
	for _, s := range held(j) {
		list = append(list, doc.Shorten(s.Lock, doc.LongName)+" "+s.heldText())
	}
	return list
}
