package vocab

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Spelled types are spelled differently in a file: Spelling is a pointer to that spelling, filled from the value; SetSpelling takes the
// value back from it, also where parts of it did not decode.
type Spelled interface {
	Spelling() any
	SetSpelling(f *File, path string, spelling any)
}

// Sectioned lists may be a section in a file, from which the reader makes them: Section is a pointer to it.
type Sectioned interface{ Section() any }

// Scalar types read and write themselves: ParseNode gives "" or what is wrong.
type Scalar interface {
	ParseNode(n *yaml.Node) string
	Format() string
	Schema() *JSONSchema // of what ParseNode takes
}

// Placed sections keep where they stand, for messages of later stages. Line and column count from 1.
type Placed interface {
	StandsIn(file string, line, column int)
}

var (
	duration   = reflect.TypeFor[time.Duration]()
	scalarType = reflect.TypeFor[Scalar]()
)

// Decode walks the document along the type of into, because yaml.v3 by itself stops at the first unknown field of a custom type and
// gives no column. into is a pointer to a section; its defaults are set first.
func (f *File) Decode(into any) {
	f.Default(into)
	if f.Root != nil {
		f.value("", nil, f.Root, reflect.ValueOf(into).Elem(), Rule{})
	}
}

// value decodes n into v. key is where the value's name stands (nil for list elements).
func (f *File) value(path string, key, n *yaml.Node, v reflect.Value, r Rule) {
	f.positions[path] = n
	if Null(n) {
		f.empty(path, key, n, v)
		return
	}
	p := v.Addr().Interface()
	switch x := p.(type) {
	case Spelled:
		form := x.Spelling()
		f.structure(path, n, reflect.ValueOf(form).Elem())
		x.SetSpelling(f, path, form)
		return
	case Scalar:
		if leadingZero.MatchString(n.Value) {
			f.complain(path, n, v, r, zeroLed(n))
			return
		}
		f.complain(path, n, v, r, x.ParseNode(n))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		f.Default(target.Interface())
		f.value(path, key, n, target.Elem(), r)
		v.Set(target)
	case reflect.Struct:
		if r.Shorthand != "" && n.Kind == yaml.ScalarNode {
			f.bare(path, n, v, r)
			return
		}
		f.structure(path, n, v)
	case reflect.Slice, reflect.Array:
		f.list(path, n, v, r)
	case reflect.Map:
		f.mapping(path, n, v)
	default:
		f.complain(path, n, v, r, parseScalar(n, v, r))
	}
}

// bare decodes a section that is spelled as one value: a limit, or a name.
func (f *File) bare(path string, n *yaml.Node, v reflect.Value, r Rule) {
	to := v.FieldByName(r.Shorthand)
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
		r.Signed = true
	}
	f.complain(path, n, to, r, parseScalar(n, to, r))
}

// complain says text of the value that was to go into v; of a file that is not shown, it says what v takes.
func (f *File) complain(path string, n *yaml.Node, v reflect.Value, r Rule, text string) {
	if text != "" && f.hidden {
		text = wanted(v.Type(), r)
	}
	if text != "" {
		f.Add(path, n, "%s", text)
	}
}

func (f *File) empty(path string, key, n *yaml.Node, v reflect.Value) {
	if key == nil {
		key = n
	}
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isScalar(t) {
		f.Add(path, key, "the value is missing")
		return
	}
	f.Add(path, key, "the section is empty")
}

func isScalar(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(scalarType) || !slices.Contains([]reflect.Kind{reflect.Struct, reflect.Slice, reflect.Array, reflect.Interface}, t.Kind())
}

// structure decodes a mapping.
func (f *File) structure(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		f.Add(path, n, "a section with fields is wanted (%s), not %s", strings.Join(f.names(v.Type()), ", "), f.Describe(n))
		return
	}
	if x, is := v.Addr().Interface().(Placed); is {
		x.StandsIn(f.Name, n.Line, n.Column)
	}
	fields := f.Fields(v.Type())
	seen, misspelled := map[string]*yaml.Node{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := slices.IndexFunc(fields, func(d Field) bool { return d.Name == key.Value })
		place := Join(path, key.Value)
		if at < 0 && f.hidden {
			place = path
		}
		if first := seen[key.Value]; first != nil {
			f.Add(place, key, "given twice: the first is in line %d", first.Line)
			continue
		}
		seen[key.Value] = key
		if at < 0 {
			misspelled[f.unknown(place, key, v.Type())] = true
			continue
		}
		f.field(path, fields[at], key, value, v.FieldByIndex(fields[at].Index))
	}
	for _, d := range fields {
		excused := slices.ContainsFunc(d.Rule.Excuses(), func(with string) bool { return f.positions[with] != nil || seen[with] != nil })
		if d.Rule.Required && seen[d.Name] == nil && !misspelled[d.Name] && !excused {
			f.Add(Join(path, d.Name), n, "%s", missing(d))
		}
	}
	if x, is := v.Addr().Interface().(Filled); is {
		x.Fill()
	}
}

func (f *File) field(path string, d Field, key, n *yaml.Node, v reflect.Value) {
	if d.Kind != "" {
		f.member(Join(path, d.Name), d.Kind, key, n, v)
		return
	}
	f.value(Join(path, d.Name), key, n, v, d.Rule)
	if !d.Rule.Required {
		f.blank(Join(path, d.Name), n, d.Type)
	}
}

// blank refuses a text that is there and says nothing.
func (f *File) blank(path string, n *yaml.Node, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.String && n.Tag == "!!str" && n.Value == "" && !f.Stored && !f.Invalid(path) {
		f.Add(path, n, "is empty: write a value, or leave the line out")
	}
}

// member decodes the section of one kind of a union. Of several the first of the table is kept.
func (f *File) member(path, kind string, key, n *yaml.Node, union reflect.Value) {
	f.positions[path] = n
	if Null(n) {
		f.empty(path, key, n, union)
		return
	}
	u := f.union(union.Type())
	section := u.New(kind)
	f.value(path, key, n, reflect.ValueOf(section).Elem(), Rule{})
	if union.IsNil() || slices.Index(u.Words, kind) < slices.Index(u.Words, u.Word(union.Interface())) {
		union.Set(reflect.ValueOf(section))
	}
}

func missing(d Field) string {
	switch {
	case len(d.Rule.Words) > 0:
		return "missing: must be one of " + strings.Join(d.Rule.Words, ", ")
	case isScalar(d.Type):
		return "missing"
	}
	return "the section is missing"
}

// unknown explains a field that is not in the vocabulary, and gives the field that was probably meant.
func (f *File) unknown(path string, key *yaml.Node, t reflect.Type) string {
	known := f.names(t)
	meant := Nearest(key.Value, known)
	if meant == "" {
		f.Add(path, key, "unknown field: there are %s", strings.Join(known, ", "))
		return ""
	}
	f.Add(path, key, "unknown field: did you mean %q?", meant)
	return meant
}

// list decodes a sequence into a slice or an array of just that length.
func (f *File) list(path string, n *yaml.Node, v reflect.Value, r Rule) {
	if r.Single && n.Kind == yaml.MappingNode {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}, Line: n.Line, Column: n.Column}
	}
	if x, ok := v.Addr().Interface().(Sectioned); ok && f.sectioned(path, n, reflect.ValueOf(x.Section()).Elem()) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		f.Add(path, n, "a list is wanted, not %s", f.Describe(n))
		return
	}
	if v.Kind() == reflect.Array && len(n.Content) != v.Len() {
		f.Add(path, n, "a list of %d is wanted, not of %d", v.Len(), len(n.Content))
		return
	}
	if len(n.Content) == 0 {
		f.Add(path, n, "the list is empty")
		return
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	}
	for i, child := range n.Content {
		element := f.setDefaults(v.Index(i))
		f.value(At(path, i), nil, child, element, r)
		f.blank(At(path, i), child, element.Type())
	}
}

// sectioned decodes a list that is spelled as a section, and refuses one that has such a section among its own.
func (f *File) sectioned(path string, n *yaml.Node, section reflect.Value) bool {
	if n.Kind == yaml.MappingNode {
		f.structure(path, n, section)
		return true
	}
	names := f.names(section.Type())
	for i, child := range n.Content {
		if child.Kind == yaml.MappingNode && len(child.Content) > 0 && slices.Contains(names, child.Content[0].Value) {
			f.Add(At(path, i), child, "stands alone: write it as %s: {%s: ...}, without a list and with nothing beside it", path, names[0])
			return true
		}
	}
	return false
}

// Null reports a value that is left empty.
func Null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Describe names what stands where something else is wanted.
func Describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) == 0:
		return "an empty section"
	case n.Kind == yaml.MappingNode:
		return "a section"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", n.Value)
}

// Describe is the function Describe, without the words of a file that is not shown.
func (f *File) Describe(n *yaml.Node) string {
	if f.hidden && n.Kind == yaml.ScalarNode {
		return "a single value"
	}
	return Describe(n)
}

// mapping decodes a section of texts by free names.
func (f *File) mapping(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		f.Add(path, n, "a section of names is wanted, not %s", f.Describe(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		element, at := reflect.New(v.Type().Elem()).Elem(), f.Entry(path, i/2, key.Value)
		if v.MapIndex(reflect.ValueOf(key.Value)).IsValid() {
			f.Add(at, key, "given twice")
		}
		f.value(at, key, value, element, Rule{})
		v.SetMapIndex(reflect.ValueOf(key.Value), element)
	}
}

// Entry is the path of an entry of a section of free names: of a hidden file by its number.
func (f *File) Entry(path string, i int, name string) string {
	if f.hidden {
		return At(path, i)
	}
	return Join(path, name)
}
