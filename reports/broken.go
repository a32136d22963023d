package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// mostBroken bounds the sentences of what went wrong.
const mostBroken = 20

// brokenTable has a sentence for each long takeover, each time with two believers, each duplicate and each write without the lock: which fault it followed, whom it struck by its
// owner's name, and the picture that shows it. nil where nothing went wrong.
func brokenTable(r Run) (*doc.Table, error) {
	g := &doc.Table{Label: "What went wrong, one by one", Cards: true, Columns: []doc.Column{{Name: "what", Head: true}, {Name: "how it happened"}, {Name: "see"}}, Most: map[doc.Level]int{doc.Full: mostBroken}, Where: "verdict.json has them all"}
	add := func(what, text, picture string, refs []int64) {
		link := doc.Cell{Text: "timeline", Link: "#" + cmp.Or(picture, "overview")}
		if picture != "" {
			link.Text = "close-up"
		}
		g.Rows = append(g.Rows, doc.Row{Cells: []doc.Cell{plainCell(what), plainCell(text + "."), link}, Refs: refs})
	}
	own := ownNames(r.Lanes)
	pictures := timeline.Closeups(r.Lanes)
	for i := range r.Lanes.Trials {
		if t := &r.Lanes.Trials[i]; t.Limit != nil && t.Lo > *t.Limit {
			add("long takeover", longSentence(r.Judgement, t, own), pictures[t.Number], t.Evidence)
		}
	}
	for i := range r.Lanes.Locks {
		l := &r.Lanes.Locks[i]
		for k := range l.Both {
			if mayNotBeTwo(r.Judgement, l.Lock) {
				add("two holders", bothSentence(r.Judgement, l.Lock, &l.Both[k], own), "", l.Both[k].Refs)
			}
		}
	}
	for _, d := range r.Judgement.Duplicates {
		text := d.Sentence()
		if len(d.Writes) == 0 { // of an earlier lockdrill
			text = "Job " + d.Job + " was finished " + figures.Count(d.Extra+1) + " times"
		}
		add("duplicate", text, "", d.Evidence)
	}
	writes, err := staleWrites(r)
	for _, e := range writes {
		add("late write", staleSentence(r.Judgement, e, r.Lanes, own), "", []int64{e.N})
	}
	if len(g.Rows) == 0 {
		return nil, err
	}
	return g, err
}

// longSentence tells of a takeover that took longer than was promised.
func longSentence(j *verdict.Judgement, t *timeline.TrialLane, own func(string) string) string {
	took, promised := span(t.Lo, t.Hi, verdict.UnitSeconds), ""
	for _, s := range j.SLOs {
		if s.Lock == t.Lock && strings.HasPrefix(s.Measure, "takeover") && s.Limit == *t.Limit {
			s.Lo, s.Hi, s.N, s.Verdict = t.Lo, t.Hi, 1, verdict.Fail
			row := rowOf(s, j)
			took, promised = row.glance, "; promised is "+row.promise
			break
		}
	}
	text := "Lock " + t.Lock + ": "
	if t.Fault != "" {
		text += t.Fault + " struck " + own(t.Victim) + ", and "
	} else {
		text += own(t.Victim) + " held it, and "
	}
	if t.Successor == "" {
		return text + "nobody took over for " + took + promised
	}
	return text + own(t.Successor) + " took over after " + took + promised
}

// mayNotBeTwo reports that two believed to hold the lock for longer than was promised.
func mayNotBeTwo(j *verdict.Judgement, lock string) bool {
	return slices.ContainsFunc(j.SLOs, func(s verdict.SLOResult) bool {
		return s.Lock == lock && s.Name() == "overlap."+verdict.LevelBelief && s.Verdict == verdict.Fail
	})
}

// bothSentence tells of two replicas that relied on a lock at once, and of the last fault that had struck one of them by then.
func bothSentence(j *verdict.Judgement, lock string, b *timeline.Both, own func(string) string) string {
	what := "lock " + lock
	if b.Key != "" && b.Key != lock {
		what = "key " + b.Key
	}
	text := fmt.Sprintf("Lock %s: %s and %s both relied on %s from %s, for %s", lock, own(b.A), own(b.B), what, figures.Clock(int64(b.Start.From*1e9)),
		span(b.End.From-b.Start.From, new(b.End.From-b.Start.From), verdict.UnitSeconds))
	return text + after(j, b.End.From, []string{b.A, b.B}, []string{own(b.A), own(b.B)}, "either")
}

// after says which fault had struck the first of the replicas, each called as told, that one had struck by then; where none had, which had
// struck the system.
func after(j *verdict.Judgement, by float64, replicas, called []string, none string) string {
	for i, who := range replicas {
		if f := lastStruck(j, who, by); f != nil {
			return ", after " + shotName(*f) + " had struck " + called[i]
		}
	}
	text := "; no fault had struck " + none
	if f := lastStruck(j, "", by); f != nil {
		text += ", and " + shotName(*f) + " had struck the system at " + figures.Clock(int64(f.Effective.From*1e9))
	}
	return text
}

// lastStruck is the last confirmed fault that had struck a life of a replica by then, or ("") the system and no replica; nil where none had.
func lastStruck(j *verdict.Judgement, who string, by float64) (last *verdict.FaultResult) {
	for i := range j.Faults {
		f := &j.Faults[i]
		if f.Confirmed && f.Effective != nil && f.Effective.From <= by && strikes(f, who) && (last == nil || f.Effective.From > last.Effective.From) {
			last = f
		}
	}
	return last
}

// strikes reports whether the fault struck a life of a replica, or ("") the system and no replica.
func strikes(f *verdict.FaultResult, who string) bool {
	if who == "" {
		return (f.Victim == "" || f.Victim == "store") && len(f.Victims) == 0
	}
	return f.Victim == who || slices.Contains(f.Victims, who)
}

// staleWrites are the writes that were applied though their writer's lock was gone, but for those of a duplicate, whose sentence tells of
// them.
func staleWrites(r Run) (all []*history.Event, err error) {
	told := map[int64]bool{}
	for _, d := range r.Judgement.Duplicates {
		for _, n := range d.Evidence {
			told[n] = true
		}
	}
	var numbers []int64
	for _, o := range r.Judgement.Overlap {
		if o.Level == verdict.LevelEffect && o.Stale+o.Unowned > 0 { // else its evidence is of what may have been late, and nobody is accused of that
			numbers = append(numbers, o.Evidence...)
		}
	}
	numbers = slices.DeleteFunc(numbers, func(n int64) bool { return told[n] || n < 1 || n > r.Record.count })
	err = r.Record.events(numbers, func(e *history.Event) {
		if e.Entry != nil && e.Entry.Accepted {
			found := *e
			all = append(all, &found)
		}
	})
	return all, err
}

// staleSentence tells of a write without the lock, and of the last fault that had struck its writer by then.
func staleSentence(j *verdict.Judgement, e *history.Event, held *timeline.Lanes, own func(string) string) string {
	writer := cmp.Or(e.Entry.Writer, held.Holder(e.Lock, e.Key, e.Epoch))
	by := "nobody known"
	if who := cmp.Or(writer, e.Entry.Named); who != "" {
		by = own(who)
	}
	text := fmt.Sprintf("Lock %s: %s wrote %s of %s at %s without holding the lock", e.Lock, by, e.Entry.State, e.Entry.Subject, figures.Clock(e.To))
	return text + after(j, float64(e.To)/1e9, []string{cmp.Or(writer, "nobody known")}, []string{"it"}, "it")
}

// ownNames gives a life of a replica the name that its owner knows it by.
func ownNames(l *timeline.Lanes) func(incarnation string) string {
	called := map[string]string{}
	for i := range l.Replicas {
		for _, life := range l.Replicas[i].Lives {
			called[life.Incarnation] = life.Called
		}
	}
	return func(incarnation string) string { return timeline.OwnName(incarnation, called[incarnation]) }
}
