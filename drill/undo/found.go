package undo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/internal/regular"
)

// Found is a journal that another process than its runner has opened, to undo what it says. It stays the journal that was opened,
// whatever its name leads to later. Its owner closes it.
type Found struct {
	path     string
	root     *os.Root // the run's folder
	file     *os.File
	readOnly error // why nothing can be written
	known    Content
	size     int // of what known was read from
	lost     error
	wrote    []byte // the experiment beside it; nil = not read yet
}

// Open opens the journal in the folder of a run. Unless trust is given, an UntrustedError refuses one that somebody else than the
// caller may have written.
func Open(dir string, trust bool) (_ *Found, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	f := &Found{path: filepath.Join(dir, File), root: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Close())
		}
	}()
	open := root.OpenFile
	if trust {
		open = func(_ string, flag int, mode os.FileMode) (*os.File, error) { return os.OpenFile(f.path, flag, mode) } // also by a link
		if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("open journal: %s: %w", f.path, regular.ErrNoFile)
		}
	} else if err := trusted(dir, root); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	f.file, f.readOnly = open(File, os.O_RDWR|os.O_APPEND, 0)
	if f.readOnly != nil { // on a file system that has become read-only
		if f.file, err = open(File, os.O_RDONLY, 0); err != nil {
			return nil, fmt.Errorf("open journal: %w", err)
		}
	}
	return f, nil
}

// Close gives up the journal.
func (f *Found) Close() error { return errors.Join(f.file.Close(), f.root.Close()) }

// Read is Read of this very file. What was read once is not forgotten when the file has lost it: then only what it adds is heard, and
// Lost says so.
func (f *Found) Read() (Content, error) {
	data, err := io.ReadAll(io.NewSectionReader(f.file, 0, maxJournal))
	if err != nil {
		return f.remember(nil, fmt.Errorf("read journal: %w", err))
	}
	c, err := content(f.path, data)
	switch {
	case f.lost != nil || f.known.Header.V != 0 && (err != nil || len(data) < f.size || !c.holds(&f.known)):
		return f.remember(data, fmt.Errorf("%w: %s has lost what it said", ErrLost, f.path))
	case err == nil:
		f.known, f.size = c.clone(), len(data)
	}
	return c, err
}

// Look reads the journal if it has changed since: a process that is to undo it knows it before anybody else can spoil it.
func (f *Found) Look() {
	if info, err := f.file.Stat(); err != nil || info.Size() != int64(f.size) {
		_, _ = f.Read() // whoever undoes it is told
	}
	_, _ = f.experiment()
}

// Lost reports that the journal has lost what it said; what is known of it is from memory, and nothing is written to it.
func (f *Found) Lost() error { return f.lost }

// remember gives what is known of a journal that can be relied on no more, and what its lines add to that.
func (f *Found) remember(data []byte, why error) (Content, error) {
	if f.known.Header.V == 0 {
		return Content{}, why
	}
	f.lost = cmp.Or(f.lost, why)
	for text := range bytes.Lines(data) {
		if l, torn, err := parse(bytes.TrimSuffix(text, []byte("\n")), true); err == nil && !torn {
			f.known.hear(l)
		}
	}
	return f.known.clone(), nil
}

// maxJournal bounds what is read: a run of many hours writes a few megabytes.
const maxJournal = 1 << 30

// Recover undoes whatever the journal of a run that is over has left, latest first, every record even if another fails, and closes
// the journal when nothing is left. by names the caller in the journal: watchdog, recover. ErrBusy: the runner lives, or another
// process is undoing it. Any other error says that the journal could not be read or written; what could be undone is undone even so.
func (f *Found) Recover(ctx context.Context, reverters map[string]Reverter, by string) (r Report, err error) {
	if err := lockFile(f.file); err != nil {
		return r, fmt.Errorf("undo %s: %w", f.path, err)
	}
	defer func() { err = errors.Join(err, unlockFile(f.file)) }()
	if r.Content, err = f.Read(); err != nil || r.Closed {
		return r, err
	}
	j, err := f.revert(ctx, &r, r.Open(), reverters, by)
	if len(r.Left()) == 0 && err == nil {
		err = j.append(line{Closed: true, At: time.Now().UTC(), By: by})
	}
	if err != nil {
		return r, fmt.Errorf("undo %s: %w", f.path, err)
	}
	return r, nil
}

// ErrStill is wrapped by the error of a reverter that has seen the change, and may not undo it.
var ErrStill = errors.New("it is still there")

// againWithin bounds the asking after all that a journal says is undone.
const againWithin = 10 * time.Second

// Again asks the world after what a journal says is undone, and adds to the report what of it is there, and what cannot be asked after:
// whoever may write the journal may have written that, too. Commands of the user's are not run a second time.
func (f *Found) Again(ctx context.Context, r *Report, reverters map[string]Reverter) {
	ctx, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	var asked sync.WaitGroup
	said := make([]error, len(r.Entries))
	for i, e := range r.Entries {
		if e.State != Undone || e.Record.Hook != nil || reverters[e.Record.Kind] == nil {
			continue
		}
		rec, err := f.believe(&r.Header, e.Record)
		if said[i] = err; err == nil {
			asked.Go(func() { said[i] = guarded(ctx, reverters[rec.Kind], rec) })
		}
	}
	asked.Wait()
	for i, e := range r.Entries {
		switch o := (Outcome{e, said[i]}); {
		case errors.Is(o.Err, ErrStill):
			r.Outcomes = append(r.Outcomes, o)
		case o.Err != nil:
			r.Unasked = append(r.Unasked, o)
		}
	}
}

// Overdue undoes what should have ended before now, although the runner lives: it hangs. The journal's lock is the runner's, so both
// may undo the same record: undoing twice does no harm, each line is one write, and the reader takes the word of the one that is
// through. Kinds without a reverter are left to the runner; the journal stays open. stalled says that the runner gives no sign of
// life: then a fault has the time that was declared for it, and no more for confirming and undoing.
func (f *Found) Overdue(ctx context.Context, reverters map[string]Reverter, by string, now time.Time, stalled bool) (Report, error) {
	var r Report
	var err error
	if r.Content, err = f.Read(); err != nil || r.Closed {
		return r, err
	}
	due := slices.DeleteFunc(r.due(now, stalled), func(e Entry) bool { return reverters[e.Record.Kind] == nil })
	if len(due) == 0 {
		return r, nil
	}
	if _, err = f.revert(ctx, &r, due, reverters, by); err != nil {
		return r, fmt.Errorf("undo %s: %w", f.path, err)
	}
	return r, nil
}

// revert undoes these entries and adds to the report how that went. The error is the first of the journal's own: others follow from it.
func (f *Found) revert(ctx context.Context, r *Report, entries []Entry, reverters map[string]Reverter, by string) (*Journal, error) {
	j := &Journal{file: f.file, by: by, states: map[int]Entry{}, err: cmp.Or(f.lost, f.readOnly)}
	unwritten := []error{j.newLine()}
	for _, e := range entries {
		o, err := j.undo(ctx, e, func(ctx context.Context, rec Record) error {
			rec, err := f.believe(&r.Header, rec)
			if err != nil {
				return err
			}
			if revert := reverters[rec.Kind]; revert != nil {
				return revert(ctx, rec)
			}
			return fmt.Errorf("this lockdrill does not know how %q is undone", rec.Kind)
		})
		if o.Err == nil {
			f.known.hear(line{ID: e.ID, State: Undone, By: by}) // also where it cannot be written
		}
		r.Outcomes, unwritten = append(r.Outcomes, o), append(unwritten, err)
	}
	return j, cmp.Or(unwritten...)
}

// due are the records to be undone although the runner lives.
func (c *Content) due(now time.Time, stalled bool) []Entry {
	var due []Entry
	for _, e := range c.Open() {
		until := e.Record.Until
		if stalled && !e.Record.Ends.IsZero() {
			until = e.Record.Ends.Add(stalledGrace(e.Record))
		}
		if until.IsZero() || c.Header.Deadline.Before(until) {
			until = c.Header.Deadline
		}
		if now.After(until) {
			due = append(due, e)
		}
	}
	return due
}

// stalledGrace is how long after its time a fault may go on whose runner stands still, so that it is over within twice its time: a
// runner that was only held up for a moment ends it itself.
func stalledGrace(r Record) time.Duration {
	if r.Shot.Fault == nil {
		return 0
	}
	return min(time.Duration(r.Shot.Fault.Declared)/2, 2*time.Second)
}
