package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/rehearsal"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// oldOfPython is what judge cost on this file before a history was read once: so many times what Python's json costs.
const oldOfPython = 3.0

// BenchmarkJudgeBesidePython judges a long history and writes all reports, in turn with two yardsticks over the same lines, of which
// nothing is kept: Python's json, and encoding/json into an Event.
func BenchmarkJudgeBesidePython(b *testing.B) {
	python, err := exec.LookPath("python3")
	if err != nil {
		b.Fatalf("the yardstick is Python's json: %v", err)
	}
	dir := b.TempDir()
	longRun(b, dir)
	var ours, theirs, decoded time.Duration
	for b.Loop() {
		from := processorTime(b)
		if _, err := judgeDir(io.Discard, dir); err != nil {
			b.Fatal(err)
		}
		ours += processorTime(b) - from
		cmd := exec.Command(python, "-c", "import json, sys\nfor line in open(sys.argv[1]): json.loads(line)", filepath.Join(dir, historyFile))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		theirs += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		from = processorTime(b)
		decodeEvents(b, filepath.Join(dir, historyFile))
		decoded += processorTime(b) - from
	}
	b.ReportMetric(ours.Seconds()/float64(b.N), "cpu-s/judge")
	b.ReportMetric(theirs.Seconds()/float64(b.N), "cpu-s/python")
	b.ReportMetric(decoded.Seconds()/float64(b.N), "cpu-s/encoding-json")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "of-python")
	b.ReportMetric(ours.Seconds()/decoded.Seconds(), "of-encoding-json")
	b.ReportMetric(oldOfPython, "of-python-before")
}

// decodeEvents decodes each line of a history after its first, which is the header.
func decodeEvents(b *testing.B, path string) {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	lines.Scan()
	for lines.Scan() {
		var ev history.Event
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			b.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
}

// longRun fills dir with a rehearsed drill of some 69,000 events.
func longRun(b *testing.B, dir string) {
	e, err := experiments.Load(filepath.Join("testdata", "long.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	d, err := rehearsal.New(e, sim.DefaultNet()).Run(context.Background(), 1)
	if err != nil {
		b.Fatal(err)
	}
	resolved, err := experiments.Marshal(e)
	if err != nil {
		b.Fatal(err)
	}
	d.History.Header.Tool, d.History.Header.Digest = "lockdrill bench", experiments.Digest(resolved)
	if err := writeRecorded(dir, resolved, d.History); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, historyFile))
	if err != nil || info.Size() < 10<<20 {
		b.Fatalf("not a long history: %v, %v", info, err)
	}
}

// processorTime is what this process has used so far: on a machine that others use too, the wall clock says more about them.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
