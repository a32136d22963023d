package vocab

import (
	"reflect"
	"slices"
	"strings"
)

// conditions are the rules of a section that are about several of its fields: which go together, exclude and need one another. What
// depends on the file as a whole (@observed) is not among them: a schema knows a section by its type, wherever it stands.
func (s *schemer) conditions(v reflect.Value) (all []*JSONSchema) {
	of, filled := s.Vocabulary.section(v.Type()), reflect.New(v.Type())
	filled.Elem().Set(v)
	if x, is := filled.Interface().(Filled); is { // a field that is left out has what the others make of it
		x.Fill()
	}
	v = filled.Elem()
	var some []*JSONSchema
	for _, name := range slices.Concat(of.whole.One, of.whole.Any) {
		some = append(some, s.there(v, name))
	}
	switch {
	case len(of.whole.One) > 0:
		all = append(all, &JSONSchema{OneOf: some})
	case len(some) > 0:
		all = append(all, &JSONSchema{AnyOf: some})
	}
	for _, d := range of.fields {
		for _, c := range d.Rule.For {
			if then := s.holds(v, c); then != nil {
				all = append(all, &JSONSchema{If: &JSONSchema{Required: []string{d.Name}}, Then: then})
			}
		}
		needed := &JSONSchema{}
		for _, other := range d.Rule.Not {
			excluded := &JSONSchema{Not: s.there(v, other)}
			all = append(all, &JSONSchema{If: s.there(v, d.Name), Then: excluded})
			needed.AllOf = append(needed.AllOf, excluded)
		}
		if slices.ContainsFunc(d.Rule.Need, Cond.ofFile) || len(d.Rule.Need) == 0 {
			continue
		}
		for _, c := range d.Rule.Need {
			needed.AllOf = append(needed.AllOf, s.holds(v, c))
		}
		all = append(all, &JSONSchema{If: needed, Then: &JSONSchema{Required: []string{d.Name}}})
	}
	return all
}

// ofFile reports a condition on the file as a whole.
func (c Cond) ofFile() bool { return strings.HasPrefix(c.Field, "@") }

// holds is the schema of sections of which a condition holds; nil = it is about the file as a whole. A field that is left out has its
// default.
func (s *schemer) holds(v reflect.Value, c Cond) *JSONSchema {
	switch {
	case c.ofFile():
		return nil
	case len(c.Words) == 0 && len(c.fields()) == 1:
		return s.there(v, c.Field)
	case len(c.Words) == 0:
		any := &JSONSchema{}
		for _, name := range c.fields() {
			any.AnyOf = append(any.AnyOf, s.there(v, name))
		}
		return any
	}
	out := &JSONSchema{Properties: map[string]*JSONSchema{c.Field: {Enum: c.Words}}}
	if !slices.Contains(c.Words, s.fieldOf(v, c.Field).String()) {
		out.Required = []string{c.Field}
	}
	return out
}

// there asks for a field that says something: false says nothing.
func (s *schemer) there(v reflect.Value, name string) *JSONSchema {
	out := &JSONSchema{Required: []string{name}}
	if s.fieldOf(v, name).Kind() == reflect.Bool {
		out.Properties = map[string]*JSONSchema{name: {Const: true}}
	}
	return out
}
