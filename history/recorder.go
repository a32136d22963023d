package history

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Recorder appends events to a history. It is safe for concurrent use.
// Every line reaches the writer in one unbuffered Write, so that a file is readable up to its last line after kill -9.
type Recorder struct {
	mu    sync.Mutex
	w     io.Writer
	clock func() int64 // ns since the run's origin
	n     int64
	err   error
	tap   func(Event)
	event Event // that is being recorded
	line  codec // its line
}

// NewRecorder writes the header and returns a recorder. clock gives nanoseconds since the run's origin.
// tap, which may be nil, sees each recorded event in order, inside the critical section: it must not record.
func NewRecorder(w io.Writer, h Header, clock func() int64, tap func(Event)) (*Recorder, error) {
	h.Schema = SchemaVersion
	if err := h.Check(); err != nil {
		return nil, fmt.Errorf("history header: %w", err)
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("history header: %w", err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("write history header: %w", err)
	}
	return &Recorder{w: w, clock: clock, tap: tap}, nil
}

// Record stamps order and recording time, checks the event and appends it; it returns the event as recorded.
// The bracket is the caller's. After a failed write every further Record returns the same error: a history with a hole is
// worse than one that ends.
func (r *Recorder) Record(e Event) (Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record(e)
}

// RecordNow is Record for what happens at this instant: the bracket is the recording stamp itself.
func (r *Recorder) RecordNow(e Event) (Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Span = At(r.clock())
	return r.record(e)
}

func (r *Recorder) record(e Event) (Event, error) {
	if r.err != nil {
		return e, r.err
	}
	e.N, e.At = r.n+1, r.clock()
	r.event = e // one place for all: an event that is passed on by its address would be an allocation each
	if err := r.event.Check(); err != nil {
		return e, fmt.Errorf("record %s from %s: %w", e.Kind, e.Source, err)
	}
	if err := r.line.write(&r.event); err != nil {
		return e, fmt.Errorf("record %s: %w", e.Kind, err)
	}
	if n := len(r.line.b); n > maxLine {
		return e, fmt.Errorf("record %s from %s: %d bytes are more than a line may have (%d)", e.Kind, e.Source, n, maxLine)
	}
	if _, err := r.w.Write(append(r.line.b, '\n')); err != nil {
		r.err = fmt.Errorf("write history: %w", err)
		return e, r.err
	}
	r.n = e.N
	if r.tap != nil {
		r.tap(e)
	}
	return e, nil
}

// Err returns the error that ended the recording, if any.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
