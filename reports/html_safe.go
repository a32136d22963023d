package reports

import (
	"encoding/json"
	"fmt"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// mostEmbedded bounds the verdict inside the page, in bytes.
const mostEmbedded = 400_000

// embedded is the verdict that a page carries. Above the bound its long lists are cut, and the note says so.
func embedded(j *verdict.Judgement) (data []byte, note string, err error) {
	data, err = json.Marshal(j)
	note = "The verdict as JSON is part of this page, in the element with the id verdict."
	for most := 200; err == nil && len(data) > mostEmbedded && most > 0; most /= 4 {
		cut := *j
		cut.Takeovers, cut.Abandonments, cut.Duplicates = first(j.Takeovers, most), first(j.Abandonments, most), first(j.Duplicates, most)
		cut.Debts, cut.Faults, cut.Overlap = first(j.Debts, most), first(j.Faults, most), first(j.Overlap, most)
		cut.Distributions, cut.Findings, cut.Warnings = first(j.Distributions, most), first(j.Findings, most), first(j.Warnings, most)
		cut.Lints = first(j.Lints, most)
		data, err = json.Marshal(&cut)
		note = fmt.Sprintf("The verdict as JSON is part of this page, in the element with the id verdict; its lists are cut after %d entries, verdict.json has all.", most)
	}
	if err != nil {
		return nil, "", fmt.Errorf("embed the verdict: %w", err)
	}
	return data, note, nil
}

func first[T any](list []T, most int) []T { return list[:min(len(list), most)] }
