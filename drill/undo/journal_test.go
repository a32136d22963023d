package undo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// The lock is the runner's while it lives, and nobody else's afterwards.
func TestTheLockIsTheRunners(t *testing.T) {
	j, path := create(t, Header{Run: "r"})
	if _, err := j.Intend(rec("pause", "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, Header{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second journal of one run: %v", err)
	}
	var w world
	if _, err := recoverAt(t.Context(), path, w.reverters(), "recover"); !errors.Is(err, ErrBusy) || w.reverted != nil {
		t.Errorf("while the runner lives: reverted %v, %v", w.reverted, err)
	}
	child := exec.Command("sleep", "60") // must not inherit the lock
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if err := j.file.Close(); err != nil {
		t.Fatal(err)
	}

	inside, goOn, done := make(chan bool), make(chan bool), make(chan error)
	slow := map[string]Reverter{"pause": func(context.Context, Record) error { close(inside); <-goOn; return nil }}
	go func() {
		_, err := recoverAt(t.Context(), path, slow, "watchdog")
		done <- err
	}()
	<-inside
	if _, err := recoverAt(t.Context(), path, w.reverters(), "recover"); !errors.Is(err, ErrBusy) || w.reverted != nil {
		t.Errorf("while the watchdog is at it: reverted %v, %v", w.reverted, err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if r, err := recoverAt(t.Context(), path, w.reverters(), "recover"); err != nil || !r.Closed || w.reverted != nil {
		t.Errorf("afterwards: reverted %v, %v", w.reverted, err)
	}
}

// What cannot be written down must not be done: a full disk is an error of Intend, and of everything after it.
func TestAFullDiskRefusesTheChange(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full:", err)
	}
	j := &Journal{file: full, by: "runner", states: map[int]Entry{}}
	if id, err := j.Intend(rec("pause", "a")); err == nil {
		t.Errorf("record %d was taken", id)
	}
	j.file, err = os.Create(filepath.Join(t.TempDir(), File)) // there is room again: what is on the disk is not known even so
	if err != nil {
		t.Fatal(err)
	}
	if id, err := j.Intend(rec("pause", "b")); err == nil {
		t.Errorf("record %d was taken after a failure", id)
	}
	if err := j.Close(); err == nil {
		t.Error("a journal that could not be written was closed")
	}
	_ = full.Close()
}

// A journal that somebody has cut in its place is lost; what others have added to it is not.
func TestAJournalThatIsCutIsLost(t *testing.T) {
	j, path := create(t, Header{Run: "r"})
	if _, err := j.Intend(rec("pause", "a")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.WriteString(`{"id":1,"state":"undo-intent"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := j.Check(); err != nil {
		t.Errorf("a watchdog's line: %v", err)
	}
	for _, size := range []int64{info.Size() - 1, 0} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if err := j.Check(); !errors.Is(err, ErrLost) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
	}
	if _, err := j.Intend(rec("pause", "b")); !errors.Is(err, ErrLost) {
		t.Errorf("a record was taken: %v", err)
	}
}

func TestCloseOnlyWhereAllIsUndone(t *testing.T) {
	j, path := create(t, Header{Run: "r", Targets: []string{"redis://h:1"}})
	id, err := j.Intend(Record{Kind: StandServer, Folder: "/f"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Done(id, Record{Kind: StandServer, Folder: "/f", Process: &Process{PID: 7}}); err != nil {
		t.Fatal(err)
	}
	c, err := Read(path)
	if err != nil || c.Closed || len(c.Entries) != 1 || c.Entries[0].Record.Process.PID != 7 || c.Entries[0].State != Injected || c.Header.Targets[0] != "redis://h:1" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := j.Mark(id, Undone, ""); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if c, err := Read(path); err != nil || !c.Closed || len(c.Open()) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A nil journal keeps nothing and stops nothing.
func TestNoJournal(t *testing.T) {
	var j *Journal
	id, err := j.Intend(rec("pause", "a"))
	if err = errors.Join(err, j.Done(id, rec("pause", "a")), j.Mark(id, Undone, "")); err != nil {
		t.Error(err)
	}
}

func TestReadRefusesNonsense(t *testing.T) {
	const head = `{"header":{"v":1,"run":"r","experiment":"e","runner":{"pid":1,"started":"","host":""},"opened":"2026-01-01T00:00:00Z","deadline":"2026-01-01T00:00:00Z"}}` + "\n"
	const one = `{"id":1,"state":"intent","record":{"kind":"pause"}}` + "\n"
	for _, c := range []struct{ text, want string }{
		{"nonsense\n" + head, ":1: "},
		{head + "nonsense\n" + one, ":2: "},
		{head + `{"id":1,"state":"intent","record":{"kind":"pause"}} {}` + "\n", ":2: "},
		{head + `{"id":1,"state":"intent","colour":1,"record":{"kind":"pause"}}` + "\n", ":2: "},
		{head + one + one, ":3: record 1 is announced twice"},
		{head + `{"id":1,"state":"intent"}` + "\n", ":2: record 1"},
		{head + `{"id":0,"state":"intent","record":{"kind":"pause"}}` + "\n", ":2: record 0"},
		{head + `{"id":2,"state":"injected"}` + "\n", ":2: record 2 was never announced"},
		{head + one + `{"id":1,"state":"finished"}` + "\n", `:3: unknown state "finished"`},
		{head + head, ":2: a second header"},
		{one, ":1: no header"},
		{head + `{"closed":true}` + "\n" + one, ":3: a record after the end"},
		{strings.Replace(head, `"v":1`, `"v":4`, 1), ":1: the journal has version 4"},
	} {
		path := filepath.Join(t.TempDir(), File)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), File+c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
		var w world
		if _, err := recoverAt(t.Context(), path, w.reverters(), "recover"); err == nil || w.reverted != nil {
			t.Errorf("%q: recovered (%v), %v", c.text, w.reverted, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, []byte(c.text)) {
			t.Errorf("%q: the file was changed: %v", c.text, err)
		}
	}
}

func TestAProcessIsMoreThanItsNumber(t *testing.T) {
	self := Find(os.Getpid())
	if self.Started == "" {
		t.Skip("this system does not tell when a process was started")
	}
	alive := func(p Process) bool {
		t.Helper()
		ok, err := p.Lives()
		if err != nil {
			t.Error(err)
		}
		return ok
	}
	if !alive(self) {
		t.Error("this process is said to be gone")
	}
	other, reboot, unknown := self, self, self
	other.Started, reboot.Host, unknown.Started = "1", "another-boot", ""
	if alive(other) || alive(reboot) {
		t.Error("another process is taken for this one")
	}
	if _, err := unknown.Lives(); err == nil {
		t.Error("a process that was not written down with its start is judged")
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p := Find(child.Process.Pid)
	if !alive(p) {
		t.Error("the child is said to be gone")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.AwaitEnd(ctx); err != nil { // nobody has collected it yet
		t.Errorf("a corpse is taken for alive: %v", err)
	}
	_ = child.Wait()
	if alive(p) {
		t.Error("a process that was collected is taken for alive")
	}
}

// A journal that says that it is closed, and what is not undone, is not closed.
func TestAnEndWithSomethingLeftIsNone(t *testing.T) {
	path := do(t, Header{Run: "r"}, "intent a")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"closed":true}` + "\n")
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if c, err := Read(path); err != nil || c.Closed || len(c.Open()) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A shot at several victims has a record for each: one that lacks was lost.
func TestARecordForEachVictim(t *testing.T) {
	shot := history.Event{Op: "p#1", Fault: &history.Fault{Victims: []string{"r1.1", "r2.1"}}}
	for _, x := range []struct {
		ops  string
		want bool
	}{
		{"", false}, {"p#1", true}, {"p#1 r1.1", false}, {"p#1 r1.1,p#1 r2.1", true}, {"p#1 r1.1,p#1 r3.1", false}, {"p#11 r1.1,p#11 r2.1", false},
	} {
		var c Content
		for op := range strings.SplitSeq(x.ops, ",") {
			c.Entries = append(c.Entries, Entry{Record: Record{Kind: "pause", Shot: history.Event{Op: op}}})
		}
		if c.Has(shot) != x.want {
			t.Errorf("%q: %v", x.ops, c.Has(shot))
		}
	}
}

// A line that no run writes is refused with its number, and none is written that nobody would read.
func TestALineOfAJournalIsBounded(t *testing.T) {
	j, path := create(t, Header{Run: "r"})
	long := rec("pause", "a")
	long.Folder = strings.Repeat("x", maxLine)
	if _, err := j.Intend(long); err == nil || !strings.Contains(err.Error(), "over 16 MiB") {
		t.Errorf("written: %v", err)
	}
	if c, err := Read(path); err != nil || len(c.Entries) != 0 {
		t.Errorf("read %d records: %v", len(c.Entries), err)
	}
	if _, err := j.Intend(rec("pause", "b")); err != nil {
		t.Errorf("the next one: %v", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"id":9,"why":"` + long.Folder + "\"}\n"); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), ":3: a line of over 16 MiB") {
		t.Errorf("read: %v", err)
	}
}
