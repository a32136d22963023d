package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

const (
	validTitle = "Was the drill valid?"
	drillTitle = "How the drill went"
)

// validOf answers validTitle with yes or no, and says in a few words what there is to know beside it.
func validOf(j *verdict.Judgement) (answer, says string) {
	answer = "Yes"
	if len(j.Missing) > 0 && !lacksLiveAlone(j.Missing) || !j.Run.Steady || !j.Run.CleanedUp || j.Verdict == "error" {
		answer = "No"
	}
	var all shotCount
	ids, counts := shotCounts(j)
	for _, id := range ids {
		all = all.add(counts[id])
	}
	says = fmt.Sprintf("%s, clean-up %s.", all, cleanUpText(j))
	if all.declared+all.fired == 0 {
		says = "No fault was fired; clean-up " + cleanUpText(j) + "."
	}
	return answer, verdict.Sentences(says, voidText(j.Faults), delayText(j))
}

// voidText counts the shots that counted for nothing, with the commonest reason; "" where there was none.
func voidText(shots []verdict.FaultResult) string {
	n, most, why, of := 0, 0, "", map[string]int{}
	for _, s := range shots {
		if !s.Void && s.Confirmed {
			continue
		}
		n++
		if of[s.Why]++; of[s.Why] > most {
			most, why = of[s.Why], s.Why
		}
	}
	switch {
	case n == 0:
		return ""
	case most == n:
		return fmt.Sprintf("%s void: %s", figures.Plural(n, "shot"), why)
	}
	return fmt.Sprintf("%s void, %s of them: %s", figures.Plural(n, "shot"), figures.Count(most), why)
}

// delayText counts how often probes looked too late or could not look, and what that did to the verdict; "" where they were in time.
func delayText(j *verdict.Judgement) string {
	late, worst := 0, 0.0
	var parts []string
	for _, s := range j.Probes {
		if s.Gaps > s.Failed {
			late, worst = late+s.Gaps-s.Failed, max(worst, *s.LargestGap)
		}
		switch {
		case s.Failed > 0 && s.Samples == 0:
			parts = append(parts, "Probe "+s.ID+" could not look at all: "+s.Why)
		case s.Failed > 0:
			parts = append(parts, fmt.Sprintf("Probe %s could not look %s: %s", s.ID, figures.Plural(s.Failed, "time"), s.Why))
		case s.LargestGap == nil:
			parts = append(parts, "Probe "+s.ID+" never looked")
		}
	}
	if late > 0 {
		parts = append(parts, fmt.Sprintf("Probes were delayed %s, by up to %s", figures.Plural(late, "time"), figures.Exact(figures.Up(figures.Nanoseconds(worst)))))
	}
	if len(parts) > 0 {
		parts[len(parts)-1] += gapText(j)
	}
	return verdict.Sentences(parts...)
}

// gapText is what gaps of probes did to the verdict, by what the rows lack; "" where that is not known: a row whose limit lies within what
// was measured may owe that to a gap, and so may a run in which no holder was found.
func gapText(j *verdict.Judgement) string {
	suffer, perhaps := 0, len(j.Missing) > 0
	for _, s := range j.Rows() {
		if s.Verdict != verdict.Inconclusive {
			continue
		}
		switch {
		case slices.ContainsFunc(s.Missing, func(m verdict.Missing) bool { return m.Code.OfLooks() }):
			suffer++
		case len(s.Missing) == 0, slices.ContainsFunc(s.Missing, func(m verdict.Missing) bool { return !m.Code.ApartFromLooks() }):
			perhaps = true
		}
	}
	switch {
	case suffer > 0:
		return "; " + figures.Plural(suffer, "row") + " cannot be answered for it"
	case perhaps || j.Run.Status != verdict.StatusCompleted:
		return ""
	}
	return "; no effect on the verdict"
}

// validityItems are what the drill consisted of, and how well it was watched.
func validityItems(j *verdict.Judgement) []doc.Item {
	steady := "held before the first fault"
	if !j.Run.Steady {
		steady = "NOT reached: nothing after it means anything"
	}
	list := append([]doc.Item{doc.Of("steady state", steady)}, faultItems(j)...)
	for _, probe := range j.Probes {
		list = append(list, doc.Of("probe", probeText(probe)))
		if probe.Cost != nil {
			list = append(list, doc.Of("watching", costText(probe.Cost)))
		}
	}
	if m := j.Monitor; m != nil {
		list = append(list, doc.Of("MONITOR", fmt.Sprintf("%s, %s in all. Meanwhile the server reported %s commands and used %.0f%% of a processor for all its clients.",
			figures.Plural(m.Windows, "window"), exact(m.Seconds, verdict.UnitSeconds), figures.Count(m.Commands), 100*m.Server/max(m.Seconds, 1e-9))))
	}
	if len(j.HoldersBy) > 0 {
		list = append(list, doc.Of("holder by", holdersText(j.HoldersBy)))
	}
	if len(j.Probes) == 0 {
		list = append(list, doc.Of("probes", "NONE looked"))
	}
	if j.Machine != nil {
		list = append(list, doc.Of("machine", machineText(j.Machine)))
	}
	return list
}

// calledItems are the owner's words for the replicas of a service that is somebody's own: by these its logs are found.
func calledItems(l *timeline.Lanes) []doc.Item {
	var parts []string
	for i := range l.Replicas {
		if called := l.Replicas[i].Called(); called != "" {
			parts = append(parts, timeline.OwnName(l.Replicas[i].Name, called))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []doc.Item{doc.Of("replicas", someOf(parts, mostOfReplicas))}
}

// mostOfReplicas bounds how many replicas are listed.
const mostOfReplicas = 20

// holdersText says which sources named the holders, and of how many epochs.
func holdersText(by map[string]int) string {
	var parts []string
	for _, source := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, source+" "+figures.Count(by[source]))
	}
	return strings.Join(parts, ", ")
}

// machineText says how late the runner's machine was, and what that means.
func machineText(m *verdict.LateMachine) string {
	text := fmt.Sprintf("this machine was late %s, by %s in all and %s at worst", figures.Plural(m.Stretches, "time"), roughly(m.Late), roughly(m.Worst))
	if !m.Judges {
		text += "; no time is taken off for it, because the replicas did not run on it"
	}
	return text
}

// lateText is what of a time a late machine may have made, at most; "" where it was in time. Of a sum it may be more than the machine was late in
// all: several waited at once.
func lateText(late float64) string {
	if late == 0 {
		return ""
	}
	return "a late machine may account for " + figures.Exact(figures.Up(figures.Nanoseconds(late)))
}

func cleanUpText(j *verdict.Judgement) string {
	switch {
	case j.Run.CleanedUp:
		return "verified"
	case j.Run.Status == verdict.StatusCutOff && j.Verdict != "dirty":
		return "not recorded (the run was cut off)"
	}
	return "NOT verified"
}

func runText(r verdict.RunInfo) string {
	text := fmt.Sprintf("%s after %s", r.Status, exact(r.Seconds, verdict.UnitSeconds))
	if r.Status == verdict.StatusCutOff {
		text = fmt.Sprintf("CUT OFF after %s: the history has no end", exact(r.Seconds, verdict.UnitSeconds))
	}
	return fmt.Sprintf("%s, from %s to %s", text, second(r.Started), second(r.Ended))
}

// second is a wall time without its fraction: it is a label, and no figure hangs on it.
func second(wall string) string {
	t, err := time.Parse(time.RFC3339Nano, wall)
	if err != nil {
		return wall
	}
	return t.UTC().Format(time.RFC3339)
}

// faultItems count the shots of each fault, and list the void ones.
func faultItems(j *verdict.Judgement) []doc.Item {
	ids, counts := shotCounts(j)
	if len(ids) == 0 {
		return []doc.Item{doc.Of("faults", "NONE fired")}
	}
	var list []doc.Item
	for _, id := range ids {
		list = append(list, doc.Of("fault", id+": "+counts[id].String()))
	}
	return append(append(list, shotItems(j.Faults)...), doc.Of("void", voidText(j.Faults)))
}

// mostShots bounds how many shots of one fault are told one by one.
const mostShots = 3

// shotItems tell of the confirmed ones that lasted, or that were measured, what was configured and what was seen. A kill has nothing to
// tell but its takeovers.
func shotItems(shots []verdict.FaultResult) []doc.Item {
	var list []doc.Item
	told, more := map[string]int{}, map[string]int{}
	var ids []string
	for _, s := range shots {
		if !s.Confirmed || specOf(s).Traits().Kills {
			continue
		}
		if told[s.ID]++; told[s.ID] > mostShots {
			if more[s.ID]++; more[s.ID] == 1 {
				ids = append(ids, s.ID)
			}
			continue
		}
		list = append(list, doc.Of("confirmed", shotName(s)+": "+shotText(s)))
	}
	for _, id := range ids {
		list = append(list, doc.Of("confirmed", fmt.Sprintf("%s: and %s, see verdict.json", id, figures.Plural(more[id], "more shot"))))
	}
	return list
}

// shotName is what the history calls a shot: kill-holder#3.
func shotName(s verdict.FaultResult) string { return fmt.Sprintf("%s#%d", s.ID, s.Shot) }

// faultName is the kind of a fault, with its form and its magnitude.
func faultName(s verdict.FaultResult) string {
	if specOf(s).By() == fault.Toxic { // what is configured names the stream as well
		return fault.Words(s.Kind, s.Configured)
	}
	return fault.Words(strings.TrimSpace(s.Kind+" "+s.Form), s.Configured)
}

func shotText(s verdict.FaultResult) string {
	parts := []string{faultName(s) + " on " + targets(specOf(s).Traits(), s.Victim, s.Victims)}
	if seen := measuredIn(s); seen != "" {
		parts = append(parts, seen)
	}
	if s.Declared != nil && s.Declared.To != nil && *s.Declared.To > s.Declared.From {
		parts = append(parts, "declared "+window(s.Declared))
	}
	return strings.Join(append(parts, "in effect "+window(s.Effective)), "; ")
}

// window is a stretch of the run.
func window(w *verdict.Window) string {
	switch {
	case w == nil:
		return "at no known time"
	case w.To == nil:
		return "from " + clockAt(w.From) + ", never seen to end"
	case clockAt(w.From) == clockAt(*w.To):
		return "at " + clockAt(w.From)
	}
	return clockAt(w.From) + " to " + clockAt(*w.To)
}

func probeText(s verdict.ProbeSummary) string {
	if s.LargestGap == nil {
		return s.ID + ": never looked"
	}
	text := fmt.Sprintf("%s: %s, largest gap %s", s.ID, figures.Plural(s.Samples, "sample"), figures.Exact(figures.Up(figures.Nanoseconds(*s.LargestGap))))
	if late := s.Gaps - s.Failed; late > 0 {
		text += ", delayed beyond its limit " + figures.Plural(late, "time")
	}
	if s.Failed > 0 {
		text += fmt.Sprintf(", could not look %s: %s", figures.Plural(s.Failed, "time"), s.Why)
	}
	return text
}

// costText says what watching lock keys has cost their store.
func costText(c *verdict.WatchCost) string {
	text := fmt.Sprintf("by keyspace events: %s, %s", figures.Plural(c.Commands, "command"), figures.Plural(c.Events, "event"))
	if c.Way == history.ByPolling {
		text = "by reading the keys in turn: " + figures.Plural(c.Commands, "command")
	}
	if c.Core != nil {
		text += fmt.Sprintf("; about %.1f%% of a core of the store, which used %.1f%% in all", 100**c.Core, 100**c.Store)
	} else {
		text += "; the store does not tell what that cost it"
	}
	if c.Why != "" {
		text += ". No keyspace events: " + c.Why
	}
	return text
}

// mostRemarks bounds the findings, and the warnings, of the summary.
const mostRemarks = 20
