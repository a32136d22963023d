// Package reports says what a judgement concluded, and how a run goes, in words for people.
//
// Everything here is a pure function of its arguments: no clock, no files, no terminal of its own, and the same input gives
// the same bytes. It concludes nothing. Its one invariant: a figure is printed with its unit and never narrower than it was
// measured: a range is rounded outwards, and an open end is called open.
package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Options is where and how a report is read; reports that are files of their own know no width and no colour.
type Options struct {
	Width     int    // columns; 0 = 100
	Color     bool   // colour repeats what the words say, never more
	Verbose   bool   // of the closing summary: all that was measured, and not the answers alone
	Folder    string // of the run, as a person would type it; "" = not kept, or the one in which the report lies
	Report    string // the full report, as a person would open it; "" = not said
	Reproduce string // the command that runs it again; "" = not said
}

// Terminal writes the closing summary of a run. Of a run that passed it fits a screen of 24 rows.
func Terminal(w io.Writer, j *verdict.Judgement, o Options) error {
	p := newPage(o)
	p.headline(j)
	p.slos(j, o.Verbose)
	p.section(rollingTitle, rollingItems(j))
	p.section(lintTitle, lintItems(j))
	if o.Verbose {
		p.takeovers(j)
		p.section(deathTitle(j), deathItems(j))
		p.section("Work", slices.Concat(workItems(j), keyItems(j), unknownItems(j, ofBoth)))
		p.section(drillTitle, validityItems(j))
		p.remarks(j)
	}
	p.folder(j, o)
	return p.to(w, "summary")
}

// headline is the run's word, its label and scale, and whether the drill can be believed.
func (p *page) headline(j *verdict.Judgement) {
	word, ink := runWord(j.Verdict)
	parts := headOf(p.paint(ink, word), j.Run.Experiment, tally(j), !j.Run.Live)
	if s := scale(j); s != "" {
		parts = append(parts, s)
	}
	p.flow(0, 2, strings.Join(parts, "  "))
	for _, s := range sentences(j) {
		p.flow(2, 2, s)
	}
	answer, says := validOf(j)
	p.flow(0, 4, p.paint(bold, validTitle)+" "+answer+". "+says)
	p.items(missingItems(j))
	p.blank()
}

// headOf are the parts of a report's first line.
func headOf(word, experiment, tally string, rehearsal bool) []string {
	parts := []string{word, experiment, tally}
	if rehearsal {
		return append([]string{"REHEARSAL"}, parts...)
	}
	return parts
}

// runWord is the word of a run's verdict, and its ink.
func runWord(verdict string) (string, ink) {
	switch verdict {
	case "pass":
		return "PASS", green
	case "slo-failed":
		return "FAIL", red
	case "inconclusive", "aborted":
		return strings.ToUpper(verdict), yellow
	}
	return strings.ToUpper(verdict), red
}

func sloWord(v verdict.Verdict) (string, ink) {
	switch v {
	case verdict.Pass:
		return "PASS", green
	case verdict.Fail:
		return "FAIL", red
	}
	return strings.ToUpper(string(v)), yellow
}

// scale is said wherever the word is said.
func scale(j *verdict.Judgement) string {
	if j.Run.TimeScale == 1 {
		return ""
	}
	return "at time scale " + factor(j.Run.TimeScale)
}

func factor(scale float64) string { return strconv.FormatFloat(scale, 'f', -1, 64) }

func tally(j *verdict.Judgement) string {
	var pass, fail, open int
	for _, s := range j.SLOs {
		switch s.Verdict {
		case verdict.Pass:
			pass++
		case verdict.Fail:
			fail++
		default:
			open++
		}
	}
	text, n := "", len(j.SLOs)
	switch {
	case n == 0:
		return "no SLO judged"
	case fail > 0:
		text = fmt.Sprintf("%d of %s violated", fail, figures.Plural(n, "SLO"))
	default:
		text = fmt.Sprintf("%d of %s met", pass, figures.Plural(n, "SLO"))
	}
	if open > 0 {
		text += fmt.Sprintf(", %d not answered", open)
	}
	missed := len(slices.DeleteFunc(slices.Clone(j.Expected), func(s verdict.SLOResult) bool { return s.Verdict == verdict.Pass }))
	if missed > 0 {
		text += fmt.Sprintf(", %d of %s not provoked", missed, figures.Plural(len(j.Expected), "expectation"))
	}
	return text
}

// sentences say what the word means where it is not plain.
func sentences(j *verdict.Judgement) []string {
	var s []string
	beside := unasked(j)
	switch quiet := len(beside) == 0; j.Verdict {
	case "pass":
		s = append(s, pick(quiet, "Every promise was kept. There is nothing to do.", "Every promise was kept."))
	case "slo-failed":
		s = append(s, brokenText(j)+" A gate stops here.")
	case "inconclusive":
		s = append(s, pick(quiet, "Nothing wrong was seen, but there is not enough evidence to say that all is well.",
			"There is not enough evidence to answer every promise.")+" A gate stops here, unless it says --on-inconclusive pass.")
	case "aborted":
		s = append(s, "The run was ended early. "+pick(quiet, "Nothing wrong was seen until then, but there is not enough evidence to say that all is well.",
			"There is not enough evidence to answer every promise."))
	case "dirty":
		s = append(s, "The clean-up was not verified: a fault or a process may still be active. This outranks every other verdict. Before anything else, run lockdrill recover on this run's folder: it undoes what it can and names what is left.")
	case "error":
		s = append(s, "lockdrill itself failed, so there is no verdict about the locks.")
	}
	if len(beside) > 0 {
		s = append(s, "No promise asks about it, but the run saw "+strings.Join(beside, ", ")+".")
	}
	if !j.Run.Live {
		s = append(s, "This is a rehearsal in virtual time. It answers no SLO of a live system.")
	}
	return s
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// unasked are signs of two holders at once that the run surely saw and that no promise of the file is about.
func unasked(j *verdict.Judgement) []string {
	asked := func(measure string) bool {
		return slices.ContainsFunc(j.Rows(), func(s verdict.SLOResult) bool { return s.Measure == measure })
	}
	var saw []string
	for _, x := range []struct {
		n             int
		what, measure string
	}{
		{j.Counts.Duplicates, "duplicate terminal state", "duplicate_terminal_states"},
		{j.Counts.StaleApplied, "stale write", "overlap.effect"},
		{j.Counts.UnownedEffects, "unowned write", "overlap.effect"},
	} {
		if x.n > 0 && !asked(x.measure) {
			saw = append(saw, figures.Plural(x.n, x.what))
		}
	}
	return saw
}

// slos is the table of promises, violations first, each that was not met with its why and next.
func (p *page) slos(j *verdict.Judgement, verbose bool) {
	if len(j.SLOs) == 0 {
		return
	}
	t := table{indent: 2}
	var above verdict.SLOResult
	for _, s := range rowsOf(j) {
		if verbose {
			t.row(cell{s.word, s.ink}, cell{text: s.Lock}, cell{text: s.promise}, cell{text: s.observed}, cell{text: s.sample})
			t.note("rests on", s.Rests)
		} else {
			t.row(cell{s.word, s.ink}, cell{text: s.Lock}, cell{text: s.promise}, cell{text: s.glance()}, cell{text: s.from()})
		}
		if s.Verdict == verdict.Pass {
			continue
		}
		s.Why, s.Next = beyond(s.SLOResult, j.Missing)
		if s.Why != above.Why || s.Next != above.Next {
			t.note("why", s.Why)
			t.note("next", s.Next)
		} else if s.Why != "" {
			t.note("why", "The same as above.")
		}
		if verbose {
			t.note("see", events(s.Evidence))
		}
		above = s.SLOResult
	}
	p.table(t)
	if slices.ContainsFunc(j.SLOs, bounded) {
		p.flow(2, 4, boundNote)
	}
	p.blank()
}

// boundNote explains what the sample of a promise says that nothing broke.
const boundNote = "rate <= x%: no fault broke this promise. How often one would is at most x%, with 95% confidence; more faults make that surer."

func sloTitle(j *verdict.Judgement) string {
	if s := scale(j); s != "" {
		return "SLOs, " + s + ": real seconds against scaled limits"
	}
	return "SLOs"
}

// missingItems are the reasons why the drill answers no question, said once for all rows.
func missingItems(j *verdict.Judgement) []item {
	var list []item
	said := map[string]bool{}
	for i, l := range j.Missing {
		list = append(list, item{"why", l.Why})
		if i > 0 && j.Missing[0].Code == verdict.MissingCompletion { // what a run that ended early lacks tells nothing of the file
			continue
		}
		if !said[l.Next] {
			list = append(list, item{"next", l.Next})
		}
		said[l.Next] = true
	}
	return list
}

// beyond is a row's why and next without what was said of the whole run.
func beyond(s verdict.SLOResult, ofRun []verdict.Missing) (why, next string) {
	if !slices.ContainsFunc(s.Missing, func(l verdict.Missing) bool { return slices.Contains(ofRun, l) }) {
		return s.Why, s.Next
	}
	return verdict.Reasons(slices.DeleteFunc(slices.Clone(s.Missing), func(l verdict.Missing) bool { return slices.Contains(ofRun, l) }))
}

// sloRow is a promise as every format shows it.
type sloRow struct {
	verdict.SLOResult
	word                      string
	ink                       ink
	promise, observed, sample string
}

// rowsOf are the promises, violations first.
func rowsOf(j *verdict.Judgement) []sloRow {
	var rows []sloRow
	for _, v := range []verdict.Verdict{verdict.Fail, verdict.Inconclusive, verdict.Pass} {
		for _, s := range j.Rows() {
			if s.Verdict == v {
				rows = append(rows, rowOf(s, j))
			}
		}
	}
	return rows
}

func rowOf(s verdict.SLOResult, j *verdict.Judgement) sloRow {
	word, ink := sloWord(s.Verdict)
	s.Lock = cmp.Or(s.Lock, "alerts") // all else is of a lock
	return sloRow{s, word, ink, promise(s, j.Run.TimeScale), observed(s), sample(s)}
}

// explained is why a row is as it is, what to do next, and what shows it.
func (s sloRow) explained() []item {
	var list []item
	for _, i := range []item{{"rests on", s.Rests}, {"why", s.Why}, {"next", s.Next}, {"see", events(s.Evidence)}} {
		if i.Text != "" {
			list = append(list, i)
		}
	}
	return list
}

// promise is the SLO in words, with the limit as the file has it: "takeover max <= 30s", "takeover max <= 30s (1.5s at 0.05)",
// "duplicate terminal states 0".
func promise(s verdict.SLOResult, scale float64) string {
	words, sign := verdict.MeasureWords(s.Measure), asks(s.Ask)
	if s.Fault != "" {
		words = s.Fault + " provokes " + words
	}
	if s.Against != nil {
		return fmt.Sprintf("%s %s %s of that of %s", words, sign, factor(s.Against.Share), s.Against.Lock)
	}
	if s.Unit == verdict.UnitCount && s.Limit == 0 {
		return words + " 0"
	}
	if s.Declared == s.Limit || s.Unit == verdict.UnitCount {
		return words + " " + sign + " " + exact(s.Limit, s.Unit)
	}
	return fmt.Sprintf("%s %s %s (%s at %s)", words, sign, exact(s.Declared, s.Unit), exact(s.Limit, s.Unit), factor(scale))
}

// asks is the sign between a figure and its limit.
func asks(a verdict.Ask) string {
	return map[verdict.Ask]string{verdict.AtMost: "<=", verdict.AtLeast: ">=", verdict.Exactly: "="}[a]
}

func observed(s verdict.SLOResult) string {
	if s.N == 0 && s.Hi == nil {
		return "no data"
	}
	return span(s.Lo, s.Hi, s.Unit)
}

// glance is the end of what was measured that the verdict hangs on, to three digits; both ends where both matter.
func (s sloRow) glance() string {
	if s.Unit != verdict.UnitSeconds || s.Ask == verdict.Exactly || s.N == 0 && s.Hi == nil || s.Verdict == verdict.Inconclusive {
		return s.observed
	}
	limit, lo := figures.Nanoseconds(s.Limit), figures.Down(figures.Nanoseconds(s.Lo))
	if (s.Ask == verdict.AtLeast) == (s.Verdict == verdict.Pass) { // the lower end is held against the limit
		if (lo < limit) == (s.Lo < s.Limit) && (lo > limit) == (s.Lo > s.Limit) {
			return figures.Exact(lo)
		}
		return s.observed
	}
	if s.Hi == nil {
		return s.observed
	}
	if hi := figures.Up(figures.Nanoseconds(*s.Hi)); (hi > limit) == (*s.Hi > s.Limit) && (hi < limit) == (*s.Hi < s.Limit) {
		return figures.Exact(hi)
	}
	return s.observed
}

// from is what the figure stands on, in short.
func (s sloRow) from() string {
	text := figures.Plural(s.N, cmp.Or(s.Of, "trial"))
	if bounded(s.SLOResult) {
		text += ", rate <= " + percent(*s.Bound)
	}
	return text
}

// sample is what the figure stands on, and what it cannot exclude where nothing was seen.
func sample(s verdict.SLOResult) string {
	if !bounded(s) {
		return sampleSize(s)
	}
	return sampleSize(s) + ", rate " + riskText(s)
}

// sampleSize is how much there is of it, and what a late machine may have made of the figure.
func sampleSize(s verdict.SLOResult) string {
	text := figures.Plural(s.N, cmp.Or(s.Of, "trial"))
	if late := lateText(s.Lateness); late != "" {
		text += ", " + late
	}
	return text
}

// riskText is the bound of a row that is bounded.
func riskText(s verdict.SLOResult) string {
	return fmt.Sprintf("<= %s (0 of %s)", percent(*s.Bound), figures.Plural(s.BoundN, "fault"))
}

// bounded reports whether a row says what it cannot exclude.
func bounded(s verdict.SLOResult) bool { return s.Verdict == verdict.Pass && s.Bound != nil }

// events names evidence by its numbers in the history.
func events(numbers []int64) string {
	if len(numbers) == 0 {
		return ""
	}
	const most = 8
	var names []string
	for _, n := range slices.Sorted(slices.Values(numbers[:min(len(numbers), most)])) { // the most telling ones, in their order
		names = append(names, strconv.FormatInt(n, 10))
	}
	text := "event"
	if len(numbers) > 1 {
		text += "s"
	}
	text += " " + strings.Join(names, ", ")
	if more := len(numbers) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " of history.jsonl"
}
