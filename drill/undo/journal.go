package undo

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// File is the journal's name in a run's folder.
const File = "undo.jsonl"

// Version of the journal's format. Version 1 had neither nonce nor marks; it is still undone, as far as it proves what the run made.
// Version 2 knew no store that is filled, and no object that a fault makes.
const Version = 3

// State is how far a record has come.
type State string

const (
	Intent     State = "intent"          // written down; the change may have been made, in whole or in part
	Injected   State = "injected"        // the change was made
	UndoIntent State = "undo-intent"     // it is being undone
	Undone     State = "undone-verified" // it is undone, and that was read back
	Dirty      State = "dirty"           // undoing it failed, and may be tried again
)

// Header is the journal's first line.
type Header struct {
	V          int       `json:"v"`
	Run        string    `json:"run"`
	Experiment string    `json:"experiment"`
	Targets    []string  `json:"targets,omitempty"` // what others may also use: "redis://host:port", "toxiproxy http://host:8474"; without secrets
	Runner     Process   `json:"runner"`
	Nonce      string    `json:"nonce,omitempty"`    // stands in the run's folders and in the marks of its processes
	Hostname   string    `json:"hostname,omitempty"` // a label
	Opened     time.Time `json:"opened"`
	Deadline   time.Time `json:"deadline"` // wall time by which everything is undone, by the watchdog if the runner has not done it
}

// line is one line of the file: the first has a Header, the last of a closed journal Closed, all others an ID and a State.
type line struct {
	Header *Header   `json:"header,omitempty"`
	ID     int       `json:"id,omitempty"`
	State  State     `json:"state,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Why    string    `json:"why,omitempty"`
	By     string    `json:"by,omitempty"` // runner, watchdog, recover
	Record *Record   `json:"record,omitempty"`
	Closed bool      `json:"closed,omitempty"`
}

// Journal is the journal of a run while it is written. It is safe for concurrent use. A nil Journal keeps nothing: it is for parts
// that stand without a run.
type Journal struct {
	mu     sync.Mutex
	file   *os.File
	path   string
	made   fs.FileInfo // the file, by more than its name
	size   int64       // of what was written: others only add
	nonce  string
	by     string
	last   int
	states map[int]Entry // in memory, whatever becomes of the file
	err    error         // the first failure to write: nothing may be changed any more
}

// Create starts the journal of a run in a new file. The file's lock is held until Close: whoever wants to undo what the journal
// says takes that lock first, so that it never meets the runner.
func Create(path string, h Header) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create journal: %w", err)
	}
	h.V = Version
	if h.Nonce == "" {
		h.Nonce = rand.Text()
	}
	j := &Journal{file: f, path: path, nonce: h.Nonce, by: "runner", states: map[int]Entry{}}
	if j.made, err = f.Stat(); err == nil {
		err = lockFile(f)
	}
	if err == nil {
		err = errors.Join(j.append(line{Header: &h}), syncFolder(filepath.Dir(path)))
	}
	if err != nil {
		return nil, fmt.Errorf("create journal: %w", errors.Join(err, f.Close(), os.Remove(path)))
	}
	return j, nil
}

// MarkOf is the value of MarkEnv for a process of the run that is known by this name; "" of a nil Journal.
func (j *Journal) MarkOf(name string) string {
	if j == nil {
		return ""
	}
	return j.nonce + "/" + name
}

// ErrLost: the journal can be relied on no more. The run has to end.
var ErrLost = errors.New("the undo journal is lost")

// Check reports ErrLost where the file is gone, is another one or shorter by now, or could not be written.
func (j *Journal) Check() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.check()
}

func (j *Journal) check() error {
	if j.err != nil {
		return fmt.Errorf("%w: %w", ErrLost, j.err)
	}
	now, err := os.Lstat(j.path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrLost, err)
	case !os.SameFile(j.made, now):
		return fmt.Errorf("%w: another file is %s now", ErrLost, j.path)
	case now.Size() < j.size:
		return fmt.Errorf("%w: somebody has cut %s", ErrLost, j.path)
	}
	return nil
}

// Intend writes a record down before the change is made, and returns its number. Where it fails, the change must not be made.
func (j *Journal) Intend(r Record) (id int, err error) {
	if j == nil {
		return 0, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.check(); err != nil {
		return 0, err
	}
	j.last++
	if err := j.append(line{ID: j.last, State: Intent, At: time.Now().UTC(), By: j.by, Record: &r}); err != nil {
		return 0, fmt.Errorf("write journal: %w", err)
	}
	j.states[j.last] = Entry{ID: j.last, Record: r, State: Intent}
	return j.last, nil
}

// Mark writes down how far a record has come.
func (j *Journal) Mark(id int, s State, why string) error {
	return j.mark(line{ID: id, State: s, Why: why})
}

// Done marks a record as injected and replaces what it says, where only the doing has shown it: the number of a process.
func (j *Journal) Done(id int, r Record) error {
	return j.mark(line{ID: id, State: Injected, Record: &r})
}

func (j *Journal) mark(l line) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.State == Undone && j.states[l.ID].State == Undone { // whoever closes something may do so again
		return nil
	}
	l.At, l.By = time.Now().UTC(), j.by
	e := j.states[l.ID] // also where it cannot be written: the run knows what it has undone
	if e.State, e.Why = l.State, l.Why; l.Record != nil {
		e.Record = *l.Record
	}
	j.states[l.ID] = e
	if err := j.append(l); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// Open lists the records that are not undone, latest first, as far as the run knows: also after the journal was lost or closed.
func (j *Journal) Open() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open()
}

func (j *Journal) open() []Entry {
	var left []Entry
	for id := j.last; id > 0; id-- {
		if e, ok := j.states[id]; ok && e.State != Undone {
			left = append(left, e)
		}
	}
	return left
}

// Close closes the journal if everything in it is undone, and gives its lock back in any case. The error says what is not undone.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.check()
	if left := j.open(); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("close journal: %d of its records are not undone", len(left)))
	} else if j.err == nil { // also in a file that has no name any more: the watchdog has it open
		err = errors.Join(err, j.append(line{Closed: true, At: time.Now().UTC(), By: j.by}))
	}
	return errors.Join(err, j.file.Close())
}

// syncFolder makes a new file's name last, as Sync makes its bytes.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// append writes one line and syncs it. After a failure nothing is written any more: what is on the disk is no longer known.
func (j *Journal) append(l line) error {
	if j.err != nil {
		return j.err
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if len(data) > maxLine { // nobody would read it again
		return fmt.Errorf("a record of over %d MiB", maxLine>>20)
	}
	n, err := j.file.Write(append(data, '\n'))
	if j.size += int64(n); err != nil {
		j.err = err
		return err
	}
	if err := j.file.Sync(); err != nil {
		j.err = err
	}
	return j.err
}
