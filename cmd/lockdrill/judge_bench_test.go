package main

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// BenchmarkJudgeBesidePython judges a rehearsed drill of some 69,000 events and writes all reports, in turn with a yardstick over the same
// lines, of which nothing is kept: Python's json.
func BenchmarkJudgeBesidePython(b *testing.B) {
	e, err := experiments.Load(filepath.Join("testdata", "long.yaml"))
	must(b, err)
	d, err := rehearsal.New(e, sim.DefaultNet()).Run(context.Background(), 1)
	must(b, err)
	resolved, err := experiments.Marshal(e)
	must(b, err)
	dir := b.TempDir()
	d.History.Header.Tool, d.History.Header.Digest = "lockdrill bench", experiments.Digest(resolved)
	must(b, writeRecorded(dir, resolved, d.History))
	var theirs time.Duration
	for b.Loop() {
		if _, err := judgeDir(io.Discard, dir); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		cmd := exec.Command("python3", "-c", "import json, sys\nfor line in open(sys.argv[1]): json.loads(line)", filepath.Join(dir, historyFile))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("the yardstick is Python's json: %v: %s", err, out)
		}
		theirs += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		b.StartTimer()
	}
	b.ReportMetric(theirs.Seconds()/float64(b.N), "cpu-s/python")
	b.ReportMetric(b.Elapsed().Seconds()/theirs.Seconds(), "of-python")
}
