package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/drill"
	"github.com/lockdrill/lockdrill/reports"
)

// What a run leaves in a ConfigMap of its namespace, for people who look there first and for whoever watches scheduled drills.

// maxClosing bounds the closing summary in a ConfigMap, which holds 1 MiB in all.
const maxClosing = 64 << 10

// openSummary says where the summary of a drill goes, if it is wanted. It does not dial.
func (g *gate) openSummary(e *experiments.Experiment, c drill.Cluster) error {
	if g.summary == "" {
		return nil
	}
	to, err := drill.OpenSummary(e, c, g.summary)
	if err != nil {
		return err
	}
	g.leave = to.Write
	return nil
}

// write leaves a summary where one is wanted.
func (g *gate) write(data map[string]string) {
	if err := g.leave(data); err != nil {
		g.say("--summary-configmap", err)
	}
}

// leaveVerdict writes the summary of a judged drill.
func (g *gate) leaveVerdict(r reports.Run) {
	var b strings.Builder
	if err := reports.Terminal(&b, r.Judgement, reports.Options{}); err != nil {
		g.say("--summary-configmap", err)
		return
	}
	j := r.Judgement
	g.write(map[string]string{
		"experiment": j.Run.Experiment, "run": j.Run.ID, "verdict": j.Verdict, "exitCode": strconv.Itoa(j.ExitCode),
		"started": j.Run.Started, "ended": j.Run.Ended, "summary": cutText(b.String(), maxClosing),
	})
}

// leaveUnjudged writes that a drill has no verdict. A run that was refused writes nothing: nothing is touched then, this included.
func (g *gate) leaveUnjudged(name string, code int, why string, now time.Time) {
	if code == verdict.ExitUsage || code == verdict.ExitRefused {
		return
	}
	g.write(map[string]string{
		"experiment": name, "run": "", "verdict": verdict.ExitName(code), "exitCode": strconv.Itoa(code),
		"started": "", "ended": now.UTC().Format(time.RFC3339), "summary": cutText(reports.Harmless(experiments.Redact(why)), maxClosing),
	})
}

// cutText is the beginning of text, at most so many bytes.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}
