package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Plan is what a run would do. It never says how it would come out.
func Plan(pl *forecast.Plan) *doc.Document {
	d := &doc.Document{Word: doc.Word{Text: "PLAN"}, Title: pl.Experiment, Lead: []string{"This is what a run would do. Nothing was touched, and the result is not predicted."},
		Foot: pageFoot("plan")}
	d.Lead = append(d.Lead, plannedWord(pl))
	if pl.TimeScale != 1 {
		d.Labels = []string{fmt.Sprintf("time scale %g: 1s of the file takes %s", pl.TimeScale, secs(pl.TimeScale))}
	}
	add := func(id, title string, blocks ...doc.Block) {
		short, _, _ := strings.Cut(title, ", ")
		d.Sections = append(d.Sections, doc.Section{ID: id, Title: title, Short: short, Blocks: blocks})
	}
	timeline := blocksFor(pl.Timeline, planned)
	if len(timeline) == 0 {
		timeline = []doc.Block{{Text: "The file has no fault: the promises are watched."}}
	}
	add("timeline", "Timeline, from the steady state on, in the times of the file", timeline...)
	add("together", "May be in effect together", doc.Block{List: textsOf(pl.Overlaps, func(pair [2]string) string { return pair[0] + " and " + pair[1] })})
	if pl.LockCalls == history.CallsSingle {
		add("operations", "Lock operations", doc.Block{Text: "Each operation is sent by itself: a proxy makes single ones fail, or the store takes no batches. Other drills on Redis send them in batches. " +
			"Waiters with backoff wake do not stand in line here."})
	}
	add("guards", "Guards", plannedGuards(pl)...)
	add("pods", "Pods, as they stand now", doc.Block{Table: plannedPods(pl)}) // whom a fault strikes among them is resolved when it is fired
	add("replicas", "Replicas, as they stand now", doc.Block{Table: tableFor("Replicas", "name,process,since", pl.Replicas, func(r forecast.PlannedReplica) []string {
		return []string{cmp.Or(r.Name, "(no name)"), fmt.Sprint(r.PID), r.Since}
	})})
	add("holders", "Holders, as their sources say now", blocksFor(pl.Holders, plannedHolder)...)
	add("beliefs", "Who leads, as the replicas say of themselves now", blocksFor(pl.Beliefs, plannedBelief)...)
	add("told", "What tells which promises, of each lock", blocksFor(pl.Told, plannedTold)...)
	add("effects", "Effects, the last ones that are there now", blocksFor(pl.Effects, func(x forecast.PlannedEffects) doc.Block {
		under := "no lock"
		if x.Lock != "" {
			under = "lock " + x.Lock
		}
		return doc.Block{Heading: fmt.Sprintf("%s, under %s, from the %s", x.Name, under, x.Source), List: spoken(append(x.Last, x.Why)...)}
	})...)
	add("signals", "Signals, as they stand now", blocksFor(pl.Signals, func(s forecast.PlannedSignal) doc.Block {
		return doc.Block{Heading: s.Name + ", " + s.Source, List: spoken(append(s.First, s.Why)...)}
	})...)
	add("checks", checksTitle, doc.Block{Table: plannedChecks(pl.Sums)})
	d.Sections = append(d.Sections, lockSums(pl.LockSums, pl.Rehearsed))
	add("beyond", "Not as the real lock, which these policies cannot say", doc.Block{List: textsOf(pl.Beyond, func(b forecast.PlannedBeyond) string { return strings.Join(b.Locks, ", ") + ": " + b.What })})
	add("trials", "Trials that a promised percentile needs", doc.Block{Items: itemsOf(pl.Quantiles, plannedQuantile)})
	add("expected", fmt.Sprintf("Expected of the faults, in %s", figures.Plural(pl.Rehearsed, "simulated run")), doc.Block{Items: itemsOf(pl.Expected, func(x forecast.RehearsedExpectation) doc.Item {
		return plannedExpectation(&x, pl.Rehearsed)
	})})
	add("duration", "Duration, in real time", doc.Block{Items: plannedDuration(pl)})
	return d
}

// plannedWord says whether the run may begin as things are, and which checks warn.
func plannedWord(pl *forecast.Plan) string {
	var refuse, warn []string
	for _, g := range pl.Guards {
		if g.Refuses {
			refuse = append(refuse, g.Name)
		}
	}
	for _, l := range pl.Sums {
		if !l.OK && !slices.Contains(warn, l.Rule) {
			warn = append(warn, l.Rule)
		}
	}
	text := "Every guard would let it run."
	if len(refuse) > 0 {
		text = "It would be refused now, by " + strings.Join(refuse, ", ") + "."
	}
	if len(warn) > 0 {
		text += " Checks that warn: " + strings.Join(warn, ", ") + "."
	}
	return text
}

// blocksFor makes a block of each of list.
func blocksFor[T any](list []T, block func(T) doc.Block) (all []doc.Block) {
	for _, x := range list {
		all = append(all, block(x))
	}
	return all
}

func itemsOf[T any](list []T, item func(T) doc.Item) (all []doc.Item) {
	for _, x := range list {
		all = append(all, item(x))
	}
	return all
}

func textsOf[T any](list []T, text func(T) string) (all []string) {
	for _, x := range list {
		all = append(all, text(x))
	}
	return all
}

// spoken are the texts that say something.
func spoken(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// tableFor makes a row of each of list.
func tableFor[T any](label, columns string, list []T, row func(T) []string) *doc.Table {
	g := &doc.Table{Label: label, Columns: doc.Columns(strings.Split(columns, ",")...)}
	for _, x := range list {
		var cells []doc.Cell
		for _, text := range row(x) {
			cells = append(cells, doc.Cell{Text: text})
		}
		g.Row(cells...)
	}
	return g
}

// secs is a number of seconds as a person writes it.
func secs(s float64) string { return exact(s, verdict.UnitSeconds) }

// about is secs of an estimate.
func about(s float64) string {
	if s > 1 {
		s = math.Round(s*10) / 10
	}
	return secs(s)
}

// planned is one fault of the timeline.
func planned(f forecast.PlannedFault) doc.Block {
	what := []string{f.Kind}
	for _, s := range []string{f.Form, f.Timing, f.Configured} {
		if s != "" && !strings.Contains(f.Configured, s) || s == f.Configured && s != "" {
			what = append(what, s)
		}
	}
	if f.For > 0 {
		what = append(what, "for "+secs(f.For))
	}
	switch {
	case f.Likely > 0:
		what = append(what, fmt.Sprintf("until answered: %d shots if none misses, %d at most, each when the last has settled", f.Likely, f.Shots))
	case f.Shots > 1 && f.Every > 0:
		what = append(what, fmt.Sprintf("%d shots, one every %s", f.Shots, secs(f.Every)))
	case f.Shots > 1:
		what = append(what, fmt.Sprintf("%d shots, each when the last has settled", f.Shots))
	}
	begins := "at " + secs(f.At)
	if f.After != "" {
		begins = "after " + f.After
		if f.Delay > 0 {
			begins += " and " + secs(f.Delay)
		}
	}
	return doc.Block{Heading: fmt.Sprintf("%s  %s  %s", begins, f.ID, strings.Join(what, ", ")),
		Items: []doc.Item{doc.Of("strikes", f.Whom), {Label: "now", Texts: f.Now}, doc.Of("does", f.Does), doc.Of("confirmed", f.Confirmed), doc.Of("undone", f.Undone)}}
}

func plannedGuards(pl *forecast.Plan) (blocks []doc.Block) {
	g := &doc.Table{Label: "Guards", Cards: true, Columns: []doc.Column{{Name: "guard", Head: true}, {}, {Name: "says"}}}
	for _, x := range pl.Guards {
		word := doc.Cell{Text: "ok", Tone: doc.Good}
		if x.Refuses {
			word = doc.Cell{Text: "REFUSES", Tone: doc.Bad}
		}
		g.Row(doc.Cell{Text: x.Name}, word, doc.Cell{Text: x.Says})
	}
	c := pl.Caps
	caps := []string{"no kills"}
	if c.MaxKills > 0 {
		caps[0] = "at most " + figures.Plural(c.MaxKills, "kill")
	}
	if c.MaxTargets > 0 {
		caps = append(caps, "at most "+figures.Plural(c.MaxTargets, "replica")+" by other faults")
	}
	g.Row(doc.Cell{Text: "caps"}, doc.Cell{}, doc.Cell{Text: strings.Join(append(caps, "at most "+secs(pl.Duration.MaxRun)+" in all"), ", ")})
	blocks = []doc.Block{{Table: g}}
	for _, x := range pl.Guards {
		if x.Paste != "" {
			blocks = append(blocks, doc.Block{Heading: x.Name, Code: x.Paste})
		}
	}
	return blocks
}

func plannedPods(pl *forecast.Plan) *doc.Table {
	return tableFor("Pods", "name,uid,phase,node", pl.Pods, func(pod forecast.PlannedPod) []string {
		state := pod.Phase
		if pod.Ready {
			state += ", ready"
		}
		return []string{pod.Name, pod.UID, state, cmp.Or(pod.Node, "none yet")}
	})
}

// plannedHolder is who holds a key.
func plannedHolder(h forecast.PlannedHolder) doc.Block {
	who := "not known"
	if h.By != "" {
		who = h.Name
		if h.PID != 0 {
			who += fmt.Sprintf(" (process %d)", h.PID)
		}
	}
	return doc.Block{Heading: fmt.Sprintf("%s  key %s: %s", h.Lock, h.Key, who), List: spoken(append([]string{h.Why}, h.Says...)...)}
}

// plannedBelief is who says that it leads.
func plannedBelief(b forecast.PlannedBelief) doc.Block {
	who := "nobody"
	switch {
	case b.Why != "":
		who = "not known"
	case len(b.Leads) > 0:
		who = strings.Join(b.Leads, " and ")
	}
	return doc.Block{Heading: fmt.Sprintf("%s  by %s: %s", b.Lock, b.Source, who), List: spoken(append([]string{b.Why}, b.Says...)...)}
}

// plannedTold is which sources tell what of a lock.
func plannedTold(t forecast.PlannedTold) doc.Block {
	block := doc.Block{Heading: t.Lock}
	for _, x := range t.By {
		names := make([]string, len(x.Measures))
		for i, m := range x.Measures {
			names[i] = verdict.MeasureWords(m)
		}
		text := strings.Join(names, ", ")
		if x.By == "" {
			x.By, text = "nothing yet", text+". Promise one, and validate shows the lines of the file that would add its source"
		}
		block.List = append(block.List, x.By+": "+text)
	}
	return block
}

// Sums are the checks of a shipped profile as it is.
func Sums(profile string, lints []forecast.Lint) *doc.Document {
	return &doc.Document{Word: doc.Word{Text: "CHECKS"}, Title: profile, Lead: []string{"These are the sums of its timings. Nothing was measured."},
		Foot: pageFoot("tune --profile " + profile), Sections: []doc.Section{{ID: "checks", Title: checksTitle, Blocks: []doc.Block{{Table: plannedChecks(lints)}}}}}
}

const checksTitle = "Checks, in the numbers of the file (lockdrill explain L1 ... L12)"

// pageFoot is the last line of a page that a command gives.
func pageFoot(command string) string {
	return "This page needs no network. lockdrill " + command + " -f json gives the same as data."
}

func plannedChecks(lints []forecast.Lint) *doc.Table {
	g := &doc.Table{Label: "Checks", Cards: true, Columns: []doc.Column{{Name: "rule", Head: true}, {}, {Name: "lock", Named: true}, {Name: "what it comes to"}}}
	for _, l := range lints {
		word := doc.Cell{Text: "ok", Tone: doc.Good}
		if !l.OK {
			word = doc.Cell{Text: "WARN", Tone: doc.Open}
		}
		g.Rows = append(g.Rows, doc.Row{Cells: []doc.Cell{{Text: l.Rule}, word, {Text: cmp.Or(l.Lock, "the run")}, {Text: l.Text}}, Notes: []doc.Item{doc.Of("means", l.Means)}})
	}
	return g
}

func plannedQuantile(q forecast.PlannedQuantile) doc.Item {
	text := fmt.Sprintf("%s %s %s needs %d independent trials if none misses; the file declares %d", q.Measure, q.Quantile, secs(q.Limit), q.Need, q.Declared)
	if q.NeedOne > 0 {
		text = fmt.Sprintf("%s %s %s is looked at after each trial: it needs %d if none misses, %d if one does; the file allows %d", q.Measure, q.Quantile, secs(q.Limit), q.Need, q.NeedOne, q.Declared)
	}
	if q.Declared < q.Need {
		text += ", so it stays inconclusive whatever is measured"
	}
	return doc.Of(q.Lock, text)
}

// plannedExpectation says whether a few rehearsals provoked what the fault is for.
func plannedExpectation(x *forecast.RehearsedExpectation, rehearsed int64) doc.Item {
	text := fmt.Sprintf("%s provokes %s: ", x.Fault, rehearsedAsk(x))
	switch x.Missed {
	case 0:
		text += "in all of them"
	case rehearsed:
		text += "in none of them. " + x.Why
	default:
		text += fmt.Sprintf("not in %d of them. Seed %d: %s", x.Missed, x.Seed, x.Why)
	}
	return doc.Of(x.Lock, text)
}

func plannedDuration(pl *forecast.Plan) []doc.Item {
	d := pl.Duration
	parts := []string{"steady state " + secs(d.SteadyState), "faults about " + about(d.Faults), "then " + about(d.Horizon) + " of waiting for late violations"}
	text := "about " + about(d.Expected) + ": " + strings.Join(parts, ", ")
	if d.Jobs > 0 {
		text += "; at least the " + about(d.Jobs) + " that the jobs take"
	}
	over := ""
	if d.Expected > d.MaxRun {
		over = ": the run would probably be aborted before its end (L10)"
	}
	list := []doc.Item{doc.Of("expected", text), doc.Of("max_run", secs(d.MaxRun)+over)}
	if slices.ContainsFunc(pl.Timeline, func(f forecast.PlannedFault) bool { return f.Shots > 1 }) {
		list = append(list, doc.Of("", "void shots are repeated, up to twice the declared count"))
	}
	return list
}
