package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// codec walks over the fields of an event in the order of the struct, which is the order in which they are written: the same walk writes
// a line, and reads one. A line that it cannot read that way (another order, white space, a field that nobody knows) is not wrong:
// encoding/json then reads it, and says what is wrong where something is.
type codec struct {
	b       []byte // what was written so far, or the line that is read
	reading bool
	at      int  // reading: the next byte
	later   bool // another field of this object stands before it
	failed  bool // reading: encoding/json is to read it
	err     error
	names   *names // reading; nil: each string is made anew
	slots   *slots
}

// slots is memory for one event's body, of the kinds that a history is full of and of which nobody keeps one.
type slots struct {
	job      Job
	call     Call
	work     Work
	write    Write
	entry    Entry
	look     Look
	prev     Span
	jobDue   Span
	entryDue Span
	coverage Coverage
}

// names keeps strings that were read lately: nearly every string of a line stood in one of the lines before.
type names [1 << 13]string

const nameLimit = 64 // bytes: what is longer is text, and comes once

func (n *names) of(b []byte, hash uint32) string {
	if n == nil || len(b) > nameLimit {
		return string(b)
	}
	s := &n[hash&(1<<13-1)]
	if *s != string(b) {
		*s = string(b)
	}
	return *s
}

// MarshalEvent writes e as json.Marshal does, byte for byte.
func MarshalEvent(e *Event) ([]byte, error) {
	k := codec{b: make([]byte, 0, 512)}
	err := k.write(e)
	return k.b, err
}

// Parser reads what MarshalEvent, or json.Marshal, has written, one line after the other, and makes a string that comes again only once.
// Fields that it does not know are ignored. It is not safe for concurrent use.
type Parser struct{ codec codec }

// NewParser returns a parser that has read nothing.
func NewParser() *Parser { return &Parser{codec{names: new(names)}} }

// Parse reads a line, which ends with its object, into e.
func (p *Parser) Parse(line []byte, e *Event) error {
	if p.codec.parse(line, e) {
		return nil
	}
	*e = Event{}
	return json.Unmarshal(line, e)
}

// write adds e, without a newline, to what was written before.
func (k *codec) write(e *Event) error {
	k.err = nil
	k.open()
	e.walk(k)
	k.close()
	return k.err
}

// parse reads a line into e, and says whether it could.
func (k *codec) parse(line []byte, e *Event) bool {
	*k = codec{b: line, reading: true, names: k.names, slots: k.slots}
	*e = Event{}
	k.open()
	e.walk(k)
	k.close()
	return !k.failed && k.at == len(line)
}

// strictly reads a line that parse has left: what is no event, or has fields that no event has, is an error.
func strictly(line []byte, v any) (*json.Decoder, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	return dec, dec.Decode(v)
}

func (k *codec) open() {
	k.later = false
	if !k.reading {
		k.b = append(k.b, '{')
	} else {
		k.expect('{')
	}
}

func (k *codec) close() {
	k.later = true
	if !k.reading {
		k.b = append(k.b, '}')
	} else {
		k.expect('}')
	}
}

func (k *codec) expect(c byte) {
	if k.at < len(k.b) && k.b[k.at] == c {
		k.at++
		return
	}
	k.failed = true
}

// next reports whether the field of that name comes next in the line, and steps over the name: `"n":`.
func (k *codec) next(name string) bool {
	at := k.at
	if k.later {
		if at >= len(k.b) || k.b[at] != ',' {
			return false
		}
		at++
	}
	if len(k.b)-at < len(name) || string(k.b[at:at+len(name)]) != name {
		return false
	}
	k.at, k.later = at+len(name), true
	return true
}

func (k *codec) name(name string) {
	if k.later {
		k.b = append(k.b, ',')
	}
	k.b, k.later = append(k.b, name...), true
}

// need is a field that is always written, want one that is left out where it is zero.
const (
	need = true
	want = false
)

func num[T int | int32 | int64](k *codec, name string, v *T, always bool) {
	switch {
	case !k.reading:
		if always || *v != 0 {
			k.name(name)
			k.b = strconv.AppendInt(k.b, int64(*v), 10)
		}
	case k.next(name):
		n := k.integer()
		if *v = T(n); int64(*v) != n {
			k.failed = true
		}
	}
}

// integer reads at most 18 digits; encoding/json knows what to do with more.
func (k *codec) integer() int64 {
	b, at, minus := k.b, k.at, false
	if at < len(b) && b[at] == '-' {
		minus = true
		at++
	}
	n, from := int64(0), at
	for ; at < len(b) && b[at]-'0' < 10; at++ {
		n = n*10 + int64(b[at]-'0')
		if at-from == 18 {
			k.failed = true
			return 0
		}
	}
	if at == from || b[from] == '0' && at > from+1 {
		k.failed = true
	}
	k.at = at
	if minus {
		return -n
	}
	return n
}

func flag(k *codec, name string, v *bool, always bool) {
	switch {
	case !k.reading:
		if always || *v {
			k.name(name)
			k.b = strconv.AppendBool(k.b, *v)
		}
	case k.next(name):
		if rest := k.b[k.at:]; bytes.HasPrefix(rest, []byte("true")) {
			*v = true
			k.at += len("true")
		} else if bytes.HasPrefix(rest, []byte("false")) {
			k.at += len("false")
		} else {
			k.failed = true
		}
	}
}

func text[T ~string](k *codec, name string, v *T, always bool) {
	switch {
	case !k.reading:
		if always || *v != "" {
			k.name(name)
			k.quote(string(*v))
		}
	case k.next(name):
		*v = T(k.quoted())
	}
}

// quote writes a string; what JSON or HTML escapes is left to encoding/json.
func (k *codec) quote(s string) {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			k.any(s)
			return
		}
	}
	k.b = append(k.b, '"')
	k.b = append(k.b, s...)
	k.b = append(k.b, '"')
}

// quoted reads a string; one with an escape or beyond ASCII is left to encoding/json.
func (k *codec) quoted() string {
	if k.expect('"'); k.failed {
		return ""
	}
	hash := uint32(2166136261)
	for at := k.at; at < len(k.b); at++ {
		c := k.b[at]
		if c == '"' {
			s := k.b[k.at:at]
			k.at = at + 1
			return k.names.of(s, hash)
		}
		if c < ' ' || c >= 0x80 || c == '\\' {
			var s string
			k.at--
			k.read(&s)
			return s
		}
		hash = (hash ^ uint32(c)) * 16777619
	}
	k.failed = true
	return ""
}

// any writes a value by encoding/json.
func (k *codec) any(v any) {
	b, err := json.Marshal(v)
	k.b, k.err = append(k.b, b...), errors.Join(k.err, err)
}

// read reads a value by encoding/json.
func (k *codec) read(v any) {
	dec, err := strictly(k.b[k.at:], v)
	if err != nil {
		k.failed = true
		return
	}
	k.at += int(dec.InputOffset())
}

// body is a body, or an object in one, of a kind that comes often. slot, which may be nil, is where it is read into.
func body[T any](k *codec, name string, v **T, slot func(*slots) *T, walk func(*T, *codec)) {
	switch {
	case !k.reading:
		if *v != nil {
			k.name(name)
			k.open()
			walk(*v, k)
			k.close()
		}
	case k.next(name):
		if k.slots == nil || slot == nil {
			*v = new(T)
		} else {
			*v = slot(k.slots)
			**v = *new(T)
		}
		k.open()
		walk(*v, k)
		k.close()
	}
}

// rare is a value that comes seldom: encoding/json writes and reads it. written says whether there is one.
func rare[T any](k *codec, name string, v *T, written bool) {
	switch {
	case !k.reading:
		if written {
			k.name(name)
			k.any(*v)
		}
	case k.next(name):
		k.read(v)
	}
}
