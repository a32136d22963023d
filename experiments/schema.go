package experiments

import (
	_ "embed"
	"encoding/json"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// SchemaFile is what the schema is called where it lies beside experiments: their first line, Modeline, leads editors to it.
const SchemaFile = "lockdrill.schema.json"

// Modeline is the comment by which editors find the schema.
const Modeline = "# yaml-language-server: $schema=" + SchemaFile + "\n"

// descriptions are the comments of the fields, as the test of the schema takes them from the source: reflection has none. A line is
// Type.Field, a tab, and the text.
//
//go:embed descriptions.txt
var descriptions string

var describedFields = sync.OnceValue(func() map[string]string {
	texts := map[string]string{}
	for line := range strings.Lines(descriptions) {
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		texts[name] = text
	}
	return texts
})

// jsonSchema is a schema of draft 2020-12, as far as a file needs one.
type jsonSchema struct {
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
	Items            *jsonSchema            `json:"items,omitempty"`
	MinItems         int                    `json:"minItems,omitempty"`
	MaxItems         int                    `json:"maxItems,omitempty"`
	Properties       map[string]*jsonSchema `json:"properties,omitempty"`
	Required         []string               `json:"required,omitempty"`
	Additional       any                    `json:"additionalProperties,omitempty"` // false, or a schema
	AllOf            []*jsonSchema          `json:"allOf,omitempty"`
	AnyOf            []*jsonSchema          `json:"anyOf,omitempty"`
	OneOf            []*jsonSchema          `json:"oneOf,omitempty"`
	Defs             map[string]*jsonSchema `json:"$defs,omitempty"`

	// What editors say instead of the pattern; validators leave it alone.
	PatternError string `json:"patternErrorMessage,omitempty"`
}

// Schema is the JSON Schema of an experiment file, made of the types that the decoder walks along: what it refuses, the decoder refuses.
// The decoder knows more: what depends on several values, and what the text of a value has lost once it is read.
func Schema() ([]byte, error) { return schemaOf("lockdrill experiment", settable(&file{})) }

func schemaOf(title string, doc reflect.Value) ([]byte, error) {
	s := &schemer{defs: map[string]*jsonSchema{}}
	root := s.structure("", doc)
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = title
	root.Defs = s.defs
	data, err := json.MarshalIndent(root, "", " ")
	return append(data, '\n'), err
}

type schemer struct {
	defs map[string]*jsonSchema // of sections, by their types
}

// value is the schema of what decoder.value takes into v, which has its defaults.
func (s *schemer) value(at string, v reflect.Value, r rule) *jsonSchema {
	if v.Kind() == reflect.Pointer {
		target := reflect.New(v.Type().Elem())
		if v.IsNil() {
			settable(target.Interface())
		}
		return s.value(at, target.Elem(), r)
	}
	switch x := v.Addr().Interface().(type) {
	case reshaped:
		return s.section(at, v.Type(), reflect.ValueOf(x.form()).Elem())
	case scalar:
		return x.schema()
	}
	switch v.Kind() {
	case reflect.Struct:
		section := s.section(at, v.Type(), v)
		if r.brief == "" {
			return section
		}
		bare := v.FieldByName(r.brief).Type()
		if bare.Kind() == reflect.Pointer {
			bare, r.signed = bare.Elem(), true
		}
		return &jsonSchema{AnyOf: []*jsonSchema{scalarSchema(bare, r), section}}
	case reflect.Slice, reflect.Array:
		list := &jsonSchema{Type: "array", MinItems: 1, Items: s.value(at+"[]", settable(reflect.New(v.Type().Elem()).Interface()), r)}
		if v.Kind() == reflect.Array {
			list.MinItems, list.MaxItems = v.Len(), v.Len()
		}
		if r.single {
			return &jsonSchema{AnyOf: []*jsonSchema{list.Items, list}}
		}
		if x, ok := v.Addr().Interface().(sectioned); ok {
			from := reflect.ValueOf(x.section()).Elem()
			return &jsonSchema{AnyOf: []*jsonSchema{list, s.section(at, from.Type(), from)}}
		}
		return list
	case reflect.Map:
		return &jsonSchema{Type: "object", Additional: s.value(at+"{}", reflect.New(v.Type().Elem()).Elem(), rule{})}
	}
	return scalarSchema(v.Type(), r)
}

// section refers to the schema of a struct, which stands under the name of the type whose spelling it is.
func (s *schemer) section(at string, of reflect.Type, v reflect.Value) *jsonSchema {
	name := strings.NewReplacer("[", "-of-", "]", "").Replace(typeName(of, of.Name()))
	if s.defs[name] == nil {
		s.defs[name] = &jsonSchema{} // it is on its way
		s.defs[name] = s.structure(at, v)
	}
	return &jsonSchema{Ref: "#/$defs/" + name}
}

// typeName is the name of a type, with its package where that is not this one.
func typeName(t reflect.Type, name string) string {
	if t.PkgPath() == reflect.TypeFor[file]().PkgPath() {
		return name
	}
	return path.Base(t.PkgPath()) + "." + name
}

// structure is the schema of what decoder.structure takes into v.
func (s *schemer) structure(at string, v reflect.Value) *jsonSchema {
	out := &jsonSchema{Type: "object", Properties: map[string]*jsonSchema{}, Additional: false}
	var kinds []*jsonSchema
	for _, f := range fieldsOf(v.Type(), nil) {
		if f.kind != "" {
			p := s.value(join(at, f.name), settable(fault.New(f.kind)), rule{})
			p.Description = fault.Meaning(f.kind)
			out.Properties[f.name] = p
			kinds = append(kinds, &jsonSchema{Required: []string{f.name}})
			continue
		}
		p := s.value(join(at, f.name), v.FieldByIndex(f.index), f.rule)
		p.Description, p.Default = describedFields()[f.doc], defaultOf(v.FieldByIndex(f.index), f.rule)
		out.Properties[f.name] = p
		switch {
		case f.rule.required && f.rule.unless == "":
			out.Required = append(out.Required, f.name)
		case f.rule.required:
			out.AllOf = append(out.AllOf, &jsonSchema{AnyOf: []*jsonSchema{{Required: []string{f.name}}, given(strings.TrimPrefix(f.rule.unless, at+"."))}})
		}
	}
	out.OneOf = kinds
	return out
}

// given asks for the field at a path.
func given(path string) *jsonSchema {
	name, rest, deeper := strings.Cut(path, ".")
	s := &jsonSchema{Required: []string{name}}
	if deeper {
		s.Properties = map[string]*jsonSchema{name: given(rest)}
	}
	return s
}

// defaultOf is what a file that leaves a plain value out has said; nil = nothing.
func defaultOf(v reflect.Value, r rule) any {
	if v.IsZero() || v.Kind() == reflect.Pointer || !isScalar(v.Type()) {
		return nil
	}
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		if v.Type() != durationType && !r.perSecond {
			return v.Interface()
		}
	}
	return encode(v, r).Value
}

// The texts of durations, as parseDuration takes them.
const (
	units      = `(ns|us|µs|μs|ms|s|m|h)`
	firstPart  = `((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)` + units
	furtherOne = `([0-9]+(\.[0-9]*)?|\.[0-9]+)` + units
)

// scalarSchema is the schema of what parseScalar takes.
func scalarSchema(t reflect.Type, r rule) *jsonSchema {
	switch {
	case t == durationType:
		return durationSchema(r)
	case r.perSecond:
		return &jsonSchema{Type: "string", Pattern: `^[0-9.]+/[smh]$`, PatternError: "no rate: write it like 20/s, 90/m or 500/h"}
	}
	number := func(kind string, low, high float64) *jsonSchema {
		return &jsonSchema{Type: kind, Minimum: &low, Maximum: &high}
	}
	switch t.Kind() {
	case reflect.String:
		s := &jsonSchema{Type: "string", Enum: slices.Clone(r.words)}
		switch {
		case r.ident:
			s.Pattern, s.PatternError = identifier().String(), "no name: letters, digits, dots, dashes and underscores, at most 63"
		case r.required:
			s.MinLength = 1
		}
		return s
	case reflect.Bool:
		return &jsonSchema{Type: "boolean"}
	case reflect.Float64:
		s := number("number", 0, cmpOr(r.max, math.MaxInt32))
		if r.positive {
			s.Minimum, s.ExclusiveMinimum = nil, s.Minimum
		}
		return s
	case reflect.Int64:
		return number("integer", r.min, math.MaxInt64)
	}
	return number("integer", r.min, cmpOr(r.max, math.MaxInt32))
}

func durationSchema(r rule) *jsonSchema {
	sign := `\+?`
	if r.signed {
		sign = `[-+]?`
	}
	s := &jsonSchema{Type: "string", Pattern: "^" + sign + firstPart + "(" + furtherOne + ")*$",
		PatternError: "no duration: write it with its unit, like 500ms, 30s, 2m or 1h30m"}
	if r.positive {
		s.AllOf = []*jsonSchema{{Pattern: "[1-9]", PatternError: "must be above 0"}}
	}
	return s
}

func (*cadence) schema() *jsonSchema {
	return &jsonSchema{AnyOf: []*jsonSchema{{Enum: []string{"settled"}}, durationSchema(rule{positive: true})}}
}

func (*amount) schema() *jsonSchema {
	return &jsonSchema{AnyOf: []*jsonSchema{scalarSchema(reflect.TypeFor[int](), rule{}), scalarSchema(reflect.TypeFor[time.Duration](), rule{})}}
}
