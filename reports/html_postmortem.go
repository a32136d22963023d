package reports

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis"
)

// postmortemBlocks are the headings of a post-mortem: what was measured is filled in, what only people know is left to them.
// `lockdrill report DIR -f postmortem-md` writes the same as a text to edit.
func postmortemBlocks(r Run) []block {
	j := r.Judgement
	word, _ := runWord(j.Verdict)
	return slices.Concat(
		[]block{{Muted: "What was measured stands here; what is left blank is for people. lockdrill report DIR -f postmortem-md writes it as a text to edit."}},
		blank("Summary", "two sentences: what was tried, what happened, what it means for users",
			fmt.Sprintf("%s: %s; %s.", word, tally(j), runText(j.Run))),
		blank("Impact", "who noticed it, and what it would have cost in production", impactTexts(j)...),
		blank("Detection", "which alert fired, when, and who saw it; which should have"),
		blank("Root causes", "why the system allowed it", reasonsOf(j)...),
		blank("What went well, what was luck", "what kept it from being worse", heldTexts(j)...),
		blank("Actions", "what is done about it, by whom, until when", nextsOf(j)...),
	)
}

// blank is a heading with what was measured, and room for people.
func blank(title, hint string, measured ...string) []block {
	blocks := []block{{Heading: title}}
	if len(measured) > 0 {
		blocks = append(blocks, block{List: shortened(measured)})
	}
	return append(blocks, block{Blank: hint})
}

func impactTexts(j *analysis.Judgement) []string {
	var list []string
	for _, s := range seriesOf(j.Takeovers, j.Faults) {
		list = append(list, fmt.Sprintf("takeover of %s: %s: %s", clipped(s.lock, longName), s.head(), listed(s.extent())))
	}
	for _, i := range append(workItems(j.Counts), debtItems(j.Debts)...) {
		if i.Text != "" {
			list = append(list, i.Label+": "+i.Text)
		}
	}
	return list
}

func reasonsOf(j *analysis.Judgement) []string {
	var list []string
	for _, s := range worstFirst(j.SLOs) {
		if s.Verdict != analysis.Pass {
			list = append(list, fmt.Sprintf("%s %s: %s", clipped(s.Lock, longName), promise(s, j.Run.TimeScale), s.Why))
		}
	}
	return list
}

func heldTexts(j *analysis.Judgement) []string {
	var list []string
	for _, s := range j.SLOs {
		if s.Verdict == analysis.Pass {
			list = append(list, fmt.Sprintf("%s %s: %s, %s", clipped(s.Lock, longName), promise(s, j.Run.TimeScale), observed(s), sample(s)))
		}
	}
	return list
}

func nextsOf(j *analysis.Judgement) []string {
	var list []string
	for _, s := range worstFirst(j.SLOs) {
		if s.Verdict != analysis.Pass && s.Next != "" && !slices.Contains(list, s.Next) {
			list = append(list, s.Next)
		}
	}
	return list
}
