package vocab

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
)

// JSONSchema is a schema of draft 2020-12, as far as a file needs one.
type JSONSchema struct {
	Schema           string                 `json:"$schema,omitempty"`
	Title            string                 `json:"title,omitempty"`
	Description      string                 `json:"description,omitempty"`
	Ref              string                 `json:"$ref,omitempty"`
	Type             string                 `json:"type,omitempty"`
	Default          any                    `json:"default,omitempty"`
	Enum             []string               `json:"enum,omitempty"`
	Pattern          string                 `json:"pattern,omitempty"`
	MinLength        int                    `json:"minLength,omitempty"`
	Minimum          *float64               `json:"minimum,omitempty"`
	ExclusiveMinimum *float64               `json:"exclusiveMinimum,omitempty"`
	Maximum          *float64               `json:"maximum,omitempty"`
	Items            *JSONSchema            `json:"items,omitempty"`
	MinItems         int                    `json:"minItems,omitempty"`
	MaxItems         int                    `json:"maxItems,omitempty"`
	Properties       map[string]*JSONSchema `json:"properties,omitempty"`
	Required         []string               `json:"required,omitempty"`
	Additional       any                    `json:"additionalProperties,omitempty"` // false, or a schema
	AllOf            []*JSONSchema          `json:"allOf,omitempty"`
	AnyOf            []*JSONSchema          `json:"anyOf,omitempty"`
	OneOf            []*JSONSchema          `json:"oneOf,omitempty"`
	Not              *JSONSchema            `json:"not,omitempty"`
	If               *JSONSchema            `json:"if,omitempty"`
	Then             *JSONSchema            `json:"then,omitempty"`
	Const            any                    `json:"const,omitempty"`
	Defs             map[string]*JSONSchema `json:"$defs,omitempty"`

	// What editors say instead of the pattern; validators leave it alone.
	PatternError string `json:"patternErrorMessage,omitempty"`
}

// Schema is the JSON Schema of a document, made of the types that File.Decode walks along: what it refuses, the decoder refuses. The
// decoder knows more: what depends on values of several sections, and what the text of a value has lost once it is read. doc is a
// pointer to a section with its defaults.
func (y *Vocabulary) Schema(title string, doc any) ([]byte, error) {
	s := &schemer{Vocabulary: y, defs: map[string]*JSONSchema{}}
	root := s.structure("", reflect.ValueOf(doc).Elem())
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = title
	root.Defs = s.defs
	data, err := json.MarshalIndent(root, "", " ")
	return append(data, '\n'), err
}

type schemer struct {
	*Vocabulary
	defs map[string]*JSONSchema // of sections, by their types
}

// value is the schema of what File.Decode takes into v, which has its defaults.
func (s *schemer) value(at string, v reflect.Value, r Rule) *JSONSchema {
	if v.Kind() == reflect.Pointer {
		target := reflect.New(v.Type().Elem())
		if v.IsNil() {
			s.Default(target.Interface())
		}
		return s.value(at, target.Elem(), r)
	}
	switch x := v.Addr().Interface().(type) {
	case Spelled:
		return s.section(at, v.Type(), reflect.ValueOf(x.Spelling()).Elem())
	case Scalar:
		return x.Schema()
	}
	switch v.Kind() {
	case reflect.Struct:
		section := s.section(at, v.Type(), v)
		if r.Shorthand == "" {
			return section
		}
		bare := v.FieldByName(r.Shorthand).Type()
		if bare.Kind() == reflect.Pointer {
			bare, r.Signed = bare.Elem(), true
		}
		return &JSONSchema{AnyOf: []*JSONSchema{ScalarSchema(bare, r), section}}
	case reflect.Slice, reflect.Array:
		list := &JSONSchema{Type: "array", MinItems: 1, Items: s.value(at+"[]", s.setDefaults(reflect.New(v.Type().Elem()).Elem()), r)}
		if v.Kind() == reflect.Array {
			list.MinItems, list.MaxItems = v.Len(), v.Len()
		}
		if r.Single {
			return &JSONSchema{AnyOf: []*JSONSchema{list.Items, list}}
		}
		if x, ok := v.Addr().Interface().(Sectioned); ok {
			from := reflect.ValueOf(x.Section()).Elem()
			return &JSONSchema{AnyOf: []*JSONSchema{list, s.section(at, from.Type(), from)}}
		}
		return list
	case reflect.Map:
		return &JSONSchema{Type: "object", Additional: s.value(at+"{}", reflect.New(v.Type().Elem()).Elem(), Rule{})}
	}
	return ScalarSchema(v.Type(), r)
}

// section refers to the schema of a struct, which stands under the name of the type whose spelling it is.
func (s *schemer) section(at string, of reflect.Type, v reflect.Value) *JSONSchema {
	name := strings.NewReplacer("[", "-of-", "]", "").Replace(s.typeName(of, of.Name()))
	if s.defs[name] == nil {
		s.defs[name] = &JSONSchema{} // it is on its way
		s.defs[name] = s.structure(at, v)
	}
	return &JSONSchema{Ref: "#/$defs/" + name}
}

// structure is the schema of what File.structure takes into v.
func (s *schemer) structure(at string, v reflect.Value) *JSONSchema {
	out := &JSONSchema{Type: "object", Properties: map[string]*JSONSchema{}, Additional: false}
	var kinds []*JSONSchema
	for _, d := range s.Fields(v.Type()) {
		if d.Kind != "" {
			u := s.union(v.FieldByIndex(d.Index).Type())
			p := s.value(Join(at, d.Name), reflect.ValueOf(u.New(d.Kind)).Elem(), Rule{})
			p.Description = u.Says(d.Kind)
			out.Properties[d.Name] = p
			kinds = append(kinds, &JSONSchema{Required: []string{d.Name}})
			continue
		}
		p := s.value(Join(at, d.Name), v.FieldByIndex(d.Index), d.Rule)
		p.filled()
		p.Items.filled()
		p.Description, p.Default = s.Comments()[d.Doc], s.defaultValue(v.FieldByIndex(d.Index), d.Rule)
		out.Properties[d.Name] = p
		switch {
		case d.Rule.Required && d.Rule.Unless == "":
			out.Required = append(out.Required, d.Name)
		case d.Rule.Required:
			enough := []*JSONSchema{{Required: []string{d.Name}}}
			for _, with := range d.Rule.Excuses() {
				enough = append(enough, given(strings.TrimPrefix(with, at+".")))
			}
			out.AllOf = append(out.AllOf, &JSONSchema{AnyOf: enough})
		}
	}
	out.OneOf = kinds
	out.AllOf = append(out.AllOf, s.conditions(v)...)
	return out
}

// filled says of a text that it is not empty.
func (s *JSONSchema) filled() {
	if s != nil && s.Type == "string" && len(s.Enum) == 0 && s.Pattern == "" {
		s.MinLength = 1
	}
}

// given asks for the field at a path.
func given(path string) *JSONSchema {
	name, rest, deeper := strings.Cut(path, ".")
	s := &JSONSchema{Required: []string{name}}
	if deeper {
		s.Properties = map[string]*JSONSchema{name: given(rest)}
	}
	return s
}

// defaultValue is what a file that leaves a plain value out has said; nil = nothing.
func (y *Vocabulary) defaultValue(v reflect.Value, r Rule) any {
	if v.IsZero() || v.Kind() == reflect.Pointer || !isScalar(v.Type()) {
		return nil
	}
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		if v.Type() != duration && !r.PerSecond {
			return v.Interface()
		}
	}
	return y.encode(v, r).Value
}

// The texts of durations, as ParseDuration takes them.
const (
	units      = `(ns|us|µs|μs|ms|s|m|h)`
	firstPart  = `((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)` + units
	furtherOne = `([0-9]+(\.[0-9]*)?|\.[0-9]+)` + units
)

// ScalarSchema is the schema of one value of a type under a rule.
func ScalarSchema(t reflect.Type, r Rule) *JSONSchema {
	switch {
	case t == duration:
		return durationSchema(r)
	case r.PerSecond:
		return &JSONSchema{Type: "string", Pattern: `^[0-9.]+/[smh]$`, PatternError: "no rate: write it like 20/s, 90/m or 500/h"}
	}
	number := func(kind string, low, high float64) *JSONSchema {
		return &JSONSchema{Type: kind, Minimum: &low, Maximum: &high}
	}
	switch t.Kind() {
	case reflect.String:
		s := &JSONSchema{Type: "string", Enum: slices.Clone(r.Words)}
		if r.Ident {
			s.Pattern, s.PatternError = Identifier().String(), "no name: letters, digits, dots, dashes and underscores, at most 63"
		}
		return s
	case reflect.Bool:
		return &JSONSchema{Type: "boolean"}
	case reflect.Float64:
		s := number("number", 0, cmpOr(r.Max, math.MaxInt32))
		if r.Positive {
			s.Minimum, s.ExclusiveMinimum = nil, s.Minimum
		}
		return s
	case reflect.Int64:
		return number("integer", r.Min, math.MaxInt64)
	}
	return number("integer", r.Min, cmpOr(r.Max, math.MaxInt32))
}

func durationSchema(r Rule) *JSONSchema {
	sign := `\+?`
	if r.Signed {
		sign = `[-+]?`
	}
	s := &JSONSchema{Type: "string", Pattern: "^" + sign + firstPart + "(" + furtherOne + ")*$",
		PatternError: "no duration: write it with its unit, like 500ms, 30s, 2m or 1h30m"}
	if r.Positive {
		s.AllOf = []*JSONSchema{{Pattern: "[1-9]", PatternError: "must be above 0"}}
	}
	return s
}
