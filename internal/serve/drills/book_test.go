package drills

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The book of a server that died: its line is cut, and its runs have no end.
func TestABookThatWasCutOff(t *testing.T) {
	w := newWorld(t, "drills:\n  - {name: d, experiment: a.yaml, cron: \"0 10 * * *\"}\n", map[string]string{"a.yaml": "fine"})
	begun, cut := "20261123T100000.000Z-d", "20261124T100000.000Z-d"
	for _, run := range []string{begun, cut} {
		if err := w.book.Add(Entry{At: w.clock(), Kind: Started, Drill: "d", Run: run, By: "schedule"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(w.o.Dir, begun), 0o755); err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(w.o.Dir, begun, historyFile), "{}")
	path := filepath.Join(w.o.Dir, bookFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w.write(path, string(whole)+`{"at":"2026-11-24T1`)
	w.open()
	for _, r := range w.book.Runs() {
		w.adopt(t.Context(), r)
	}
	w.settle()
	w.want("run d by schedule: aborted\nrun d by schedule: aborted\naborted d: the server ended while it ran")
	if w.book.Runs()[1].End.Verdict != "aborted" || w.book.Runs()[0].End.Verdict != "" {
		t.Error("the run that had begun has no verdict, or the other one has")
	}
	w.write(path, string(whole)+"no entry\n")
	if _, err := OpenBook(path); err == nil || !strings.Contains(err.Error(), ":3: no entry of the record of drills") {
		t.Errorf("a line that is none: %v", err)
	}
}

func TestOnlyFilesOfTheFolderAreRun(t *testing.T) {
	w := newWorld(t, "drills:\n  - {name: d, experiment: a.yaml, cron: \"0 10 * * *\"}\n", map[string]string{"a.yaml": "fine"})
	outside := filepath.Join(filepath.Dir(w.o.Schedule), "outside.yaml")
	w.write(outside, "fine")
	inside := filepath.Join(w.o.Experiments, "a.yaml")
	if err := errors.Join(os.Remove(inside), os.Symlink(outside, inside)); err != nil {
		t.Fatal(err)
	}
	w.at("23 09:59:00")
	w.at("23 10:00:00")
	w.settle()
	if !strings.Contains(w.story(), "failed d: a.yaml leads out of") || len(w.book.Runs()) != 0 {
		t.Error(w.story())
	}
	if _, err := Open(w.o); err == nil || !strings.Contains(err.Error(), "drill d: a.yaml leads out of") {
		t.Errorf("a server that is started so: %v", err)
	}
}
