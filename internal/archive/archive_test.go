package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// nights makes n folders of runs, and a reader that says which of them it reads.
func nights(t testing.TB, n int) (dir string, r *Reader, read *[]string) {
	t.Helper()
	dir, read = t.TempDir(), new([]string)
	for i := range n {
		write(t, filepath.Join(dir, fmt.Sprintf("2026-01-%02d", i+1), "history.jsonl"), "{}")
	}
	r = &Reader{Tool: "lockdrill 1", Files: []string{"experiment.yaml", "history.jsonl"}, Say: func(int, int) {}, Observe: func(dir string) (*compare.Observed, error) {
		*read = append(*read, filepath.Base(dir))
		if filepath.Base(dir) == "2026-01-02" {
			return nil, errors.New("damaged")
		}
		hi := 1.5
		o := &compare.Observed{Experiment: "nightly", Run: compare.ComparedRun{ID: filepath.Base(dir), Started: filepath.Base(dir) + "T02:00:00Z"}}
		for i := range 60 {
			o.Environment = append(o.Environment, experiments.Setting{Path: fmt.Sprint("system.locks.", i), Value: "60s"})
		}
		for i := range 8 {
			o.Rows = append(o.Rows, compare.Row{Sample: verdict.Sample{Question: &experiments.Limit{Lock: "job", Measure: fmt.Sprint("m", i)}}, Lo: 1, Hi: &hi})
		}
		return o, nil
	}}
	return dir, r, read
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRunsAreReadOnceAndAgainWhereTheyChanged(t *testing.T) {
	dir, r, read := nights(t, 5)
	index := filepath.Join(dir, IndexFile)
	for _, c := range []struct {
		name   string
		before func()
		want   int
	}{
		{"nothing is known", func() {}, 5},
		{"all is known", func() {}, 0},
		{"one has changed", func() { write(t, filepath.Join(dir, "2026-01-03", "history.jsonl"), "{}\n{}") }, 1},
		{"one is new", func() { write(t, filepath.Join(dir, "2026-01-06", "history.jsonl"), "{}") }, 1},
		{"one is gone", func() { _ = os.RemoveAll(filepath.Join(dir, "2026-01-06")) }, 0},
		{"the index is damaged", func() { write(t, index, `{"Tool":"lockdrill 1","Runs":{"2026-01-01"`) }, 5},
		{"the index is of a version that observed otherwise", func() {
			was, err := os.ReadFile(index)
			if err != nil {
				t.Fatal(err)
			}
			write(t, index, strings.Replace(string(was), fmt.Sprintf(`"Version":%d`, compare.ObservedVersion), `"Version":1`, 1))
		}, 5},
		{"the index points nowhere", func() {
			write(t, index, fmt.Sprintf(`{"Version":%d,"Tool":"lockdrill 1","Runs":{"2026-01-01":{"Stamp":["a"],"Environment":7,"Seen":{}}}}`, compare.ObservedVersion))
		}, 5},
		{"the index is gone", func() { _ = os.Remove(index) }, 5},
		{"another version reads", func() { r.Tool = "lockdrill 2" }, 5},
		{"a folder that is no run, and a link to one that is", func() {
			write(t, filepath.Join(dir, "notes", "a.txt"), "")
			_ = os.Symlink("2026-01-01", filepath.Join(dir, "latest"))
		}, 0},
	} {
		c.before()
		*read = nil
		runs, err := r.Runs(dir)
		if err != nil || len(*read) != c.want {
			t.Errorf("%s: %d read, want %d (%v)", c.name, len(*read), c.want, err)
		}
		want := 5
		if c.name == "one is new" {
			want = 6
		}
		if len(runs) != want {
			t.Fatalf("%s: %d runs, want %d", c.name, len(runs), want)
		}
		for i, run := range runs {
			switch {
			case i == 1 && (run.Seen != nil || run.Why != "damaged"):
				t.Errorf("%s: the damaged run is %+v", c.name, run)
			case i != 1 && (run.Seen == nil || len(run.Seen.Environment) != 60 || run.Seen.Run.Folder != run.Folder):
				t.Errorf("%s: run %d is %+v", c.name, i, run)
			}
		}
	}
}

func TestAFolderThatNobodyMayWriteToIsReadAllTheSame(t *testing.T) {
	dir, r, read := nights(t, 3)
	write(t, filepath.Join(dir, IndexFile, "in-the-way"), "") // a folder by that name: root may write to any other
	for range 2 {
		*read = nil
		if runs, err := r.Runs(dir); err != nil || len(runs) != 3 || len(*read) != 3 {
			t.Errorf("%d runs, %d read, %v", len(runs), len(*read), err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, IndexFile+".*")); err != nil || left != nil {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestAPoolBeginsOnce(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 9, 1, 2, 0, 0, 0, time.UTC)
	if _, err := StartOf(dir, "autumn"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a pool that nobody began: %v", err)
	}
	if err := NoteStart(dir, "autumn", now); err != nil {
		t.Fatal(err)
	}
	if err := NoteStart(dir, "autumn", now.Add(time.Hour)); err == nil {
		t.Error("the same name began twice")
	}
	if from, err := StartOf(dir, "autumn"); err != nil || !from.Equal(now) {
		t.Errorf("it began %v, %v", from, err)
	}
	write(t, filepath.Join(dir, startsFile), "{")
	if err := NoteStart(dir, "winter", now); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a damaged file: %v", err)
	}
}

// BenchmarkAThousandRuns is the reading of folders that are all in the index.
func BenchmarkAThousandRuns(b *testing.B) {
	dir, r, _ := nights(b, 1000)
	if _, err := r.Runs(dir); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if runs, err := r.Runs(dir); err != nil || len(runs) != 1000 {
			b.Fatal(len(runs), err)
		}
	}
}
