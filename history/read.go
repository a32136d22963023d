package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// History is a whole record in memory.
type History struct {
	Header Header
	Events []Event
	// Torn is set where the last line was cut off (the runner was killed while writing): the text says what was dropped.
	Torn string
}

// maxLine bounds one line: an event is a few hundred bytes, so a longer one is a wrong file.
const maxLine = 4 << 20

// Read parses and checks a history. A last line that has no newline and does not parse is tolerated and reported in
// Torn; anything else that is wrong is an error that names its line.
func Read(r io.Reader) (*History, error) {
	s, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	s.codec.slots = nil // they are kept
	h := &History{Header: s.Header()}
	for {
		e, err := s.Next()
		if err == io.EOF {
			h.Torn = s.Torn()
			return h, nil
		}
		if err != nil {
			return nil, err
		}
		h.Events = append(h.Events, *e)
	}
}

// Reader reads a history event by event, in memory that does not grow with it. See Read for what it tolerates.
type Reader struct {
	from   *bufio.Reader
	header Header
	torn   string
	line   int    // the number of the last line that was read
	long   []byte // a line that is longer than the buffer of from
	last   bool   // there is no further line
	read   int64  // bytes up to and with it
	event  *Event // the last one
	marks  Marks
	codec  codec
	err    error
}

// NewReader reads the header.
func NewReader(r io.Reader) (*Reader, error) {
	s := &Reader{from: bufio.NewReaderSize(r, 1<<16), event: new(Event), codec: codec{names: new(names), slots: new(slots)}}
	line, err := s.next()
	if err == io.EOF {
		return nil, errors.New("history line 1: the file is empty: no header")
	}
	if err != nil {
		return nil, err
	}
	if _, err := strictly(line, &s.header); err != nil {
		return nil, fmt.Errorf("history line 1: header: %w", err)
	}
	if err := s.header.Check(); err != nil {
		return nil, fmt.Errorf("history line 1: header: %w", err)
	}
	return s, nil
}

// Header is the history's first line.
func (s *Reader) Header() Header { return s.header }

// Torn says, once Next has come to the end, what was dropped of a last line that was cut off; "" is nothing.
func (s *Reader) Torn() string { return s.torn }

// Next returns the next event; a bare io.EOF is the end. See Source for how long it is good.
func (s *Reader) Next() (*Event, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.err = s.advance()
	if s.err != nil {
		return nil, s.err
	}
	return s.event, nil
}

func (s *Reader) advance() error {
	n, at := s.event.N, s.read
	if s.event.lasts() {
		s.event = new(Event)
	}
	line, err := s.next()
	if err != nil {
		return err
	}
	if err := s.parse(n+1, line); err != nil {
		if !s.last {
			return fmt.Errorf("history line %d: %w", s.line, err)
		}
		s.torn = fmt.Sprintf("line %d is cut off after %d bytes", s.line, len(line))
		return io.EOF
	}
	if n%markEvery == 0 {
		s.marks.at = append(s.marks.at, at)
	}
	return nil
}

// next is the next line, without its newline, good until the call after this one.
func (s *Reader) next() ([]byte, error) {
	if s.last {
		return nil, io.EOF
	}
	s.line++
	s.long = s.long[:0]
	for {
		part, err := s.from.ReadSlice('\n')
		s.read += int64(len(part))
		if len(s.long) > 0 || errors.Is(err, bufio.ErrBufferFull) {
			s.long = append(s.long, part...)
			part = s.long
		}
		if len(part) > maxLine {
			return nil, fmt.Errorf("history line %d: longer than %d bytes: not a history", s.line, maxLine)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(part, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("history line %d: %w", s.line, err)
		default:
			if s.last = true; len(part) == 0 {
				return nil, io.EOF
			}
			return part, nil
		}
	}
}

// parse reads the line of the event that is to have the number n.
func (s *Reader) parse(n int64, line []byte) error {
	e := s.event
	if !s.codec.parse(line, e) {
		*e = Event{}
		dec, err := strictly(line, e)
		if err != nil {
			return err
		}
		if dec.More() {
			return errors.New("more than one document")
		}
	}
	if err := e.Check(); err != nil {
		return fmt.Errorf("%s: %w", e.Kind, err)
	}
	if s.header.Schema > 0 { // 0: lines that were read once are read again
		if err := e.fits(s.header.Schema); err != nil {
			return fmt.Errorf("%s: %w", e.Kind, err)
		}
	}
	if e.N != n {
		return fmt.Errorf("event number %d, want %d: lines are missing or out of order", e.N, n)
	}
	return nil
}
