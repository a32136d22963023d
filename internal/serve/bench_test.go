//go:build full

package serve

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// BenchmarkTenThousandRuns looks over a folder of many runs, and gives its pages.
func BenchmarkTenThousandRuns(b *testing.B) {
	const runs = 10_000
	dir := b.TempDir()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range runs {
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
	from := time.Now()
	s := start(b, dir, nil)
	first := time.Since(from)
	from = time.Now()
	if err := s.lookOver(b.Context()); err != nil {
		b.Fatal(err)
	}
	look := time.Since(from)
	for b.Loop() {
		for _, path := range []string{"/", "/experiments/nightly", "/api/v1/runs", "/api/v1/gate?experiment=nightly", "/metrics"} {
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
	b.ReportMetric(look.Seconds()*1e3, "ms/look")
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MB/heap")
}
