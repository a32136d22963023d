package undo

import (
	"cmp"
	"context"
	"fmt"
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
	Outcomes []Outcome // in the order of their undoing; of the records that were undone before, those whose change is there all the same
	Unasked  []Outcome // those of which that cannot be told: the journal's word stands
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
func (j *Journal) undo(ctx context.Context, e Entry, revert Reverter) (Outcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revertWithin+e.Record.Takes())
	defer cancel()
	early := j.Mark(e.ID, UndoIntent, "")
	o := Outcome{Entry: e, Err: guarded(ctx, revert, e.Record)}
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
