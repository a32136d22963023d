package reports

import (
	"io"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// HTML writes report.html: one file that needs no network and no script. The same run gives the same bytes.
func HTML(w io.Writer, r Run) error {
	d, err := Page(r)
	if err != nil {
		return err
	}
	return Write(w, d)
}

// Page is what HTML writes, for a server that gives it among other pages.
func Page(r Run) (*doc.Document, error) { return pageOf(r, mostEvents) }

// Write writes d as a page.
func Write(w io.Writer, d *doc.Document) error {
	text, err := doc.HTML(d)
	if err != nil {
		return err
	}
	return put(w, "the page", text)
}

// Caps of a summary: it has to fit a chat message. The full report has everything.
const (
	mostRows    = 20 // SLOs, violations first
	mostReasons = 3  // rows of which why and next are said
)

// Markdown writes report.md: the verdict, the promises, why and what next, and where the rest lies.
func Markdown(w io.Writer, r Run, o Options) error {
	return put(w, "report.md", doc.Markdown(document(r, o, doc.Short), doc.Short))
}

// MarkdownUnjudged writes the summary of a drill that has no verdict: refused, or broken before there was one.
func MarkdownUnjudged(w io.Writer, experiment, word, why string) error {
	return put(w, "summary", doc.Markdown(&doc.Document{Word: doc.Word{Text: strings.ToUpper(word)}, Title: experiment, Tally: "no verdict", Lead: []string{"Why: " + why}}, doc.Short))
}

// pageOf is the document of a run with all that only a page has room for. mostEvents bounds its event log, in lines; those that evidence
// points at are not counted.
func pageOf(r Run, mostEvents int) (*doc.Document, error) {
	d := document(r, Options{}, doc.Page)
	var err error
	if d.Data, d.Foot, err = embedded(r.Judgement); err != nil {
		return nil, err
	}
	done, err := doneBlocks(r)
	if err != nil {
		return nil, err
	}
	d.Styles = timeline.Styles()
	if r.Lanes != nil {
		broken, err := brokenTable(r)
		if err != nil {
			return nil, err
		}
		at := 1 + slices.IndexFunc(d.Sections, func(s doc.Section) bool { return s.ID == "slos" })
		d.Sections = slices.Insert(d.Sections, at, doc.Section{ID: "broken", Title: "What went wrong, one by one", Short: "What went wrong", Blocks: []doc.Block{{Table: broken}}})
	}
	add := func(id, title, short string, blocks []doc.Block) {
		d.Sections = append(d.Sections, doc.Section{ID: id, Title: title, Short: short, Blocks: blocks})
	}
	add("signals", "Signals before, during and after", "Signals", signalBlocks(r.Lanes))
	add("baseline", "Baseline and trend", "", baselineBlocks(r.Baseline))
	add("done", "What was done", "", done)
	add("cleanup", "Clean-up", "", cleanUpBlocks(r))
	add("reproduce", "How to reproduce it", "Reproduce", reproduceBlocks(r))
	log, err := logBlocks(r.Record, doc.Cited(d, r.Record.count), mostEvents) // last: by now it is known what was cited
	if err != nil {
		return nil, err
	}
	d.Sections = gathered(d.Sections)
	add("log", "Event log", "", log)
	return d, nil
}

// gathered puts the sections that have nothing to say into one, behind the others.
func gathered(all []doc.Section) []doc.Section {
	var kept []doc.Section
	var nothing []doc.Item
	for _, s := range all {
		if len(s.Blocks) == 1 && s.Blocks[0].Quiet && s.Blocks[0].Fold == "" {
			nothing = append(nothing, doc.Of(s.Name(), s.Blocks[0].Text))
		} else {
			kept = append(kept, s)
		}
	}
	if len(nothing) == 0 {
		return kept
	}
	return append(kept, doc.Section{ID: "nothing", Title: "Nothing to report", Unlisted: true, Blocks: []doc.Block{{Items: nothing}}})
}

// document is what a run came to, in the order in which it is read. Of a summary for a terminal there is no record and nothing drawn.
func document(r Run, o Options, level doc.Level) *doc.Document {
	j := r.Judgement
	word, tone := runWord(j.Verdict)
	answer, says := validOf(j)
	d := &doc.Document{Word: doc.Word{Text: word, Tone: tone}, Title: j.Run.Experiment, Tally: tally(j),
		Lead: sentences(j)}
	short := j.Verdict == "aborted" && level == doc.Brief // four lines say it all
	if !short {
		d.Lead = append(d.Lead, validTitle+" "+answer+". "+says)
	}
	if r.Experiment != nil && level == doc.Page {
		d.Facts = append(d.Facts, doc.Of("drill", doc.Shorten(r.Experiment.Description, 3*doc.LongName)))
	}
	if level >= doc.Short {
		d.Facts = append(d.Facts, doc.Of("run", runText(j.Run)))
	}
	if !j.Run.Live {
		d.Word.Before = "REHEARSAL"
	}
	if s := scale(j); s != "" {
		d.Labels = append(d.Labels, s)
	}
	d.Sections = append(d.Sections, doc.Section{ID: "early", Title: "Ended early", Bare: true, Blocks: []doc.Block{{Items: abortItems(j, o)}}})
	if r.Record != nil {
		d.Sections = append(d.Sections, doc.Section{ID: "left", Title: "Not cleaned up", Blocks: []doc.Block{{Items: leftItems(r.Record, o.Folder)}}})
	}
	if !short {
		d.Sections = append(d.Sections, doc.Section{ID: "slos", Title: sloTitle(j), Short: "SLOs", Bare: true, Blocks: sloBlocks(j)})
	}
	if level >= doc.Short {
		d.Sections = append(d.Sections, doc.Section{ID: "findings", Title: "Findings: two ways to know the same thing disagree", Short: "Findings", Blocks: []doc.Block{{Table: findingTable(j)}}})
	}
	d.Sections = append(d.Sections, doc.Section{ID: "protocol", Title: lintTitle, Blocks: []doc.Block{{Table: lintTable(j)}}})
	if r.Lanes != nil && level == doc.Page { // nothing else draws
		d.Sections = append(d.Sections, doc.Section{ID: "timeline", Title: "Timeline", Blocks: timelineBlocks(r.Lanes)})
	}
	d.Sections = append(d.Sections,
		locked(r, doc.Section{ID: "takeovers", Title: realTimes(j, takeoverTitle), Short: "Takeovers", Least: doc.Short, Blocks: takeoverBlocks(r)}),
		doc.Section{ID: "rolling", Title: rollingTitle, Short: "Rolling restarts", Blocks: []doc.Block{{Items: rollingItems(j)}}},
		doc.Section{ID: "deaths", Title: deathTitle(j), Short: "Kills", Least: doc.Short, Blocks: deathBlocks(j)},
		doc.Section{ID: "correctness", Title: "Correctness", Least: doc.Short, Blocks: correctnessBlocks(r)},
		locked(r, doc.Section{ID: "debt", Title: realTimes(j, "Lock debt: keys that stay taken after their work is done"), Short: "Lock debt", Least: doc.Full, Blocks: debtBlocks(r)}),
		doc.Section{ID: "valid", Title: drillTitle, Least: doc.Short, Blocks: validityBlocks(r)},
	)
	d.Tail = tailOf(j, o, level)
	return d
}

// locked is a section about locks: of a drill of effects alone it has nothing to say.
func locked(r Run, s doc.Section) doc.Section {
	if r.Experiment != nil && len(r.Experiment.System.Locks) == 0 {
		s.Blocks = []doc.Block{{Text: "The experiment has no lock: its effects come about under none.", Quiet: true}}
	}
	return s
}

// abortItems tell of a run that was ended early: why, what was undone, what was seen until then, and how to run it again.
func abortItems(j *verdict.Judgement, o Options) []doc.Item {
	if j.Verdict != "aborted" {
		return nil
	}
	why := j.Run.Status
	if len(j.Missing) > 0 {
		why = j.Missing[0].Why
	}
	return []doc.Item{doc.Of("aborted", why), doc.Of("undone", "clean-up "+cleanUpText(j)), doc.Of("seen so far", heldSentence(j)), doc.Of("run again", o.Reproduce)}
}

// tailOf is where everything lies, what to do next, and how to get it again.
func tailOf(j *verdict.Judgement, o Options, level doc.Level) (tail []doc.Item) {
	if level >= doc.Page {
		return nil
	}
	if j.Verdict == "dirty" && o.Folder != "" {
		tail = append(tail, doc.Of("next", "lockdrill recover "+o.Folder))
	}
	tail = append(tail, doc.Of("report", o.Report))
	if level > doc.Brief {
		tail = append(tail, doc.Of("folder", o.Folder))
	} else {
		if len(j.Findings)+len(j.Warnings) > 0 {
			tail = append(tail, doc.Of("remarks", remarksText(j, o.Folder)))
		}
		if o.Folder != "" {
			tail = append(tail, doc.Of("all figures", "lockdrill judge --verbose "+o.Folder))
		}
	}
	if j.Verdict != "aborted" && (level > doc.Brief || j.Verdict != "pass") { // a screen holds no more
		tail = append(tail, doc.Of("run again", o.Reproduce))
	}
	return tail
}

// remarksText counts what is said elsewhere, and says where.
func remarksText(j *verdict.Judgement, folder string) string {
	var parts []string
	if n := len(j.Findings); n > 0 {
		parts = append(parts, figures.Plural(n, "finding"))
	}
	if n := len(j.Warnings); n > 0 {
		parts = append(parts, figures.Plural(n, "warning"))
	}
	where := "in the report"
	if folder != "" {
		where += " and among all figures (the command below)"
	}
	return strings.Join(parts, " and ") + ", " + where
}

// leftItems are the parts of the clean-up that did not succeed, and who undoes them.
func leftItems(r *Record, folder string) []doc.Item {
	var list []doc.Item
	for _, e := range r.done {
		if e.Kind == history.RunCleanup && !e.Note.OK {
			why := e.Note.Why
			if why == "" {
				why = "not verified"
			}
			list = append(list, doc.Of(e.Note.What, why))
		}
	}
	if len(list) > 0 {
		if folder == "" {
			folder = "DIR (this folder)"
		}
		list = append(list, doc.Of("next", "lockdrill recover "+folder+" undoes what it can, and names what is left"))
	}
	return list
}

// findingTable has what contradicts itself.
func findingTable(j *verdict.Judgement) *doc.Table {
	t := &doc.Table{Label: "Findings", Columns: doc.Columns("what disagrees"), Most: map[doc.Level]int{doc.Short: mostReasons, doc.Full: mostRemarks}, Where: "verdict.json has all findings"}
	for _, f := range j.Findings {
		t.Rows = append(t.Rows, doc.Row{Cells: []doc.Cell{plainCell(f.What)}, Refs: f.Evidence})
	}
	return t
}
