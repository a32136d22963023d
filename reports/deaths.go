package reports

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// Kills that take their time: of pods, the call, the end of the object and the end of the process are three instants; of processes that
// are asked to end, the first and the last. Only what was seen of the last one says since when the lock could not be extended any more.

func deathTitle(j *verdict.Judgement) string {
	if slices.ContainsFunc(slowKills(j), func(f verdict.FaultResult) bool { return !bySignal(f) }) {
		return "Kills of pods: the call, the object, the process"
	}
	return "Kills with a grace: the signal, the process"
}

// bySignal reports a process that was asked to end: there is no object.
func bySignal(f verdict.FaultResult) bool { return f.Death.Means == history.MeansSignal }

// slowKills are the shots of which a death was seen, or what there is of one.
func slowKills(j *verdict.Judgement) []verdict.FaultResult {
	return slices.DeleteFunc(slices.Clone(j.Faults), func(f verdict.FaultResult) bool { return f.Death == nil })
}

// deathWords are the columns of a kill of a pod.
type deathWords struct{ call, object, sign, end string }

func deathOf(f verdict.FaultResult) deathWords {
	d := f.Death
	w := deathWords{call: since(d.Call.From), object: "not seen", sign: since(d.Sign), end: "not seen"}
	switch {
	case d.Object != nil:
		w.object = until(*d.Object.To)
	case bySignal(f):
		w.object = "has none"
	case f.Form == fault.Crash:
		w.object = "stays"
	}
	if d.End != nil {
		w.end = "by " + until(*d.End.To) + ", " + seenBy(d.By)
	}
	return w
}

// since and until are instants of the run to the millisecond, rounded to the side that claims less.
func since(seconds float64) string { return fmt.Sprintf("T+%.3fs", math.Floor(seconds*1e3+1e-6)/1e3) }
func until(seconds float64) string { return fmt.Sprintf("T+%.3fs", math.Ceil(seconds*1e3-1e-6)/1e3) }

// seenBy says what showed the end of a process.
func seenBy(by string) string {
	switch by {
	case "status":
		return "seen in the container's status"
	case "log_stream":
		return "seen by the end of its log"
	case "successor":
		return "seen when its successor spoke"
	case "kernel":
		return "as the kernel says"
	}
	return "seen"
}

// meansWords is how the process was to be ended.
func meansWords(f verdict.FaultResult) string {
	switch f.Death.Means {
	case "worker":
		return "told to die"
	case "exec":
		return "a command in its container"
	case "signal":
		return "asked to end by SIGTERM"
	}
	if f.Form == fault.ForceDelete {
		return "deleted with grace 0"
	}
	return "deleted with its own grace"
}

// leavesOpen is one sentence on what a kill of a pod leaves open.
func leavesOpen(f verdict.FaultResult) string {
	d := f.Death
	switch {
	case !f.Confirmed:
		return "It counts for nothing: it was not confirmed."
	case d.End == nil:
		return "Nobody saw the process end: it may live on. Takeovers from its last sign of life are shown to be at most so long, never at least."
	}
	within := "The process ended within " + roughly(*d.End.To-d.Sign) + " of its last sign of life: a takeover is known no closer than that."
	if f.Form != fault.Crash {
		within += " A hand-over is counted from the call."
	}
	if d.Object != nil && *d.Object.To < d.Sign {
		return fmt.Sprintf("The process surely lived for %s after its object was gone, beside whatever replaced it. %s", roughly(d.Sign-*d.Object.To), within)
	}
	return within
}

// deathBlocks are these kills, a row each, and below it what each leaves open.
func deathBlocks(j *verdict.Judgement) []doc.Block {
	g := tableOf(deathTitle(j), "fault,victim,means,call,object gone,last sign of life,process ended", slowKills(j),
		func(f verdict.FaultResult) ([]doc.Cell, []int64) {
			w := deathOf(f)
			return []doc.Cell{figureCell(shotName(f)), plainCell(f.Victim), plainCell(meansWords(f)), figureCell(w.call),
				figureCell(w.object), figureCell(w.sign), plainCell(w.end)}, nil
		})
	if g == nil {
		return nil
	}
	for i, f := range first(slowKills(j), rowsOfTable) {
		g.Rows[i].Notes = []doc.Item{doc.Of("so", leavesOpen(f))}
	}
	return []doc.Block{{Table: g},
		{Least: doc.Page, Text: "A pod's object is an entry in a list: it judges nothing. The clock of a takeover starts between the last sign of life and the seen end of the process; of a hand-over, at the call.", Quiet: true}}
}
