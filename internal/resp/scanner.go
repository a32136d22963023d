// Package resp finds where commands and replies end in a stream of the Redis protocol (RESP2 and RESP3), without reading more of
// them than that takes, and takes apart single commands.
//
// It interprets no reply and answers nothing. Its one invariant: however a stream is cut into pieces, the same frames are found.
package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// ErrSyntax is what no Redis would say, or accept.
var ErrSyntax = errors.New("not RESP")

const (
	maxLength = 1 << 40       // bytes of a string: what a server accepts is its own business, this only keeps sums from overflowing
	maxCount  = math.MaxInt32 // elements of one aggregate
	maxHeader = 24            // bytes of a type, a number and CRLF
)

// Scanner finds the ends of frames. It keeps what it needs between two pieces of a stream, never the stream. The zero Scanner reads
// replies; its caller owns it.
type Scanner struct {
	// Commands: what clients send. A frame that does not begin with '*' is then one line, an inline command.
	Commands bool

	within bool  // a frame has begun
	opened bool  // and its first header was read
	kind   byte  // of the frame: its first byte
	need   int64 // elements that the frame still has
	skip   int64 // bytes of a string's body that are still to come, CRLF included
	line   bool  // until the end of a line of which nothing else matters
	header [maxHeader]byte
	n      int // bytes in header: it was cut
}

// Within reports that a frame has begun and not ended.
func (s *Scanner) Within() bool { return s.within }

// Kind is the first byte of the frame in progress, or of the last one.
func (s *Scanner) Kind() byte { return s.kind }

// Scan consumes b up to the end of the frame in progress, beginning one if there is none. It returns how many bytes of b belong to
// that frame, and whether it is complete; if it is not, that is all of b. After an error (ErrSyntax) the stream cannot be scanned on.
func (s *Scanner) Scan(b []byte) (n int, done bool, err error) {
	for n < len(b) {
		switch {
		case s.skip > 0:
			took := min(s.skip, int64(len(b)-n))
			s.skip -= took
			n += int(took)
		case s.line:
			end := bytes.IndexByte(b[n:], '\n')
			if end < 0 {
				return len(b), false, nil
			}
			n += end + 1
			s.line = false
		default:
			took, err := s.element(b[n:])
			n += took
			if err != nil {
				return n, false, err
			}
		}
		if s.within && s.n == 0 && s.need == 0 && s.skip == 0 && !s.line {
			s.within = false
			return n, true, nil
		}
	}
	return n, false, nil
}

// element reads the header of the next element, as far as it is there.
func (s *Scanner) element(b []byte) (int, error) {
	if !s.within {
		s.within, s.opened, s.kind, s.need = true, false, b[0], 1
	}
	kind := b[0]
	if s.n > 0 {
		kind = s.header[0]
	}
	if s.plain(kind) {
		s.need--
		s.line = true
		return 0, nil // the line is skipped from its first byte
	}
	end := bytes.IndexByte(b[:min(len(b), maxHeader-s.n)], '\n')
	switch {
	case end < 0 && s.n+len(b) >= maxHeader:
		return 0, fmt.Errorf("%w: a header without an end", ErrSyntax)
	case end < 0:
		s.n += copy(s.header[s.n:], b)
		return len(b), nil
	}
	head := b[:end+1]
	if s.n > 0 {
		s.n += copy(s.header[s.n:], head)
		head = s.header[:s.n]
		s.n = 0
	}
	return end + 1, s.announce(head)
}

// announce takes the complete header of a string or of an aggregate.
func (s *Scanner) announce(head []byte) error {
	count, ok := number(head[1:])
	if !ok || s.Commands && !s.allowed(head[0], count) {
		return fmt.Errorf("%w: header %q", ErrSyntax, head)
	}
	s.opened = true
	switch head[0] {
	case '$', '!', '=':
		s.need--
		if count > maxLength {
			return fmt.Errorf("%w: a string of %d bytes", ErrSyntax, count)
		}
		if count >= 0 {
			s.skip = count + 2
		}
		return nil
	case '*', '~', '>':
		s.need--
	case '%':
		s.need--
		count *= 2
	case '|': // attributes go before a value, and are none
		count *= 2
	default:
		return fmt.Errorf("%w: header %q", ErrSyntax, head)
	}
	if count > maxCount || s.need > maxCount {
		return fmt.Errorf("%w: %d elements", ErrSyntax, count)
	}
	s.need += max(count, 0)
	return nil
}

// plain reports an element that is one line: an inline command, or a value without a length.
func (s *Scanner) plain(kind byte) bool {
	if s.Commands {
		return s.kind != '*'
	}
	switch kind {
	case '+', '-', ':', ',', '(', '#', '_':
		return true
	}
	return false
}

// allowed reports a header that a command may have there: one array, of strings.
func (s *Scanner) allowed(kind byte, count int64) bool {
	if !s.opened {
		return kind == '*'
	}
	return kind == '$' && count >= 0
}

// number reads a decimal integer that ends with CRLF.
func number(b []byte) (int64, bool) {
	if len(b) < 3 || b[len(b)-2] != '\r' {
		return 0, false
	}
	b = b[:len(b)-2]
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
