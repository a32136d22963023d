package tap

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// DecodeStrict reads one JSON object without unknown fields, or says what is wrong and where.
func DecodeStrict(data []byte, into any) *Problem {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		end := dec.InputOffset()
		if err = dec.Decode(&struct{}{}); errors.Is(err, io.EOF) {
			return nil
		}
		return &Problem{place(data, end), "there is more after the object", "one JSON object"}
	}
	var wrong *json.UnmarshalTypeError
	var broken *json.SyntaxError
	switch {
	case errors.As(err, &wrong):
		return &Problem{wrong.Field, fmt.Sprintf("a %s stands at %s", wrong.Value, place(data, wrong.Offset)), "a value of type " + wrong.Type.String() + " is wanted"}
	case errors.As(err, &broken):
		return &Problem{place(data, broken.Offset-1), broken.Error(), "one JSON object"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Problem{place(data, int64(len(data))), "it ends too early", "one JSON object"}
	}
	if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return &Problem{strings.Trim(name, `"`), "is no field; found before " + place(data, dec.InputOffset()), "see docs/faults.md for the fields"}
	}
	return &Problem{"", err.Error(), "one JSON object"}
}

// place is line:column of an offset.
func place(data []byte, offset int64) string {
	before := data[:min(max(int(offset), 0), len(data))]
	line := bytes.Count(before, []byte("\n"))
	return fmt.Sprintf("line %d:%d", line+1, len(before)-bytes.LastIndexByte(before, '\n'))
}

// Check says all that is wrong with the rules.
func (r *Rules) Check() (all []Problem) {
	say := func(bad bool, field, problem, remedy string) {
		if bad {
			all = append(all, Problem{field, problem, remedy})
		}
	}
	common := func(at, op string, key, token int) {
		say(!slices.Contains([]string{burst.Acquire, burst.Renew, burst.Release, None}, op), at+".op", fmt.Sprintf("%q is no operation on a lock", op), "one of acquire, renew, release, none")
		say(key < 0, at+".key", "is negative", "a position, from 1")
		say(token < 0, at+".token", "is negative", "a position, from 1")
	}
	for i, k := range r.Keys {
		say(k == "", fmt.Sprintf("keys[%d]", i), "is empty", "a glob as \"lock:*\"")
	}
	for i, c := range r.Commands {
		at := fmt.Sprintf("commands[%d]", i)
		say(c.Command == "", at+".command", "is missing", "a command's name, as \"SET\"")
		common(at, c.Op, c.Key, c.Token)
	}
	for i, s := range r.Scripts {
		at := fmt.Sprintf("scripts[%d]", i)
		sum, err := hex.DecodeString(s.SHA1)
		say((s.SHA1 == "") == (s.Contains == ""), at, "needs either sha1 or contains", "the SHA1 by which it is called, or a piece of its text")
		say(s.SHA1 != "" && (err != nil || len(sum) != 20), at+".sha1", fmt.Sprintf("%q is no SHA1", s.SHA1), "40 hexadecimal digits, as SCRIPT LOAD answers")
		common(at, s.Op, s.Key, s.Token)
	}
	return all
}
