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

// parser makes rows of lines: by the named groups of a pattern, or as JSON objects where that is "". ok is false for any other line.
func parser(pattern string) (parse func(line []byte) (Row, bool), err error) {
	if pattern == "" {
		return func(line []byte) (Row, bool) {
			row, err := parseJSON(line)
			return row, err == nil
		}, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, declared("pattern: %v", err)
	}
	names := re.SubexpNames()
	return func(line []byte) (Row, bool) {
		at := re.FindSubmatchIndex(line)
		if at == nil {
			return nil, false
		}
		row := Row{}
		for i, name := range names {
			if name != "" && at[2*i] >= 0 {
				row[name] = string(line[at[2*i]:at[2*i+1]])
			}
		}
		return row, true
	}, nil
}
