package resp

import (
	"bytes"
	"fmt"
)

// Args appends the words of one complete command, as Scanner found it, to into: slices of frame, nothing is copied where frame is an
// array. A command without words is none: a server does not answer it.
func Args(into [][]byte, frame []byte) ([][]byte, error) {
	if len(frame) == 0 || frame[0] != '*' {
		return inline(into, frame)
	}
	count, rest, ok := header(frame)
	if !ok {
		return into, fmt.Errorf("%w: header of a command", ErrSyntax)
	}
	for range count {
		size, body, ok := header(rest)
		if !ok || rest[0] != '$' || size < 0 || size > int64(len(body))-2 {
			return into, fmt.Errorf("%w: word of a command", ErrSyntax)
		}
		into = append(into, body[:size:size])
		rest = body[size+2:]
	}
	return into, nil
}

func header(b []byte) (n int64, rest []byte, ok bool) {
	end := bytes.IndexByte(b, '\n')
	if end < 1 {
		return 0, nil, false
	}
	n, ok = number(b[1 : end+1])
	return n, b[end+1:], ok
}

// inline takes an inline command apart at its blanks. Words in quotes are taken as they stand between them, apart from escapes of
// one character.
func inline(into [][]byte, line []byte) ([][]byte, error) {
	for {
		line = bytes.TrimLeft(line, " \t\r\n\x00")
		if len(line) == 0 {
			return into, nil
		}
		if q := line[0]; q == '"' || q == '\'' {
			word, rest, ok := quoted(line[1:], q)
			if !ok {
				return into, fmt.Errorf("%w: a quote without an end", ErrSyntax)
			}
			into, line = append(into, word), rest
			continue
		}
		end := bytes.IndexAny(line, " \t\r\n\x00")
		if end < 0 {
			end = len(line)
		}
		into, line = append(into, line[:end:end]), line[end:]
	}
}

func quoted(b []byte, quote byte) (word, rest []byte, ok bool) {
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\\' && i+1 < len(b):
			i++
			word = append(word, b[i])
		case b[i] == quote:
			return word, b[i+1:], true
		default:
			word = append(word, b[i])
		}
	}
	return nil, nil, false
}
