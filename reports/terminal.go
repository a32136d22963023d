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
	"github.com/lockdrill/lockdrill/reports/doc"
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
	level := doc.Brief
	if o.Verbose {
		level = doc.Full
	}
	return put(w, "summary", doc.Text(document(Run{Judgement: j}, o, level), level, doc.Look{Width: o.Width, Color: o.Color}))
}

// put writes text at once: a reader sees all of it or an error that names what was written.
func put(w io.Writer, what, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// runWord is the word of a run's verdict, and its tone.
func runWord(verdict string) (string, doc.Tone) {
	switch verdict {
	case "pass":
		return "PASS", doc.Good
	case "slo-failed":
		return "FAIL", doc.Bad
	case "inconclusive", "aborted":
		return strings.ToUpper(verdict), doc.Open
	}
	return strings.ToUpper(verdict), doc.Bad
}

func sloWord(v verdict.Verdict) (string, doc.Tone) {
	switch v {
	case verdict.Pass:
		return "PASS", doc.Good
	case verdict.Fail:
		return "FAIL", doc.Bad
	}
	return strings.ToUpper(string(v)), doc.Open
}

// scale is said wherever the word is said.
func scale(j *verdict.Judgement) string {
	if j.Run.TimeScale == 1 {
		return ""
	}
	return "at time scale " + factor(j.Run.TimeScale)
}

// realTimes marks a heading whose times are not scaled back to those of the file.
func realTimes(j *verdict.Judgement, heading string) string {
	if scale(j) == "" {
		return heading
	}
	return heading + ", in real time"
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

// sentences say what happened to the locks, and then how sure that is.
func sentences(j *verdict.Judgement) []string {
	var s []string
	beside := unasked(j)
	if j.Verdict != "slo-failed" {
		s = append(s, beside...)
	}
	switch j.Verdict {
	case "pass":
		s = append(s, heldSentence(j)+gateText(j, ""))
	case "slo-failed":
		s = append(s, brokenText(j)+gateText(j, ""))
		s = append(s, beside...)
	case "inconclusive":
		s = append(s, heldSentence(j)+" That is not enough evidence for an answer."+gateText(j, ", unless it says --on-inconclusive pass"))
	case "aborted":
		s = append(s, "The run was ended early: it answers nothing."+gateText(j, ""))
	case "dirty":
		s = append(s, "The clean-up was not verified: a fault or a process may still be active. This outranks every other verdict. Before anything else, run lockdrill recover on this run's folder: it undoes what it can and names what is left."+gateText(j, ""))
	case "error":
		s = append(s, "lockdrill itself failed, so there is no verdict about the locks."+gateText(j, ""))
	}
	if !j.Run.Live {
		s = append(s, fmt.Sprintf("This is a rehearsal in virtual time. It answers no SLO of a live system (exit status %d): run the drill live for that.", j.ExitCode))
	}
	return s
}

// gateText says what a gate does, of a live run alone, as no gate takes a rehearsal.
func gateText(j *verdict.Judgement, unless string) string {
	if !j.Run.Live {
		return ""
	}
	return " " + gateOf(j.ExitCode, unless)
}

// gateOf says what a gate does, and the exit status that tells it.
func gateOf(code int, unless string) string {
	does := "A gate stops here"
	if code == verdict.ExitPass {
		does = "A gate lets it pass"
	}
	return fmt.Sprintf("%s%s (exit status %d).", does, unless, code)
}

// heldSentence counts what held, under how many faults, and what those faults cannot exclude.
func heldSentence(j *verdict.Judgement) string {
	held, broken, rate := 0, 0, 0.0
	for _, s := range j.SLOs { // what faults were expected to provoke is no promise
		switch {
		case s.Verdict == verdict.Pass, lacksLiveAlone(s.Missing):
			held++
		case s.Verdict == verdict.Fail:
			broken++
		}
		if bounded(s) {
			rate = max(rate, *s.Bound)
		}
	}
	all := len(j.SLOs)
	text := fmt.Sprintf("%s of %s held", figures.Count(held), figures.Plural(all, "promise"))
	switch {
	case all == 0:
		text = "No promise was judged"
	case held+broken == 0:
		text = "No promise broke and none could be answered"
	case broken > 0:
		text, rate = fmt.Sprintf("%s of %s broke", figures.Count(broken), figures.Plural(all, "promise")), 0
	}
	if len(j.Faults) > 0 {
		text += " under " + figures.Plural(confirmed(j), "fault")
	}
	if !j.Run.Live && all > 0 {
		text += " in the simulation"
	}
	if open := all - held - broken; open > 0 && open < all {
		text += "; " + figures.Count(open) + " not answered"
	}
	if len(j.Faults) == 0 {
		text += ". No fault was fired"
	}
	if text += "."; rate > 0 {
		text += " Up to " + percent(rate) + " of such faults could still break one."
	}
	return text
}

// lacksLiveAlone reports a row that only a live system would answer: its figures kept the limit.
func lacksLiveAlone(lacks []verdict.Missing) bool {
	return len(lacks) > 0 && !slices.ContainsFunc(lacks, func(m verdict.Missing) bool { return m.Code != verdict.MissingLiveSystem })
}

// confirmed counts the faults that counted.
func confirmed(j *verdict.Judgement) (n int) {
	for _, f := range j.Faults {
		if f.Confirmed && !f.Void {
			n++
		}
	}
	return n
}

// unasked tells of signs of two holders at once that the run surely saw and that no promise of the file is about, and of what contradicts
// itself; nothing where there is neither.
func unasked(j *verdict.Judgement) (says []string) {
	asked := func(measures ...string) bool {
		return slices.ContainsFunc(j.Rows(), func(s verdict.SLOResult) bool { return slices.Contains(measures, s.Measure) })
	}
	var saw, promises []string
	for _, x := range []struct {
		n             int
		what, promise string
		asked         bool
	}{
		{j.Counts.Duplicates, "duplicate terminal state", "duplicate_terminal_states: {max: 0}", asked("duplicate_terminal_states")},
		{j.Counts.StaleApplied, "stale write", "overlap: {level: effect, max: 0}", asked("overlap.effect", "stale_writes")},
		{j.Counts.UnownedEffects, "unowned write", "overlap: {level: effect, max: 0}", asked("overlap.effect")},
	} {
		if x.n > 0 && !x.asked {
			saw = append(saw, figures.Plural(x.n, x.what))
			if !slices.Contains(promises, x.promise) {
				promises = append(promises, x.promise)
			}
		}
	}
	found := slices.DeleteFunc(slices.Clone(j.Findings), func(f verdict.Finding) bool { return f.Code == verdict.FindingVanished && asked("vanished") })
	if len(saw) > 0 {
		says = append(says, "No promise asks about it, but the run saw "+strings.Join(saw, ", ")+".")
	}
	if len(promises) > 0 {
		says = append(says, "To have it judged, promise "+strings.Join(promises, " and ")+".")
	}
	if n := len(found); n > 0 { // which a promise may be about as well
		what := figures.Plural(n, "finding")
		if n > 1 {
			what += ", the first"
		}
		says = append(says, what+": "+doc.Shorten(found[0].What, doc.LongText)+".")
	}
	return says
}

// boundNote explains the column of what could still break.
const boundNote = "could break: no fault of this run broke the promise. With 95% confidence at most this share of such faults would; more faults lower it."

func sloTitle(j *verdict.Judgement) string {
	if s := scale(j); s != "" {
		return "SLOs, " + s + ": times are scaled back to those of the file"
	}
	return "SLOs"
}

// missingItems are the reasons why the drill answers no question, said once for all rows.
func missingItems(j *verdict.Judgement) []doc.Item {
	var list []doc.Item
	said := map[string]bool{}
	for i, l := range j.Missing {
		if l.Code == verdict.MissingLiveSystem { // which the headline says
			continue
		}
		list = append(list, doc.Of("why", l.Why))
		if i > 0 && j.Missing[0].Code == verdict.MissingCompletion { // what a run that ended early lacks tells nothing of the file
			continue
		}
		if !said[l.Next] {
			list = append(list, doc.Of("next", l.Next))
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
	tone                      doc.Tone
	promise, observed, sample string
	glance                    string
	inFile                    verdict.SLOResult // with times as the file has them
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
	word, tone := sloWord(s.Verdict)
	s.Lock = cmp.Or(s.Lock, "alerts") // all else is of a lock
	r := sloRow{SLOResult: s, word: word, tone: tone, promise: promise(s), observed: observed(s), sample: sample(s), glance: glance(s), inFile: s}
	if scale := j.Run.TimeScale; s.Unit == verdict.UnitSeconds && s.Declared != s.Limit && scale > 0 && scale != 1 {
		r.inFile.Lo, r.inFile.Limit = s.Lo/scale, s.Declared
		if s.Hi != nil {
			hi := *s.Hi / scale
			r.inFile.Hi = &hi
		}
		if s.Why != "" && s.Verdict == verdict.Fail {
			r.Why = "In real time, which is " + factor(scale) + " of the file's: " + s.Why
		}
		if s.N > 0 || s.Hi != nil {
			real := " real x " + strconv.FormatFloat(1/scale, 'g', 4, 64) + ")"
			r.observed = observed(r.inFile) + " (" + r.observed + real
			r.glance = glance(r.inFile) + " (" + r.glance + real
		}
	}
	return r
}

// promise is the SLO in words, with the limit as the file has it: "takeover max <= 30s", "duplicate terminal states 0".
func promise(s verdict.SLOResult) string {
	words, sign := verdict.MeasureWords(s.Measure), asks(s.Ask)
	if s.Fault != "" {
		words = s.Fault + " provokes " + words
	}
	if s.Against != nil {
		return fmt.Sprintf("%s %s %s of that of %s", words, sign, factor(s.Against.Share), s.Against.Lock)
	}
	level := strings.HasPrefix(s.Measure, "metric.") && strings.HasSuffix(s.Measure, ".max") // which may be below 0
	if s.Unit == verdict.UnitCount && s.Limit == 0 && !level {
		return words + " 0"
	}
	limit := s.Limit
	if s.Unit == verdict.UnitSeconds {
		limit = s.Declared
	}
	return words + " " + sign + " " + exact(limit, s.Unit)
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
func glance(s verdict.SLOResult) string {
	if s.Unit != verdict.UnitSeconds || s.Ask == verdict.Exactly || s.N == 0 && s.Hi == nil || s.Verdict == verdict.Inconclusive {
		return observed(s)
	}
	limit, lo := figures.Nanoseconds(s.Limit), figures.Down(figures.Nanoseconds(s.Lo))
	if (s.Ask == verdict.AtLeast) == (s.Verdict == verdict.Pass) { // the lower end is held against the limit
		if (lo < limit) == (s.Lo < s.Limit) && (lo > limit) == (s.Lo > s.Limit) {
			return figures.Exact(lo)
		}
		return observed(s)
	}
	if s.Hi == nil {
		return observed(s)
	}
	if hi := figures.Up(figures.Nanoseconds(*s.Hi)); (hi > limit) == (*s.Hi > s.Limit) && (hi < limit) == (*s.Hi < s.Limit) {
		return figures.Exact(hi)
	}
	return observed(s)
}

// sample is what the figure stands on, and what it cannot exclude where nothing was seen.
func sample(s verdict.SLOResult) string {
	if !bounded(s) {
		return sampleSize(s)
	}
	return sampleSize(s) + "; " + riskText(s)
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
	return fmt.Sprintf("up to %s of such faults could still break it (0 of %s did)", percent(*s.Bound), figures.Plural(s.BoundN, "fault"))
}

// bounded reports whether a row says what it cannot exclude.
func bounded(s verdict.SLOResult) bool { return s.Verdict == verdict.Pass && s.Bound != nil }
