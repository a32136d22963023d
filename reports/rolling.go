package reports

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

const rollingTitle = "Rolling restarts: what each cost"

// rollingItems are the rolling restarts, and below each what it cost at every lock.
func rollingItems(j *verdict.Judgement) []doc.Item {
	var list []doc.Item
	for _, r := range j.Rolling {
		all := len(r.Restarted) + len(r.Left)
		text := fmt.Sprintf("%d of %s restarted, from %s to %s", len(r.Restarted), figures.Plural(all, "replica"), since(r.From), until(r.To))
		if len(r.Left) > 0 {
			text += "; not restarted: " + strings.Join(r.Left, ", ")
		}
		list = append(list, doc.Of(r.Fault, text))
		for _, c := range r.Locks {
			list = append(list, doc.Of(c.Lock, costWords(c)))
		}
	}
	return list
}

// costWords is what a rolling restart cost at one lock.
func costWords(c verdict.RollingCost) string {
	text := fmt.Sprintf("hand-overs: %s; without a leader: %s in all, %s at the longest; two leaders at once: %s",
		span(c.Handovers.Lo, c.Handovers.Hi, verdict.UnitCount), atMostOf(c.Without), atMostOf(c.Longest), atMostOf(c.Overlap))
	if !c.Loop {
		text = fmt.Sprintf("%s cut short; the longest waited %s until another replica took it", figures.Plural(c.N, "job"), atMostOf(c.Longest))
	}
	if c.Stranded > 0 {
		text += fmt.Sprintf("; %d of %d not taken again", c.Stranded, c.N)
	}
	return text
}

// atMostOf is the upper end of a time, or what is known where it has none.
func atMostOf(r verdict.Range) string {
	switch {
	case r.Hi != nil:
		return roughly(*r.Hi)
	case r.Lo > 0:
		return "at least " + roughly(r.Lo)
	}
	return "unknown"
}
