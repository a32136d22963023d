package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// What was counted, and of how much that is all. A 0 is said only where the run would have shown more.

// countWords are what measures count, by the names that a judgement has for what it does not know.
var countWords = map[string]string{
	"lock_debt":                 "lock debt",
	"overlap":                   "stale and unowned writes",
	"abandonments":              "abandonments",
	"duplicate_terminal_states": "duplicate terminal states",
	"re_executed":               "work done again",
	"stranded":                  "stranded jobs",
	"not_owned":                 "answers",
	"held":                      "holds",
	"wait":                      "waits",
}

// The measures of the parts of a report.
var (
	ofWork = []string{"overlap", "abandonments", "duplicate_terminal_states", "re_executed", "stranded"}
	ofKeys = []string{"lock_debt", "not_owned", "held", "wait"}
	ofBoth = slices.Concat(ofWork, ofKeys)
)

// knowledge is how much of what there was of a measure a run would have shown, at the lock of which it knows least.
type knowledge int

const (
	whole   knowledge = iota
	partial           // something was not watched
	none              // nothing tells it
)

func knows(j *verdict.Judgement, measure string) knowledge {
	k := whole
	for _, u := range j.Unknown {
		switch {
		case u.Measure != measure:
		case u.Missing.Code == verdict.MissingTeller:
			return none
		default:
			k = partial
		}
	}
	return k
}

// counted is a count of a measure in words, text of n; "" where a 0 would claim what nothing tells.
func counted(j *verdict.Judgement, measure string, n int, text string) string {
	switch k := knows(j, measure); {
	case k == whole:
		return text
	case n > 0:
		return "at least " + text
	case k == partial:
		return text + " seen"
	}
	return ""
}

// list joins parts; empty ones are left out.
func list(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// workItems are what became of the jobs, and what the ledger saw.
func workItems(j *verdict.Judgement) []doc.Item {
	c := j.Counts
	var items []doc.Item
	if c.Jobs > 0 {
		items = append(items, doc.Of("jobs", list("; ",
			fmt.Sprintf("%s offered, %s finished", figures.Count(c.Jobs), figures.Count(c.Finished)),
			list(", ", figures.Plural(c.TerminalAccepted, "terminal state")+" accepted", counted(j, "duplicate_terminal_states", c.Duplicates, figures.Plural(c.Duplicates, "duplicate"))),
			list(", ", counted(j, "re_executed", c.ReExecuted, upTo(c.ReExecuted, c.ReExecutedAtMost)+" re-executed"),
				counted(j, "stranded", c.Stranded, upTo(c.Stranded, c.StrandedAtMost)+" stranded")))))
	}
	items = append(items,
		doc.Of("stale writes", counted(j, "overlap", c.StaleApplied+c.StaleRefused, fmt.Sprintf("%s applied, %s refused", figures.Count(c.StaleApplied), figures.Count(c.StaleRefused)))),
		doc.Of("abandonments", counted(j, "abandonments", c.Abandonments, figures.Count(c.Abandonments))))
	var rare []string
	for _, r := range []struct {
		n    int
		name string
	}{
		{c.UnownedEffects, "effect written without owning the key"},
		{c.FenceRegressions, "fence regression"},
		{c.OwnerRejected, "write of the rightful owner refused"},
		{c.FalseTakeovers, "grant while the store still owed the victim its lease"},
		{c.NothingOwed, "key of a victim with nothing owed"},
		{c.OrphanAcquires, "grant that nobody learnt of and nobody gave back"},
	} {
		if r.n > 0 {
			rare = append(rare, figures.Count(r.n)+" x "+r.name)
		}
	}
	return append(items, doc.Of("besides", strings.Join(rare, "; ")))
}

// mostUnknown bounds how many locks are named together of which the same is not known.
const mostUnknown = 3

// unknownItems say what of the measures is not known, or may be more than was seen, and why: once for all that a reason holds for.
func unknownItems(j *verdict.Judgement, measures []string) []doc.Item {
	type reason struct {
		verdict.Missing
		measures, locks []string
	}
	var all []*reason
	for _, u := range j.Unknown {
		if !slices.Contains(measures, u.Measure) || u.Lock == "" { // that there is no lock is said by itself
			continue
		}
		at := slices.IndexFunc(all, func(r *reason) bool { return r.Missing == u.Missing })
		if at < 0 {
			at, all = len(all), append(all, &reason{Missing: u.Missing})
		}
		r := all[at]
		r.measures, r.locks = addOnce(r.measures, countWords[u.Measure]), addOnce(r.locks, u.Lock)
	}
	var items []doc.Item
	for _, r := range all {
		label := "may be more"
		if r.Code == verdict.MissingTeller {
			label = "not known"
		}
		word := "lock"
		if len(r.locks) > 1 {
			word = "locks"
		}
		items = append(items, doc.Of(label, fmt.Sprintf("%s of %s %s. %s", inWords(r.measures), word, someOf(r.locks, mostUnknown), r.Why)))
	}
	return items
}

func addOnce(all []string, s string) []string {
	if slices.Contains(all, s) {
		return all
	}
	return append(all, s)
}

// inWords joins names in a sentence.
func inWords(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// shotCount is how many shots the file declares, how many were fired, and of those how many were confirmed and how many count for nothing.
type shotCount struct{ declared, fired, confirmed, void int }

func (c shotCount) add(o shotCount) shotCount {
	return shotCount{c.declared + o.declared, c.fired + o.fired, c.confirmed + o.confirmed, c.void + o.void}
}

// String is the one sentence about shots: "2 of 3 declared shots confirmed (5 fired, 3 void)". What was fired is told where it is not
// what was declared.
func (c shotCount) String() string {
	text := fmt.Sprintf("%s of %s confirmed", figures.Count(min(c.confirmed, c.declared)), figures.Plural(c.declared, "declared shot"))
	more := ""
	switch {
	case c.declared == 0:
		text = figures.Plural(c.confirmed, "shot") + " confirmed"
	case c.fired == c.declared && c.confirmed == c.declared:
		return text
	case c.fired == 0:
		return text + " (none fired)"
	case c.confirmed > c.declared:
		more = ", " + figures.Count(c.confirmed) + " confirmed"
	}
	if c.void > 0 {
		more += ", " + figures.Count(c.void) + " void"
	}
	return fmt.Sprintf("%s (%s fired%s)", text, figures.Count(c.fired), more)
}

// shotCounts counts the shots by fault; ids are the faults in the order of their first shot, then those that were never fired.
func shotCounts(j *verdict.Judgement) (ids []string, of map[string]shotCount) {
	of = map[string]shotCount{}
	for _, s := range j.Faults {
		ids = addOnce(ids, s.ID)
		c := of[s.ID]
		c.declared, c.fired = s.Shots, c.fired+1
		if s.Confirmed && !s.Void {
			c.confirmed++
		} else {
			c.void++
		}
		of[s.ID] = c
	}
	for _, f := range j.NeverFired {
		ids, of[f.ID] = append(ids, f.ID), shotCount{declared: f.Shots}
	}
	return ids, of
}

// hits says how many of the faults that hit holders of a lock were aimed at another one: a replica that held both dies with both. ""
// where none was.
func hits(lock string, faults map[string]bool, shots []verdict.FaultResult) string {
	aimed, other := 0, 0
	for _, s := range shots {
		switch {
		case !faults[shotName(s)]:
		case s.Lock == lock:
			aimed++
		case s.Lock != "":
			other++
		}
	}
	switch {
	case other == 0:
		return ""
	case other == len(faults):
		return "all aimed at another lock and hit this one by the way"
	}
	return fmt.Sprintf("%s aimed at this lock, %s at another and hit this one by the way", figures.Count(aimed), figures.Count(other))
}
