// Package gameday leads people through the sheet of a game day: each drill is a run of its own in a process of its own, what was begun
// and what came of it stands in a log before anything goes on, and one report is made of all. It judges nothing.
// Its one invariant: what the log says was done is not done again, and a step without an end in the log was not done.
package gameday

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/regular"
)

// Files of a game day's folder.
const (
	SheetFile = "gameday.yaml"
	LogFile   = "gameday.jsonl"
	JSONFile  = "gameday.json"
	PageFile  = "gameday.html"
	TextFile  = "gameday.md"
	NotesFile = "notes.md" // what people write down after the day
)

// Kinds of an entry.
const (
	dayBegins  = "day-begins"
	stepBegins = "step-begins"
	stepEnds   = "step-ends"
	observed   = "observation"
	dayEnds    = "day-ends" // or is interrupted: a later entry goes on
)

// entry is one line of the log.
type entry struct {
	At      string `json:"at"`
	Kind    string `json:"kind"`
	Who     string `json:"who,omitempty"`
	Step    int    `json:"step,omitempty"` // from 1
	Folder  string `json:"folder,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Exit    *int   `json:"exit,omitempty"`
	Text    string `json:"text,omitempty"`
	Sheet   string `json:"sheet,omitempty"`
	Drills  string `json:"drills,omitempty"`
	Tool    string `json:"tool,omitempty"`
}

func (e *entry) dirty() bool { return e.Exit != nil && *e.Exit == verdict.ExitDirty }

// log is the log of a game day: appended to, and on the disk before anything goes on.
type log struct {
	file    *os.File
	entries []entry
}

// openLog takes the log for this process alone; a last line that a killed process has left half written is dropped.
func openLog(dir string, create bool) (*log, error) {
	flags := os.O_RDWR | os.O_APPEND
	if create {
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(filepath.Join(dir, LogFile), flags, 0o644)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), regular.ErrNoFile), f.Close())
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, ErrBusy), f.Close())
	}
	l := &log{file: f}
	whole, err := l.read()
	if err == nil {
		err = f.Truncate(whole)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return l, nil
}

func (l *log) read() (whole int64, err error) {
	r := bufio.NewReader(l.file)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil { // what has no end was never on the disk as a whole
			return whole, nil
		}
		var e entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return 0, fmt.Errorf("line %d is no entry of a game day: %w", n, err)
		}
		l.entries, whole = append(l.entries, e), whole+int64(len(line))
	}
}

func (l *log) add(e entry) error {
	e.At = time.Now().UTC().Format(time.RFC3339)
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return err
	}
	l.entries = append(l.entries, e)
	return l.file.Sync()
}

// ErrBusy: another process leads the day.
var ErrBusy = errors.New("another lockdrill leads this game day")
