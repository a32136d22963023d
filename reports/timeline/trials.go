package timeline

import (
	"cmp"
	"slices"
)

// strike is what one fault did to one lock: the takeover of each of its keys, the longest first.
type strike struct {
	lock, fault string
	trials      []*TrialLane
}

// Trials draws the worst takeover of each lock close up, with what the same fault did to other keys of it.
func Trials(l *Lanes) (out []Picture) {
	for _, s := range worst(l) {
		out = append(out, closeup(l, s))
	}
	return out
}

// Closeups gives, by the number of a takeover, the ID of the picture that shows it close up; most have none.
func Closeups(l *Lanes) map[int]string {
	ids := map[int]string{}
	for _, s := range worst(l) {
		for _, t := range s.trials {
			ids[t.Number] = closeupID(s)
		}
	}
	return ids
}

// worst is the strike of each lock whose takeover was the longest, in the order in which locks were struck first.
func worst(l *Lanes) (out []*strike) {
	at := map[string]int{}
	for _, s := range strikesOf(l) {
		switch i, known := at[s.lock]; {
		case !known:
			at[s.lock] = len(out)
			out = append(out, s)
		case byLength(s.trials[0], out[i].trials[0]) < 0:
			out[i] = s
		}
	}
	return out
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

// rowsOf is a row of a table for each of list.
func rowsOf[T any](list []T, row func(T) []string) [][]string {
	var rows [][]string
	for _, x := range list {
		rows = append(rows, row(x))
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
