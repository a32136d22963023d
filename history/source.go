package history

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
)

// Source gives a history from its beginning, event by event. One with a body of the kinds that a history is full of (job, call, work,
// write, entry, look, coverage) is good until the next call of Next; its strings, and all other events, are good for ever.
type Source interface {
	Header() Header
	Next() (*Event, error) // a bare io.EOF is the end
	Torn() string          // at the end: what was dropped
}

// lasts reports that the event is good for ever: it shares no memory with the next one.
func (e *Event) lasts() bool {
	return e.Job == nil && e.Call == nil && e.Work == nil && e.Write == nil && e.Entry == nil && e.Look == nil && e.Coverage == nil
}

// Source gives what h has.
func (h *History) Source() Source { return &played{h: h} }

type played struct {
	h *History
	n int
}

func (p *played) Header() Header { return p.h.Header }
func (p *played) Torn() string   { return p.h.Torn }
func (p *played) Next() (*Event, error) {
	if p.n == len(p.h.Events) {
		return nil, io.EOF
	}
	p.n++
	return &p.h.Events[p.n-1], nil
}

// Tee is from, and shows each event to see before it gives it.
func Tee(from Source, see func(*Event)) Source { return &tee{from, see} }

type tee struct {
	Source
	see func(*Event)
}

func (t *tee) Next() (*Event, error) {
	e, err := t.Source.Next()
	if err == nil {
		t.see(e)
	}
	return e, err
}

// Marks say where in a file its events are: single ones can be read again by their number.
type Marks struct {
	at []int64 // the byte at which the line of the first, and of each markEvery-th event after it, begins
}

const markEvery = 64

// Marks are those of the events that Next has given so far.
func (s *Reader) Marks() Marks { return s.marks }

// Events reads events that Next has given once more, and shows them in their order.
func (m Marks) Events(file io.ReaderAt, numbers []int64, see func(*Event)) error {
	var s *Reader
	for _, n := range slices.Compact(slices.Sorted(slices.Values(numbers))) {
		if n < 1 || (n-1)/markEvery >= int64(len(m.at)) {
			return fmt.Errorf("read event %d again: there is none", n)
		}
		if mark := (n - 1) / markEvery; s == nil || s.event.N < mark*markEvery {
			from := m.at[mark]
			s = &Reader{from: bufio.NewReaderSize(io.NewSectionReader(file, from, math.MaxInt64-from), 1<<14), event: &Event{N: mark * markEvery}}
		}
		for s.event.N < n-1 {
			if _, err := s.next(); err != nil {
				return fmt.Errorf("read event %d again: %w", n, err)
			}
			s.event.N++
		}
		line, err := s.next()
		if err == nil {
			err = s.parse(n, line)
		}
		if err != nil {
			return fmt.Errorf("read event %d again: %w", n, err)
		}
		see(s.event)
	}
	return nil
}
