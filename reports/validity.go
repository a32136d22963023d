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
)

// workItems are what became of the jobs, and what the ledger saw.
func workItems(c verdict.Counts) []item {
	var list []item
	if c.Jobs > 0 {
		list = append(list, item{"jobs", fmt.Sprintf("%s offered, %s finished; %s accepted, %s; %s re-executed, %s stranded",
			figures.Count(c.Jobs), figures.Count(c.Finished), figures.Plural(c.TerminalAccepted, "terminal state"), figures.Plural(c.Duplicates, "duplicate"),
			upTo(c.ReExecuted, c.ReExecutedAtMost), upTo(c.Stranded, c.StrandedAtMost))})
	}
	list = append(list, item{"stale writes", fmt.Sprintf("%s applied, %s refused", figures.Count(c.StaleApplied), figures.Count(c.StaleRefused))},
		item{"abandonments", figures.Count(c.Abandonments)})
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
	return append(list, item{"besides", strings.Join(rare, "; ")})
}

const validTitle = "Was the drill valid?"

// validityItems answer whether the drill itself can be believed.
func validityItems(j *verdict.Judgement) []item {
	list := []item{{"steady state", "held before the first fault"}}
	if !j.Run.Steady {
		list[0].Text = "NOT reached: nothing after it means anything"
	}
	list = append(list, faultItems(j.Faults)...)
	for _, probe := range j.Probes {
		list = append(list, item{"probe", probeText(probe)})
		if probe.Cost != nil {
			list = append(list, item{"watching", costText(probe.Cost)})
		}
	}
	if m := j.Monitor; m != nil {
		list = append(list, item{"MONITOR", fmt.Sprintf("%s, %s in all; the server told %s commands and used %.0f%% of a processor meanwhile, for all its clients",
			figures.Plural(m.Windows, "window"), exact(m.Seconds, verdict.UnitSeconds), figures.Count(m.Commands), 100*m.Server/max(m.Seconds, 1e-9))})
	}
	if len(j.HoldersBy) > 0 {
		list = append(list, item{"holder by", holdersText(j.HoldersBy)})
	}
	if len(j.Probes) == 0 {
		list = append(list, item{"probes", "NONE looked"})
	}
	if j.Machine != nil {
		list = append(list, item{"machine", machineText(j.Machine)})
	}
	return append(list, item{"clean-up", cleanUpText(j)}, item{"run", runText(j.Run)})
}

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
	text := fmt.Sprintf("LATE in %s, by %s in all, %s in the worst", figures.Plural(m.Stretches, "stretch"), exact(m.Late, verdict.UnitSeconds), exact(m.Worst, verdict.UnitSeconds))
	if !m.Judges {
		text += "; the replicas were elsewhere, or somebody else's, so it judges nothing"
	}
	return text
}

// lateText is what of a time a late machine may have made; "" where it was in time.
func lateText(late float64) string {
	if late == 0 {
		return ""
	}
	return "machine late by " + figures.Ceil(figures.Nanoseconds(late))
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
func faultItems(shots []verdict.FaultResult) []item {
	if len(shots) == 0 {
		return []item{{"faults", "NONE fired"}}
	}
	var list []item
	ids, counts := shotCounts(shots)
	for _, id := range ids {
		c := counts[id]
		text := fmt.Sprintf("%s: %d of %d declared confirmed", id, c.confirmed, c.declared)
		switch n := c.void; {
		case n > 0 && c.confirmed >= c.declared:
			text += ", " + figures.Plural(n, "void shot") + " repeated"
		case n > 0:
			text += ", " + figures.Plural(n, "shot") + " void"
		}
		list = append(list, item{"fault", text})
	}
	list = append(list, shotItems(shots)...)
	for _, s := range shots {
		name := shotName(s)
		switch {
		case s.Void:
			list = append(list, item{"void", name + ": " + s.Why})
		case !s.Confirmed:
			list = append(list, item{"unconfirmed", name + ": " + s.Why})
		}
	}
	return list
}

// shotCount is how many shots of one fault were declared, confirmed and void.
type shotCount struct{ declared, confirmed, void int }

// shotCounts counts the shots by fault; ids are the faults in the order of their first shot.
func shotCounts(shots []verdict.FaultResult) (ids []string, of map[string]shotCount) {
	of = map[string]shotCount{}
	for _, s := range shots {
		if !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
		c := of[s.ID]
		c.declared = s.Shots
		switch {
		case s.Void:
			c.void++
		case s.Confirmed:
			c.confirmed++
		}
		of[s.ID] = c
	}
	return ids, of
}

// mostShots bounds how many shots of one fault are told one by one.
const mostShots = 3

// shotItems tell of the confirmed ones that lasted, or that were measured, what was configured and what was seen. A kill has nothing to
// tell but its takeovers.
func shotItems(shots []verdict.FaultResult) []item {
	var list []item
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
		list = append(list, item{"confirmed", shotName(s) + ": " + shotText(s)})
	}
	for _, id := range ids {
		list = append(list, item{"", fmt.Sprintf("%s: and %s, see verdict.json", id, figures.Plural(more[id], "more shot"))})
	}
	return list
}

// shotName is what the history calls a shot: kill-holder#3.
func shotName(s verdict.FaultResult) string { return fmt.Sprintf("%s#%d", s.ID, s.Shot) }

// faultName is the kind of a fault, with its form and its magnitude.
func faultName(s verdict.FaultResult) string {
	if _, net := specOf(s).(fault.Network); net { // what is configured names the stream as well
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
	text := fmt.Sprintf("%s: %s, largest gap %s", s.ID, figures.Plural(s.Samples, "sample"), exact(*s.LargestGap, verdict.UnitSeconds))
	if s.Gaps > 0 {
		text += ", BLIND in " + figures.Plural(s.Gaps, "stretch")
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

// remarks are the contradictions and the warnings.
func (p *page) remarks(j *verdict.Judgement) {
	if len(j.Findings)+len(j.Warnings) == 0 {
		return
	}
	p.title("Remarks")
	for _, f := range first(j.Findings, mostRemarks) {
		text := findingText(f)
		if seen := events(f.Evidence); seen != "" {
			text += " (" + seen + ")"
		}
		p.item("finding", text)
	}
	if more := len(j.Findings) - mostRemarks; more > 0 {
		p.item("", figures.Plural(more, "more finding")+" in verdict.json")
	}
	for _, w := range first(j.Warnings, mostRemarks) {
		p.item("warning", w)
	}
	if more := len(j.Warnings) - mostRemarks; more > 0 {
		p.item("", figures.Plural(more, "more warning")+" in verdict.json")
	}
	p.blank()
}

func findingText(f verdict.Finding) string {
	return "two ways to know the same thing disagree: " + f.What
}

// folder is where everything lies, and how to get it again.
func (p *page) folder(j *verdict.Judgement, o Options) {
	p.item("report", o.Report)
	if o.Folder != "" {
		p.item("folder", o.Folder)
		p.item("judge again", "lockdrill judge "+o.Folder)
	}
	p.item("run again", o.Reproduce)
	parts := []string{j.Verdict}
	if s := scale(j); s != "" {
		parts = append(parts, s)
	}
	p.item("verdict", fmt.Sprintf("%d (%s)", j.ExitCode, strings.Join(parts, " ")))
}
