package reports

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// postmortemBlocks are the headings of a post-mortem: what was measured is filled in, what only people know is left to them.
// `lockdrill judge DIR -f postmortem-md` writes the same as a text to edit.
func postmortemBlocks(r Run) []doc.Block {
	j := r.Judgement
	word, _ := runWord(j.Verdict)
	return slices.Concat(
		[]doc.Block{{Text: "What was measured stands here; what is left blank is for people. lockdrill judge DIR -f postmortem-md writes it as a text to edit.", Quiet: true}},
		forPeopleToSay(pmSummary, fmt.Sprintf("%s: %s; %s.", word, tally(j), runText(j.Run))),
		forPeopleToSay(pmImpact, impactTexts(j)...),
		forPeopleToSay(pmDetection),
		forPeopleToSay(pmCauses, reasonsOf(j)...),
		forPeopleToSay(pmLuck, heldTexts(j)...),
		forPeopleToSay(pmActions, nextsOf(j)...),
	)
}

func impactTexts(j *verdict.Judgement) []string {
	var list []string
	for _, s := range unmet(j) {
		list = append(list, fmt.Sprintf("%s: %s, %s: %s, %s", s.word, doc.Shorten(s.Lock, doc.LongName), s.promise, s.observed, s.sample))
	}
	for _, s := range seriesOf(j.Takeovers, j.Faults) {
		list = append(list, fmt.Sprintf("takeover of %s: %s: %s", doc.Shorten(s.lock, doc.LongName), s.head(), listed(s.extent())))
	}
	for _, i := range slices.Concat(workItems(j), debtItems(j.Debts), unknownItems(j, ofBoth)) {
		if i.Text != "" {
			list = append(list, i.Label+": "+i.Text)
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
