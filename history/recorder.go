package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxWaiting is how many bytes may wait to be written.
const maxWaiting = 1 << 18

// Recorder appends events to a history. It is safe for concurrent use.
// Lines reach the writer in Writes of whole lines, so that a file is readable up to its last line after kill -9. Those of Record and RecordNow
// go at once, with all that came before them; only those of RecordAll may wait for them, or for Flush.
type Recorder struct {
	writing sync.Mutex // held while w is written to, which may take long: nobody waits for it who only records. Taken before mu
	w       io.Writer
	spare   []byte // room for lines, while others are written

	mu    sync.Mutex
	clock func() int64 // ns since the run's origin
	n     int64
	err   error
	tap   func([]Event)
	lines codec    // that are not written yet
	told  Numbers  // the streams
	one   [1]Event // of Record
}

// NewRecorder writes the header and returns a recorder. clock gives nanoseconds since the run's origin.
// tap, which may be nil, sees the recorded events in order, inside the critical section: it must not record, nor keep the slice.
func NewRecorder(w io.Writer, h Header, clock func() int64, tap func([]Event)) (*Recorder, error) {
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
	return &Recorder{w: w, clock: clock, tap: tap, told: Numbers{}}, nil
}

// Record stamps order and recording time, checks the event and appends it; it returns the event as recorded.
// The bracket is the caller's. After a failed write every further Record returns the same error: a history with a hole is
// worse than one that ends.
func (r *Recorder) Record(e Event) (Event, error) {
	return r.single(e, false)
}

// RecordNow is Record for what happens at this instant: the bracket is the recording stamp itself.
func (r *Recorder) RecordNow(e Event) (Event, error) {
	return r.single(e, true)
}

// RecordAll is Record for events that came together and come often; they are written by the next Flush, or Record, at the latest: a write
// for each of thousands of lines a second costs more than all else that is done with them. The events are stamped where they stand. One
// that is refused is left out, and the error says so.
func (r *Recorder) RecordAll(events []Event) error {
	r.mu.Lock()
	err := r.record(events)
	many := len(r.lines.b) > maxWaiting
	r.mu.Unlock()
	if many {
		r.Flush()
	}
	return err
}

// Waiting reports that there is something to Flush.
func (r *Recorder) Waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lines.b) > 0
}

func (r *Recorder) single(e Event, now bool) (Event, error) {
	r.mu.Lock()
	if now {
		e.Span = At(r.clock())
	}
	r.one[0] = e
	err := r.record(r.one[:])
	e = r.one[0]
	r.mu.Unlock()
	if err != nil {
		return e, err
	}
	r.Flush()
	return e, r.Err()
}

// Flush writes what RecordAll has left.
func (r *Recorder) Flush() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	lines := r.lines.b
	if r.err != nil || len(lines) == 0 {
		r.mu.Unlock()
		return
	}
	r.lines.b = r.spare[:0]
	r.mu.Unlock()
	_, err := r.w.Write(lines)
	r.spare = lines
	if err != nil {
		r.mu.Lock()
		r.err = fmt.Errorf("write history: %w", err)
		r.mu.Unlock()
	}
}

// record takes the events that can be written, and puts those that cannot behind them.
func (r *Recorder) record(events []Event) error {
	if r.err != nil || len(events) == 0 {
		return r.err
	}
	at, good := r.clock(), 0
	var refused error
	for i := range events {
		e := &events[i]
		e.N, e.At = r.n+int64(good)+1, at
		r.told.Give(e) // before it may be refused: whoever reads sees that something is missing
		if err := r.append(e); err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		events[good], events[i] = events[i], events[good]
		good++
	}
	if good == 0 {
		return refused
	}
	r.n += int64(good)
	if r.tap != nil {
		r.tap(events[:good])
	}
	return refused
}

// append adds the event's line to those that are to be written, if it may be recorded.
func (r *Recorder) append(e *Event) error {
	before := len(r.lines.b)
	err := e.Check()
	if err != nil {
		return fmt.Errorf("record %s from %s: %w", e.Kind, e.Source, err)
	}
	if err = r.lines.write(e); err != nil {
		err = fmt.Errorf("record %s: %w", e.Kind, err)
	} else if n := len(r.lines.b) - before; n > maxLine {
		err = fmt.Errorf("record %s from %s: %d bytes are more than a line may have (%d)", e.Kind, e.Source, n, maxLine)
	}
	if err != nil {
		r.lines.b = r.lines.b[:before]
		return err
	}
	r.lines.b = append(r.lines.b, '\n')
	return nil
}

// Err returns the error that ended the recording, if any.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
