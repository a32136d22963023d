package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/runs"
)

// BenchmarkTenThousandRuns looks over a folder of many runs, and gives its pages.
func BenchmarkTenThousandRuns(b *testing.B) {
	const many = 10_000
	dir := b.TempDir()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range many {
		id := fmt.Sprintf("run-%05d", i)
		if err := os.Mkdir(filepath.Join(dir, id), 0o755); err != nil {
			b.Fatal(err)
		}
		for name, text := range files(b, id, "pass", begin.Add(time.Duration(i)*time.Hour)) {
			path := filepath.Join(dir, id, name)
			if err := errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chtimes(path, begin, begin)); err != nil {
				b.Fatal(err)
			}
		}
	}
	heavy := func(o *Options) {
		observe := o.Reader.Observe
		o.Reader.Observe = func(ctx context.Context, dir string) (*compare.Observed, error) {
			seen, err := observe(ctx, dir)
			if err == nil {
				seen.Experiment, seen.Bytes = "nightly-"+dir[len(dir)-1:], dir // ten experiments
				asUsual(seen)
			}
			return seen, err
		}
	}
	from := time.Now()
	s := start(b, dir, heavy)
	first := time.Since(from)
	s.stop()
	from = time.Now()
	s = start(b, dir, heavy)
	next := time.Since(from)
	from = time.Now()
	if err := s.index.Look(b.Context()); err != nil {
		b.Fatal(err)
	}
	look := time.Since(from)
	name := s.index.Runs(runs.Query{Limit: 1})[0].Experiment
	for b.Loop() {
		for _, path := range []string{"/", "/experiments/" + name, "/api/v1/runs", "/api/v1/gate?experiment=" + name, "/metrics"} {
			from := time.Now()
			if code, body := s.ask(b, "GET", path, Anybody, nil); code != http.StatusOK {
				b.Fatalf("%s: %d %s", path, code, body)
			}
			b.Logf("%s: %s", path, time.Since(from).Round(time.Millisecond))
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(first.Seconds(), "s/first-look")
	b.ReportMetric(next.Seconds(), "s/next-start")
	b.ReportMetric(look.Seconds()*1e3, "ms/look")
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MB/heap")
}

// asUsual gives a run as much as a drill of two locks has: eight rows, with the values of twelve kills, and some seventy settings.
func asUsual(seen *compare.Observed) {
	for i := range 8 {
		row := compare.Row{Sample: verdict.Sample{Question: &experiments.Limit{Lock: "leader", Measure: fmt.Sprint("measure-", i)}, Unit: "s", Of: "kill"}, Verdict: verdict.Pass}
		for j := range 12 {
			hi := float64(i) + float64(j)/6
			row.Values = append(row.Values, verdict.Range{Lo: float64(i) + float64(j)/7, Hi: &hi})
		}
		seen.Rows = append(seen.Rows, row)
	}
	for i := range 70 {
		seen.Environment = append(seen.Environment, experiments.Setting{Path: fmt.Sprintf("system.locks.leader.policy.setting-%d", i), Value: "400ms"})
	}
}
