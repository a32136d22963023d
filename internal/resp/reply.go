package resp

import (
	"bytes"
	"fmt"
	"strconv"
)

// ServerError is an error that a server has answered: its words, without the sign before them.
type ServerError string

func (e ServerError) Error() string { return string(e) }

// Reply reads replies (RESP2) that are whole, as Scanner has found them, value by value in their order. What is not of the kind that is asked
// for leaves an error, after which nothing more is read; its caller asks for that once, at the end.
type Reply struct {
	rest []byte
	err  error
}

// NewReply reads b, and gives away slices of it: nothing is copied.
func NewReply(b []byte) Reply { return Reply{rest: b} }

// Err is the first value that was not what it should be: a ServerError, or ErrSyntax.
func (r *Reply) Err() error { return r.err }

// Done reports that all has been read, without an error.
func (r *Reply) Done() bool { return r.err == nil && len(r.rest) == 0 }

// Status is a line, such as OK.
func (r *Reply) Status() []byte { return r.line('+') }

// Int is a whole number.
func (r *Reply) Int() int64 { return r.number(':') }

// Array begins an array, and is how many values follow that belong to it; none for one that is null.
func (r *Reply) Array() int { return int(max(0, r.number('*'))) }

// Bulk is a string; nil = null.
func (r *Reply) Bulk() []byte {
	size := r.number('$')
	if r.err != nil || size < 0 {
		return nil
	}
	if size > int64(len(r.rest))-2 {
		r.err = fmt.Errorf("%w: a string is cut off", ErrSyntax)
		return nil
	}
	body := r.rest[:size:size]
	r.rest = r.rest[size+2:]
	return body
}

func (r *Reply) number(kind byte) int64 {
	line := r.line(kind)
	if r.err != nil {
		return 0
	}
	n, ok := number(line[:len(line)+2]) // with its CRLF
	if !ok {
		r.err = fmt.Errorf("%w: %q is no number", ErrSyntax, line)
	}
	return n
}

// line reads a line of that kind, without its first byte and its CRLF.
func (r *Reply) line(kind byte) []byte {
	if r.err != nil {
		return nil
	}
	end := bytes.IndexByte(r.rest, '\n')
	if end < 2 || r.rest[end-1] != '\r' {
		r.err = fmt.Errorf("%w: a reply is cut off", ErrSyntax)
		return nil
	}
	head, line := r.rest[0], r.rest[1:end-1]
	switch {
	case head == kind:
		r.rest = r.rest[end+1:]
		return line
	case head == '-':
		r.err = ServerError(line)
	default:
		r.err = fmt.Errorf("%w: %q where a value of kind %q belongs", ErrSyntax, head, kind)
	}
	return nil
}

// AppendHead begins a command of n words; AppendWord adds each of them.
func AppendHead(b []byte, n int) []byte { return appendHeader(b, '*', n) }

// AppendWord adds a word to a command.
func AppendWord[T string | []byte](b []byte, word T) []byte {
	return append(append(appendHeader(b, '$', len(word)), word...), "\r\n"...)
}

// Command is a command of these words.
func Command(words ...string) []byte {
	b := AppendHead(nil, len(words))
	for _, word := range words {
		b = AppendWord(b, word)
	}
	return b
}

func appendHeader(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), "\r\n"...)
}
