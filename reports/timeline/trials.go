package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/internal/figures"
)

const (
	maxTrials  = 60 // close-ups; of more, the longest get one
	maxSummary = 40 // takeovers in one picture of those without a close-up
	maxCut     = 12 // pictures of those without
)

// strike is what one fault did to one lock: the takeover of each of its keys, the longest first.
type strike struct {
	lock, fault string
	trials      []*TrialLane
}

// Trials draws every takeover: a close-up for each fault and lock, and bars for those beyond the longest 60.
func Trials(l *Lanes) []Picture {
	all := strikesOf(l)
	drawn := closest(all)
	var out []Picture
	var rest []*TrialLane
	for _, s := range all {
		if slices.Contains(drawn, s) {
			out = append(out, closeup(l, s))
			continue
		}
		rest = append(rest, s.trials...)
	}
	return append(out, summaries(rest, l.TimeScale)...)
}

// Closeups gives, by the number of a takeover, the ID of the picture that shows it closest; none of those without a close-up.
func Closeups(l *Lanes) map[int]string {
	ids := map[int]string{}
	all := strikesOf(l)
	for _, s := range closest(all) {
		for _, t := range s.trials {
			ids[t.Number] = closeupID(s)
		}
	}
	return ids
}

// closest are those of all that get a close-up.
func closest(all []*strike) []*strike {
	ranked := slices.Clone(all)
	slices.SortStableFunc(ranked, func(a, b *strike) int { return byLength(a.trials[0], b.trials[0]) })
	return ranked[:min(maxTrials, len(ranked))]
}

func closeupID(s *strike) string { return "trial-" + count(s.trials[0].Number) }

func strikesOf(l *Lanes) []*strike {
	var all []*strike
	at := map[[2]string]*strike{}
	for i := range l.Trials {
		t := &l.Trials[i]
		id := [2]string{t.Lock, t.Fault}
		s := at[id]
		if s == nil || t.Fault == "" {
			s = &strike{lock: t.Lock, fault: t.Fault}
			at[id] = s
			all = append(all, s)
		}
		s.trials = append(s.trials, t)
	}
	for _, s := range all {
		slices.SortStableFunc(s.trials, byLength)
	}
	return all
}

// trialColumns of every table of trials.
var trialColumns = []string{"#", "Where", "Fault", "From", "To", "Takeover", "Left of the lease", "Pickup", "Warm-up", "Struck", "Lease end", "Granted", "Ended", "Class"}

// rowsOf is a row of a table for each of the first of list, and one that counts the others.
func rowsOf[T any](list []T, row func(T) []string) [][]string {
	var rows [][]string
	for _, x := range list[:min(len(list), maxRows)] {
		rows = append(rows, row(x))
	}
	if more := len(list) - len(rows); more > 0 {
		last := make([]string, len(rows[0]))
		last[0] = figures.Count(more) + " more: verdict.json has them all"
		rows = append(rows, last)
	}
	return rows
}

func trialRow(t *TrialLane) []string {
	struck, granted, ended := "no fault", "not seen", "not seen by T+"+fixed(t.Until)+"s"
	if t.Struck != nil {
		struck = at(*t.Struck)
	}
	if t.Next != nil {
		granted = at(t.Next.Granted)
	}
	if t.Ended != nil {
		ended = at(*t.Ended) + " (" + t.Takeover.End + ")"
	}
	return []string{count(t.Number), where(t.Lock, t.Key), t.Fault, t.Victim, cmp.Or(t.Successor, "nobody yet"),
		bracket(t.Whole()), optional(t.Residual), optional(t.Pickup), optional(t.Warmup),
		struck, at(t.Held.End), granted, ended, t.Class}
}
