package reports

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

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

// dayTables are the steps, the figures and the observations: the terminal, the text and the page draw the same ones.
func dayTables(g *gameday.Document) []Table {
	steps := Table{ID: "steps", Label: daySteps, Columns: []string{"step", "what", "outcome", "verdict", "when", "by"}}
	for i := range g.Steps {
		s := &g.Steps[i]
		what := Cell{Text: s.Name + ": " + s.Drill + s.Manual}
		if s.Judged != nil {
			what.Link = path.Join(s.Folder, reportOfRun)
		}
		word := Cell{}
		if s.Verdict != "" {
			word = VerdictCell(s.Verdict)
		}
		outcome := Cell{Text: s.Outcome}
		if s.Note != "" {
			outcome.Text += ": " + s.Note
		}
		if s.Outcome != gameday.StepDone {
			outcome.Class = "open"
		}
		if n := len(s.Aborted); n > 0 {
			outcome.Text += fmt.Sprintf(", %s cut off before", figures.Plural(n, "attempt"))
		}
		steps.row(figureCell(fmt.Sprint(s.N)), what, outcome, word, TimeCell(s.Started), plainCell(s.Who))
	}
	columns := []string{"step", "lock", "promise", "measured", "from", "verdict"}
	windows, others := Table{ID: "windows", Label: dayWindows, Columns: columns}, Table{ID: "figures", Label: dayFigures, Columns: columns}
	for _, f := range g.Figures {
		r := rowOf(f.SLOResult, &verdict.Judgement{Run: verdict.RunInfo{TimeScale: f.TimeScale}})
		row := []Cell{figureCell(fmt.Sprint(f.Step)), plainCell(r.Lock), plainCell(r.promise), plainCell(r.observed), plainCell(r.sample), {Text: r.word, Class: classOf(r.ink)}}
		if f.Fault == "" && strings.HasPrefix(f.Measure, "takeover") {
			windows.row(row...)
		} else {
			others.row(row...)
		}
	}
	notes := Table{ID: "observations", Label: dayNotes, Columns: []string{"when", "who", "step", "observation"}}
	for _, o := range g.Observations {
		step := ""
		if o.Step > 0 {
			step = fmt.Sprint(o.Step)
		}
		notes.row(TimeCell(o.At), plainCell(o.Who), plainCell(step), plainCell(o.Text))
	}
	return slices.DeleteFunc([]Table{steps, windows, others, notes}, func(t Table) bool { return len(t.Rows) == 0 })
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
func dayFacts(g *gameday.Document) []item {
	list := []item{{"hypothesis", g.Hypothesis}, {"owner", g.Owner}}
	for _, role := range slices.Sorted(maps.Keys(g.Roles)) {
		list = append(list, item{role, g.Roles[role]})
	}
	when := startOf(g.Started)
	if g.Ended != "" {
		when += " to " + startOf(g.Ended)
	}
	list = append(list, item{"stop criterion", g.StopCriterion}, item{"when", when + " UTC"})
	if g.Stopped != "" {
		list = append(list, item{"ended early", g.Stopped})
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

// afterwards are the headings of the day's post-mortem, with what was measured.
func afterwards(g *gameday.Document) []struct {
	forPeople
	measured []string
} {
	word, _ := runWord(g.Verdict)
	return []struct {
		forPeople
		measured []string
	}{
		{pmSummary, []string{g.Name + ": " + word + "; " + dayTally(g)}},
		{pmImpact, dayTold(g, impactTexts)},
		{forPeople{"Timeline", "what people saw and did besides"}, dayMoments(g)},
		{pmDetection, nil},
		{pmCauses, dayTold(g, reasonsOf)},
		{pmLuck, dayTold(g, heldTexts)},
		{pmActions, dayTold(g, nextsOf)},
	}
}

// GameDayPage writes the page of a game day; it needs no network.
func GameDayPage(w io.Writer, g *gameday.Document) error {
	word, ink := runWord(g.Verdict)
	p := &Page{Word: word, Class: classOf(ink), Title: g.Name, Tally: dayTally(g), Sentences: []string{g.Hypothesis}, Note: "This page needs no network. gameday.json has the same as data.",
		Site: []Link{}} // the style of a server's pages is for narrow screens, too
	p.Sections = append(p.Sections, Section{ID: "day", Title: "The day", Blocks: []Block{itemBlock("", dayFacts(g))}})
	for _, t := range dayTables(g) {
		p.Sections = append(p.Sections, Section{ID: t.ID, Title: t.Label, Blocks: []Block{{Table: &t}}})
		t.ID += "-table" // apart from its section
	}
	after := Section{ID: "postmortem", Title: dayAfter}
	for _, a := range afterwards(g) {
		after.Blocks = append(after.Blocks, blank(a.forPeople, a.measured...)...)
	}
	p.Sections = append(p.Sections, after)
	return p.Write(w)
}

// GameDayText writes the same as Markdown.
func GameDayText(w io.Writer, g *gameday.Document) error {
	word, _ := runWord(g.Verdict)
	m := &md{}
	m.line("# Game day: %s\n", doc.Escape(g.Name))
	m.line("**%s** %s (exit status %d)\n", word, doc.Escape(dayTally(g)), g.ExitCode)
	for _, i := range dayFacts(g) {
		m.line("- %s: %s", doc.Escape(i.Label), doc.Escape(i.Text))
	}
	for _, t := range dayTables(g) {
		m.line("\n## %s\n", t.Label)
		m.table(t.Columns...)
		for _, row := range t.Rows {
			var cells []string
			for _, c := range row {
				text := doc.Escape(c.Text)
				if c.Link != "" {
					text = "[" + text + "](" + c.Link + ")"
				}
				cells = append(cells, text)
			}
			m.row(cells...)
		}
	}
	m.line("\n# %s", dayAfter)
	for _, a := range afterwards(g) {
		m.line("\n## %s\n", a.title)
		for _, line := range a.measured {
			m.line("- %s", doc.Escape(line))
		}
		m.line("\n_(%s)_", a.hint)
	}
	return m.to(w, "report of the game day")
}

// GameDay writes the tables of a game day for a terminal.
func GameDay(w io.Writer, g *gameday.Document) error {
	word, _ := runWord(g.Verdict)
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s\n", word, g.Name, dayTally(g))
	if g.Stopped != "" {
		fmt.Fprintf(&b, "ended early: %s\n", g.Stopped)
	}
	for _, t := range dayTables(g) {
		fmt.Fprintf(&b, "\n%s\n", t.Label)
		tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range t.Rows {
			var cells []string
			for _, c := range row {
				cells = append(cells, c.Text)
			}
			fmt.Fprintln(tw, "  "+strings.Join(cells, "\t"))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, Harmless(b.String())); err != nil {
		return fmt.Errorf("write report of the game day: %w", err)
	}
	return nil
}
