package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Reverter undoes what a record says, and reads back that it is undone. It learns all from the record and may be called again; what
// is gone already counts as undone. It never removes what another put there.
type Reverter func(context.Context, Record) error

// revertWithin bounds the undoing of one record.
const revertWithin = 15 * time.Second

// Outcome is what became of one record.
type Outcome struct {
	Entry
	Err error // nil = undone, and that was verified
}

// Report is what Recover did.
type Report struct {
	Content            // as found
	Outcomes []Outcome // in the order of their undoing; records that were undone before are not among them
}

// Left lists what is still not undone.
func (r *Report) Left() []Outcome {
	var left []Outcome
	for _, o := range r.Outcomes {
		if o.Err != nil {
			left = append(left, o)
		}
	}
	return left
}

// Recover undoes whatever the journal of a run that is over has left, latest first, every record even if another fails, and closes
// the journal when nothing is left. by names the caller in the journal: watchdog, recover. ErrBusy: the runner lives, or another
// process is undoing it. Any other error says that the journal could not be read or written; what could be undone is undone even so.
func Recover(ctx context.Context, path string, reverters map[string]Reverter, by string) (r Report, err error) {
	j, err := resume(path, by)
	if err != nil {
		return r, fmt.Errorf("undo %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, j.file.Close()) }()
	if err := lockFile(j.file); err != nil {
		return r, fmt.Errorf("undo %s: %w", path, err)
	}
	if r.Content, err = Read(path); err != nil || r.Closed {
		return r, err
	}
	unwritten := []error{j.newLine()}
	for _, e := range r.Open() {
		o, err := j.undo(ctx, r.Header, e, reverters[e.Record.Kind])
		r.Outcomes, unwritten = append(r.Outcomes, o), append(unwritten, err)
	}
	if len(r.Left()) == 0 && errors.Join(unwritten...) == nil {
		unwritten = append(unwritten, j.append(line{Closed: true, At: time.Now().UTC(), By: by}))
	}
	if err := cmp.Or(unwritten...); err != nil { // the others follow from the first
		return r, fmt.Errorf("undo %s: %w", path, err)
	}
	return r, nil
}

// Overdue undoes what should have ended before now, although the runner lives: it hangs. The journal's lock is the runner's, so both
// may undo the same record: undoing twice does no harm, each line is one write, and the reader takes the word of the one that is
// through. Kinds without a reverter are left to the runner; the journal stays open.
func Overdue(ctx context.Context, path string, reverters map[string]Reverter, by string, now time.Time) (Report, error) {
	var r Report
	var err error
	if r.Content, err = Read(path); err != nil || r.Closed {
		return r, err
	}
	var due []Entry
	for _, e := range r.Open() {
		until := e.Record.Until
		if until.IsZero() || r.Header.Deadline.Before(until) {
			until = r.Header.Deadline
		}
		if reverters[e.Record.Kind] != nil && now.After(until) {
			due = append(due, e)
		}
	}
	if len(due) == 0 {
		return r, nil
	}
	j, err := resume(path, by)
	if err != nil {
		return r, fmt.Errorf("undo %s: %w", path, err)
	}
	unwritten := []error{j.newLine()}
	for _, e := range due {
		o, err := j.undo(ctx, r.Header, e, reverters[e.Record.Kind])
		r.Outcomes, unwritten = append(r.Outcomes, o), append(unwritten, err)
	}
	return r, cmp.Or(append(unwritten, j.file.Close())...)
}

// resume opens a journal that exists, for lines after those that it has. One that can only be read, on a file system that has become
// read-only, is undone all the same; nothing is written.
func resume(path, by string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	j := &Journal{file: f, by: by, states: map[int]State{}}
	if err != nil {
		j.err = err
		if j.file, err = os.Open(path); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// newLine ends a line that was cut off: what follows must not become a part of it. Where that fails, as on a full disk, nothing is
// written any more, and what can be undone is undone all the same.
func (j *Journal) newLine() error {
	if j.err == nil {
		j.err = j.endLine()
	}
	if j.err != nil {
		return fmt.Errorf("write journal: %w", j.err)
	}
	return nil
}

func (j *Journal) endLine() error {
	info, err := j.file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := j.file.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = j.file.WriteString("\n")
	return err
}

// undo undoes one record on a fresh context and writes down how that went. What cannot be written down is undone nevertheless; the
// second result says so.
func (j *Journal) undo(ctx context.Context, h Header, e Entry, revert Reverter) (Outcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revertWithin)
	defer cancel()
	early := j.Mark(e.ID, UndoIntent, "")
	o := Outcome{Entry: e, Err: h.here(e.Record)}
	switch {
	case o.Err != nil:
	case revert == nil:
		o.Err = fmt.Errorf("this lockdrill does not know how %q is undone", e.Record.Kind)
	default:
		o.Err = guarded(ctx, revert, e.Record)
	}
	if o.Err != nil {
		return o, cmp.Or(early, j.Mark(e.ID, Dirty, o.Err.Error()))
	}
	return o, cmp.Or(early, j.Mark(e.ID, Undone, ""))
}

// guarded calls a reverter; one that panics must not keep the others from being called.
func guarded(ctx context.Context, revert Reverter, r Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("undo %s: panic: %v", r.Kind, p)
		}
	}()
	return revert(ctx, r)
}

// here refuses to judge a process from another host: it is not seen from here, and so cannot be verified to be gone.
func (h *Header) here(r Record) error {
	host, err := os.Hostname()
	if r.Process == nil || err != nil || h.Hostname == "" || h.Hostname == host {
		return nil
	}
	return fmt.Errorf("process %d lived on host %s: run lockdrill recover there", r.Process.PID, h.Hostname)
}
