package effects

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
)

// Row is an entry of a source: its columns by name. What is null is not there, and what is an object or a list is its JSON.
type Row map[string]string

// Get is the value of a column. Where there is none of that name, a.b is the field b of the JSON object in column a.
func (r Row) Get(column string) (string, bool) {
	if v, ok := r[column]; ok {
		return v, true
	}
	for i := 0; i < len(column); i++ {
		if column[i] != '.' {
			continue
		}
		if inner, err := parseJSON([]byte(r[column[:i]])); err == nil {
			if v, ok := inner.Get(column[i+1:]); ok {
				return v, true
			}
		}
	}
	return "", false
}

// columns are its names, for a message.
func (r Row) columns() string { return strings.Join(slices.Sorted(maps.Keys(r)), ", ") }

var errNoObject = errors.New("no JSON object")

// parseJSON makes a row of a JSON object.
func parseJSON(text []byte) (Row, error) {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return nil, errNoObject
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	var fields map[string]json.RawMessage
	if err := dec.Decode(&fields); err != nil {
		return nil, errNoObject
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errNoObject
	}
	row := make(Row, len(fields))
	for name, raw := range fields {
		switch {
		case string(raw) == "null":
		case raw[0] == '"':
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, errNoObject
			}
			row[name] = s
		default: // numbers as they are written: an id may be longer than a float is exact
			row[name] = string(raw)
		}
	}
	return row, nil
}

// parser makes rows of lines: by the named groups of a pattern, or of JSON objects where that is "".
func parser(pattern string) (parse func(follow.Line) Parsed, err error) {
	if pattern == "" {
		return parseObject, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, Declared("pattern: %v", err)
	}
	return func(l follow.Line) Parsed {
		text, at := l.Find(re)
		if at == nil {
			return Parsed{Unread: unreadIf(l.Cut, history.CutOff)}
		}
		row := Row{}
		for i, name := range re.SubexpNames() {
			if name != "" && at[2*i] >= 0 {
				row[name] = string(text[at[2*i]:at[2*i+1]])
			}
		}
		return Parsed{Row: row}
	}, nil
}

// Parsed is what became of a line: a row, nothing, or something that could not be read and may have been one.
type Parsed struct {
	Row    Row
	Unread history.UnreadReason // "" = it could be
}

func unreadIf(is bool, why history.UnreadReason) history.UnreadReason {
	if is {
		return why
	}
	return ""
}

// parseObject reads a line that is a JSON object. What a container runtime wrote around it are columns as well, where it has none of
// that name. A line that begins as an object with a name and is none was cut, or written into by somebody else.
func parseObject(l follow.Line) Parsed {
	row, err := parseJSON(l.Text)
	around, _ := parseJSON(l.Whole)
	switch {
	case err == nil:
		for name, value := range around {
			if _, known := row[name]; !known {
				row[name] = value
			}
		}
		return Parsed{Row: row}
	case !begun.Match(l.Text):
		return Parsed{Row: around, Unread: unreadIf(l.Cut && around == nil, history.CutOff)}
	case l.Cut:
		return Parsed{Unread: history.CutOff}
	}
	return Parsed{Unread: history.Unparsable}
}

// begun is the beginning of a JSON object that has a field.
var begun = regexp.MustCompile(`^\s*\{\s*"`)
