package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// folder is a folder of runs, and who reads them.
type folder struct {
	t    *testing.T
	dir  string
	read []string // folders that were read
	said []string
	tool string
}

// run makes one, or changes it: its verdict stands in the experiment's file.
func (f *folder) run(name, id, says string) {
	f.t.Helper()
	header, err := json.Marshal(history.Header{Schema: history.SchemaVersion, Tool: "lockdrill test", Run: id, Experiment: "nightly", Digest: "sha256:00", Seed: 1, Mode: history.Live, TimeScale: 1,
		Started: time.Date(2026, 7, 6, 12, 0, len(name), 0, time.UTC).Format(time.RFC3339Nano)})
	if err != nil {
		f.t.Fatal(err)
	}
	dir := filepath.Join(f.dir, name)
	err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "experiment.yaml"), []byte(says), 0o644),
		os.WriteFile(filepath.Join(dir, "history.jsonl"), []byte(string(header)+"\n"+`{"n":1,"kind":"run.end"}`+"\n"), 0o644))
	if err != nil {
		f.t.Fatal(err)
	}
}

// open opens the index and looks.
func (f *folder) open(anew bool) *Index {
	f.t.Helper()
	f.read, f.said = nil, nil
	x, err := Open(f.dir, "a test", Reader{Experiment: "experiment.yaml", History: "history.jsonl", Tool: f.tool, Observe: f.observe}, anew, func(line string) { f.said = append(f.said, line) })
	if err != nil {
		f.t.Fatal(err)
	}
	if err := x.Look(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return x
}

func (f *folder) observe(_ context.Context, dir string) (*compare.Observed, error) {
	f.read = append(f.read, filepath.Base(dir))
	h, err := Header(filepath.Join(dir, "history.jsonl"))
	says, err2 := os.ReadFile(filepath.Join(dir, "experiment.yaml"))
	return &compare.Observed{Bytes: string(says), Experiment: h.Experiment, Run: compare.ComparedRun{ID: h.Run, Started: h.Started, Verdict: string(says)},
		Environment: []experiments.Setting{{Path: "os", Value: "linux"}}}, errors.Join(err, err2)
}

func (f *folder) close(x *Index) {
	f.t.Helper()
	if err := x.Close(); err != nil {
		f.t.Fatal(err)
	}
}

// A run is read once, and again where its files, this version or what it is read by has changed; whatever became of the index, the folders
// give it back.
func TestTheFoldersAreTheTruth(t *testing.T) {
	f := &folder{t: t, dir: t.TempDir(), tool: "one"}
	f.run("a", "a", "pass")
	f.run("b", "b", "slo-failed")
	path := filepath.Join(f.dir, File)
	for _, c := range []struct {
		name   string
		change func()
		anew   bool
		want   []string // are read
	}{
		{"no index", func() {}, false, []string{"a", "b"}},
		{"an index", func() {}, false, nil},
		{"a run that was changed", func() { f.run("b", "b", "inconclusive") }, false, []string{"b"}},
		{"--reindex", func() {}, true, []string{"a", "b"}},
		{"another version of the tool", func() { f.tool = "two" }, false, []string{"a", "b"}},
		{"a line that was cut off", func() {
			data, err := os.ReadFile(path)
			testkit.Must(t, errors.Join(err, os.WriteFile(path, data[:len(data)-9], 0o600)))
		}, false, []string{"b"}},
		{"an index that is mended", func() {}, false, nil},
		{"what another version observed", func() {
			data, err := os.ReadFile(path)
			data = []byte(strings.ReplaceAll(string(data), fmt.Sprintf(`"Stamp":"%d `, compare.ObservedVersion), `"Stamp":"1 `))
			testkit.Must(t, errors.Join(err, os.WriteFile(path, data, 0o600)))
		}, false, []string{"a", "b"}},
		{"an index of something else", func() { _ = os.WriteFile(path, []byte("SQLite format 3\x00\n\n"), 0o600) }, false, []string{"a", "b"}},
		{"a folder that is no run, and a link to one that is", func() {
			testkit.Must(t, errors.Join(os.Mkdir(filepath.Join(f.dir, "notes"), 0o755), os.Symlink("a", filepath.Join(f.dir, "latest"))))
		}, false, nil},
		{"a run that is gone", func() { _ = os.RemoveAll(filepath.Join(f.dir, "a")) }, false, nil},
		{"a history that is gone", func() { _ = os.Remove(filepath.Join(f.dir, "b", "history.jsonl")) }, false, nil},
	} {
		c.change()
		x := f.open(c.anew)
		if !slices.Equal(f.read, c.want) {
			t.Errorf("%s: read %q, want %q", c.name, f.read, c.want)
		}
		var there []string
		for _, name := range []string{"a", "b"} {
			if _, err := os.Stat(filepath.Join(f.dir, name, "history.jsonl")); err == nil {
				there = append([]string{name}, there...)
			}
		}
		var got []string
		for _, r := range x.Runs(Query{}) {
			got = append(got, r.Folder)
			says, _ := os.ReadFile(filepath.Join(f.dir, r.Folder, "experiment.yaml"))
			if o, err := x.Observed(r); err != nil || o.Run.Verdict != string(says) || r.Verdict != string(says) || len(o.Environment) != 1 {
				t.Errorf("%s: %+v of %s, %v", c.name, o, r.Folder, err)
			}
		}
		slices.Sort(got)
		slices.Sort(there)
		if !slices.Equal(got, there) {
			t.Errorf("%s: the index has %q, want %q", c.name, got, there)
		}
		f.close(x)
	}
}

// Lines that count no more do not pile up, and what the file then has is what it had.
func TestTheIndexDoesNotGrowForEver(t *testing.T) {
	f := &folder{t: t, dir: t.TempDir(), tool: "one"}
	x := f.open(false)
	for i := range 500 {
		f.run("a", "a", fmt.Sprint("word-", i))
		f.run("b", "b", fmt.Sprint("word-", i))
		testkit.Must(t, x.Look(t.Context()))
	}
	f.close(x)
	data, err := os.ReadFile(filepath.Join(f.dir, File))
	if n := strings.Count(string(data), "\n"); err != nil || n > 120 {
		t.Errorf("%d lines of two runs, %v", n, err)
	}
	x = f.open(false)
	defer f.close(x)
	if r := x.Run("a"); len(f.read) > 0 || r == nil || r.Verdict != "word-499" {
		t.Errorf("it reads %q again, and has %+v", f.read, r)
	}
}

// Who only reads takes no folder from a server, and what he read is known to it afterwards.
func TestReadersAndServersShareTheIndex(t *testing.T) {
	f := &folder{t: t, dir: t.TempDir(), tool: "one"}
	x := f.open(false)
	f.run("a", "a", "pass")
	done := 0
	reader := x.reader
	reader.Progress = func(n, all int) { done += 10*all + n }
	for _, want := range []int{10, 10} {
		if y, err := Read(t.Context(), f.dir, reader, func(string) {}); err != nil || y.Run("a") == nil || done != want {
			t.Errorf("%v, %d", err, done)
		}
	}
	f.close(x)
	if f.close(f.open(false)); len(f.read) > 0 {
		t.Errorf("%q are read again", f.read)
	}
}

// A disk that takes no line costs no run.
func TestAnIndexThatCannotBeWrittenStillAnswers(t *testing.T) {
	f := &folder{t: t, dir: t.TempDir(), tool: "one"}
	x := f.open(false)
	defer f.close(x)
	path := filepath.Join(f.dir, File)
	testkit.Must(t, os.Mkdir(path, 0o755))
	for _, name := range []string{"a", "b"} {
		f.run(name, name, "pass")
		if err := x.Look(t.Context()); err != nil || x.Run(name) == nil {
			t.Errorf("%s: %v, %+v", name, err, x.Run(name))
		}
		if y, err := Read(t.Context(), f.dir, x.reader, func(string) {}); err != nil || y.Run(name) == nil {
			t.Errorf("%s is read: %v", name, err)
		}
	}
	if len(f.said) != 1 || !strings.Contains(f.said[0], "could not be written") {
		t.Errorf("it says %q", f.said)
	}
}

// What is interrupted while it is read is read again, and not noted as it came.
func TestAnInterruptedLookNotesNothing(t *testing.T) {
	f := &folder{t: t, dir: t.TempDir(), tool: "one"}
	x := f.open(false)
	defer f.close(x)
	f.run("a", "a", "pass")
	ctx, cancel := context.WithCancel(t.Context())
	x.reader.Observe = func(context.Context, string) (*compare.Observed, error) { cancel(); return nil, ctx.Err() }
	if err := x.Look(ctx); !errors.Is(err, context.Canceled) || x.Run("a") != nil {
		t.Errorf("%v, %+v", err, x.Run("a"))
	}
	x.reader.Observe = f.observe
	if err := x.Look(t.Context()); err != nil || x.Run("a") == nil || x.Run("a").State != Judged {
		t.Errorf("%v, %+v", err, x.Run("a"))
	}
}

func TestWhichRunsAreMeant(t *testing.T) {
	all := []*Run{
		{Folder: "1", State: Judged, Experiment: "x", Started: "2026-01-04T00:00:00Z", ID: "i", Bytes: "1", Labels: history.Labels{"a": "b", "c": "d"}},
		{Folder: "2", State: Unread, Experiment: "x", Started: "2026-01-03T00:00:00Z", ID: "i", Bytes: "2"},
		{Folder: "3", State: Running, Experiment: "y", Started: "2026-01-02T00:00:00Z", Beside: "4"},
		{Folder: "4", State: Judged, Experiment: "x", Started: "2026-01-01T00:00:00Z", ID: "j", Bytes: "1"},
		{Folder: "5", State: Judged, Experiment: "x", Started: "2026-01-01T00:00:00Z", ID: "j", Bytes: "2", Rehearsal: true},
		{Folder: "6", State: Judged, Experiment: "z", Started: "2025-01-01T00:00:00Z", ID: "k", Bytes: "1"}, // a copy is no other run
		{Folder: "7", State: Judged, Experiment: "z", Started: "2024-01-01T00:00:00Z", ID: "k", Bytes: "1"},
	}
	x := &Index{runs: map[string]*Run{}}
	for _, r := range all {
		x.runs[r.Folder] = r
	}
	for want, q := range map[string]Query{
		"1235467": {}, "1254": {Experiment: "x"}, "15467": {States: []State{Judged}}, "1467": {States: []State{Judged}, Live: true}, "1": {Labels: history.Labels{"a": "b"}},
		"": {Labels: history.Labels{"a": "x"}}, "5467": {Before: "2026-01-02T00:00:00Z"}, "12": {Limit: 2},
	} {
		got := ""
		for _, r := range x.Runs(q) {
			got += r.Folder
		}
		if got != want {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
	for folder, want := range map[string]string{"1": "2", "2": "1", "3": "4", "4": "3", "5": "", "6": "", "7": ""} {
		if got := x.Run(folder).Contested; got != want {
			t.Errorf("%s is contested by %q, want %q", folder, got, want)
		}
	}
}

func TestAPoolBeginsOnce(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 9, 1, 2, 0, 0, 0, time.UTC)
	if _, err := StartOf(dir, "autumn"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a pool that nobody began: %v", err)
	}
	testkit.Must(t, NoteStart(dir, "autumn", now))
	if err := NoteStart(dir, "autumn", now.Add(time.Hour)); err == nil {
		t.Error("the same name began twice")
	}
	if from, err := StartOf(dir, "autumn"); err != nil || !from.Equal(now) {
		t.Errorf("it began %v, %v", from, err)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, startsFile), []byte("{"), 0o644))
	if err := NoteStart(dir, "winter", now); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a damaged file: %v", err)
	}
}

// A run that is looked at before its header stands has its name once it does, and not only at its end.
func TestARunHasItsNameWhileItGoesOn(t *testing.T) {
	f := &folder{t: t, dir: t.TempDir(), tool: "one"}
	f.run("a", "a", "pass")
	path := filepath.Join(f.dir, "a", "history.jsonl")
	whole, err := os.ReadFile(path)
	header, _, _ := strings.Cut(string(whole), "\n")
	testkit.Must(t, errors.Join(err, os.WriteFile(path, []byte(header[:9]), 0o644)))
	x := f.open(false)
	defer f.close(x)
	for _, c := range [][2]string{{header[:9], ""}, {header + "\n", "nightly"}} {
		text, want := c[0], c[1]
		testkit.Must(t, errors.Join(os.WriteFile(path, []byte(text), 0o644), x.Look(t.Context())))
		if r := x.Run("a"); r.State != Running || r.Experiment != want {
			t.Errorf("%q: %s of %q, want one that runs of %q", text, r.State, r.Experiment, want)
		}
	}
}
