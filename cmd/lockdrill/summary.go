package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/reports"
)

// What a run leaves in a ConfigMap of its namespace, for people who look there first and for whoever watches scheduled drills.

// maxClosing bounds the closing summary in a ConfigMap, which holds 1 MiB in all.
const maxClosing = 64 << 10

// summaryWithin bounds writing it.
const summaryWithin = 10 * time.Second

// openSummary says where the summary of a drill goes, if it is wanted. It does not dial.
func (g *gate) openSummary(e *experiments.Experiment, c clusterFlags) error {
	if g.summary == "" {
		return nil
	}
	cluster, err := c.open(e)
	if err != nil {
		return err
	}
	if cluster == nil {
		return usagef("%s: --summary-configmap needs a cluster, and this experiment has no kubernetes section: --result-file and --junit need none", e.Name)
	}
	g.cluster = cluster
	return nil
}

// told writes the summary of a judged drill.
func (g *gate) told(r reports.Run) {
	if g.cluster == nil {
		return
	}
	var b strings.Builder
	if err := reports.Terminal(&b, r.Judgement, reports.TerminalOptions{}); err != nil {
		g.say("--summary-configmap", err)
		return
	}
	j := r.Judgement
	g.write(map[string]string{
		"experiment": j.Run.Experiment, "run": j.Run.ID, "verdict": j.Verdict, "exitCode": strconv.Itoa(j.ExitCode),
		"started": j.Run.Started, "ended": j.Run.Ended, "summary": cutText(b.String(), maxClosing),
	})
}

// untold writes that a drill has no verdict. A run that was refused writes nothing: nothing is touched then, this included.
func (g *gate) untold(name string, code int, why string, now time.Time) {
	if g.cluster == nil || code == verdict.ExitUsage || code == verdict.ExitRefused {
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

func (g *gate) write(data map[string]string) {
	ctx, cancel := context.WithTimeout(context.Background(), summaryWithin)
	defer cancel()
	if err := g.cluster.WriteSummary(ctx, g.summary, data); err != nil {
		g.say("--summary-configmap", err)
	}
}

// summaryNeeds is what a drill needs that leaves a summary.
func summaryNeeds(e *experiments.Experiment, name string) kube.Needs {
	n := needs(e)
	n.Summary = name
	return n
}
