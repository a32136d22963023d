package history

import (
	"bufio"
	"bytes"
	"encoding/json"
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
	br := bufio.NewReaderSize(r, 1<<16)
	h := &History{}
	for n := 1; ; n++ {
		line, err := readLine(br)
		whole := err == nil
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("history line %d: %w", n, err)
		}
		if len(line) == 0 && !whole {
			break
		}
		if perr := h.parse(n, line); perr != nil {
			if whole || n == 1 {
				return nil, fmt.Errorf("history line %d: %w", n, perr)
			}
			h.Torn = fmt.Sprintf("line %d is cut off after %d bytes", n, len(line))
		}
		if !whole {
			break
		}
	}
	if h.Header.Schema == 0 {
		return nil, errors.New("history line 1: the file is empty: no header")
	}
	return h, nil
}

func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes: not a history", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(line, []byte("\n")), err
		}
	}
}

func (h *History) parse(n int, line []byte) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if n == 1 {
		var head Header
		if err := dec.Decode(&head); err != nil {
			return fmt.Errorf("header: %w", err)
		}
		if err := head.Check(); err != nil {
			return fmt.Errorf("header: %w", err)
		}
		h.Header = head
		return nil
	}
	var e Event
	if err := dec.Decode(&e); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("more than one document")
	}
	if err := e.Check(); err != nil {
		return fmt.Errorf("%s: %w", e.Kind, err)
	}
	if want := int64(len(h.Events)) + 1; e.N != want {
		return fmt.Errorf("event number %d, want %d: lines are missing or out of order", e.N, want)
	}
	h.Events = append(h.Events, e)
	return nil
}
