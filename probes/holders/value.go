package holders

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
)

// Value finds the replica's name in the value of the key.
type Value struct {
	Lives   func() []Life
	Field   string         // of a value that is a JSON object: a.b; "" = none
	Pattern *regexp.Regexp // its group holder is the name; nil = none
	Is      Fits
}

// Word implements Source.
func (*Value) Word() string { return "value" }

// Ask implements Source.
func (v *Value) Ask(_ context.Context, q Question) Answer { return v.Recall(q) }

// Recall implements Instant.
func (v *Value) Recall(q Question) Answer {
	name, ok := v.name(q.Value)
	if !ok || name == "" {
		return unknown("the value has no such part")
	}
	a := named(v.Lives(), v.Is, name)
	if len(a.Holders) == 0 {
		a.Why = "the value names no replica that lives"
	}
	return a
}

// name is the part of the value that names the holder.
func (v *Value) name(value string) (string, bool) {
	switch {
	case v.Field != "":
		return field(value, strings.Split(v.Field, "."))
	case v.Pattern != nil:
		m := v.Pattern.FindStringSubmatch(value)
		if m == nil {
			return "", false
		}
		return m[v.Pattern.SubexpIndex("holder")], true
	}
	return value, true
}

// field is a text or a number within a JSON object.
func field(value string, path []string) (string, bool) {
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	var at any
	if d.Decode(&at) != nil {
		return "", false
	}
	for _, name := range path {
		object, ok := at.(map[string]any)
		if !ok {
			return "", false
		}
		at = object[name]
	}
	switch x := at.(type) {
	case string:
		return x, true
	case json.Number:
		return x.String(), true
	}
	return "", false
}
