package experiments

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// decoder walks the YAML nodes along the Go types, because yaml.v3 by itself stops at the first unknown field of a custom
// type and gives no column. A Go field HolderOf is spelled holder_of; what a value must be like stands in its tag `rule`.
type decoder struct {
	*collector
}

// defaulted types have defaults other than zero; they are set before the file's values.
type defaulted interface{ setDefaults() }

// reshaped types are spelled differently in a file: form is a pointer to that spelling, filled from the value; setForm
// takes the value back from it, also where parts of it did not decode.
type reshaped interface {
	form() any
	setForm(d *decoder, path string, form any)
}

// sectioned lists may be a section in a file, from which the reader makes them: section is a pointer to it.
type sectioned interface{ section() any }

// scalar types read and write themselves: parse gives "" or what is wrong.
type scalar interface {
	parse(n *yaml.Node) string
	format() string
	schema() *jsonSchema // of what parse takes
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	specType     = reflect.TypeFor[fault.Spec]()
	scalarType   = reflect.TypeFor[scalar]()
)

// settable gives the reflected target of a pointer, with its defaults.
func settable(p any) reflect.Value {
	v := reflect.ValueOf(p).Elem()
	if x, ok := p.(defaulted); ok {
		x.setDefaults()
	}
	return v
}

// value decodes n into v. key is where the value's name stands (nil for list elements).
func (d *decoder) value(path string, key, n *yaml.Node, v reflect.Value, r rule) {
	d.places[path] = n
	if isNull(n) {
		d.empty(path, key, n, v)
		return
	}
	p := v.Addr().Interface()
	switch x := p.(type) {
	case reshaped:
		form := x.form()
		d.structure(path, n, reflect.ValueOf(form).Elem())
		x.setForm(d, path, form)
		return
	case scalar:
		if leadingZero.MatchString(n.Value) {
			d.complain(path, n, v, r, zeroLed(n))
			return
		}
		d.complain(path, n, v, r, x.parse(n))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		settable(target.Interface())
		d.value(path, key, n, target.Elem(), r)
		v.Set(target)
	case reflect.Struct:
		if r.brief != "" && n.Kind == yaml.ScalarNode {
			d.bare(path, n, v, r)
			return
		}
		d.structure(path, n, v)
	case reflect.Slice, reflect.Array:
		d.list(path, n, v, r)
	case reflect.Map:
		d.mapping(path, n, v)
	default:
		d.complain(path, n, v, r, parseScalar(n, v, r))
	}
}

// bare decodes a section that is spelled as one value: a limit, or a name.
func (d *decoder) bare(path string, n *yaml.Node, v reflect.Value, r rule) {
	to := v.FieldByName(r.brief)
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
		r.signed = true
	}
	d.complain(path, n, to, r, parseScalar(n, to, r))
}

// complain says text of the value that was to go into v; of a file that is not shown, it says what v takes.
func (d *decoder) complain(path string, n *yaml.Node, v reflect.Value, r rule, text string) {
	if text != "" && d.hidden {
		text = wanted(v.Type(), r)
	}
	if text != "" {
		d.add(path, n, "%s", text)
	}
}

func (d *decoder) empty(path string, key, n *yaml.Node, v reflect.Value) {
	if key == nil {
		key = n
	}
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != specType && isScalar(t) {
		d.add(path, key, "the value is missing")
		return
	}
	d.add(path, key, "the section is empty")
}

func isScalar(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(scalarType) || t.Kind() != reflect.Struct && t.Kind() != reflect.Slice && t.Kind() != reflect.Array
}

// structure decodes a mapping.
func (d *decoder) structure(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.add(path, n, "a section with fields is wanted (%s), not %s", strings.Join(fieldNames(v.Type()), ", "), d.describe(n))
		return
	}
	if s, is := v.Addr().Interface().(*SLO); is {
		s.Line = n.Line
	}
	fields := fieldsOf(v.Type(), nil)
	seen, misspelled := map[string]*yaml.Node{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		place := join(path, key.Value)
		if at < 0 && d.hidden {
			place = path
		}
		if first := seen[key.Value]; first != nil {
			d.add(place, key, "given twice: the first is in line %d", first.Line)
			continue
		}
		seen[key.Value] = key
		if at < 0 {
			misspelled[d.unknown(place, key, v.Type())] = true
			continue
		}
		f := fields[at]
		if f.kind != "" {
			d.spec(join(path, f.name), f.kind, key, value, v.FieldByIndex(f.index))
			continue
		}
		d.value(join(path, f.name), key, value, v.FieldByIndex(f.index), f.rule)
	}
	for _, f := range fields {
		excused := f.rule.unless != "" && (d.places[f.rule.unless] != nil || seen[f.rule.unless] != nil)
		if f.rule.required && seen[f.name] == nil && !misspelled[f.name] && !excused {
			d.add(join(path, f.name), n, "%s", missing(f))
		}
	}
}

// spec decodes the section of a fault's kind. Of several the first of the table is kept.
func (d *decoder) spec(path, kind string, key, n *yaml.Node, union reflect.Value) {
	d.places[path] = n
	if isNull(n) {
		d.empty(path, key, n, union)
		return
	}
	spec := fault.New(kind)
	d.value(path, key, n, reflect.ValueOf(spec).Elem(), rule{})
	if f, ok := spec.(fault.Filled); ok {
		f.Fill()
	}
	kinds := fault.Kinds()
	if had, _ := union.Interface().(fault.Spec); had == nil || slices.Index(kinds, kind) < slices.Index(kinds, had.Kind()) {
		union.Set(reflect.ValueOf(spec))
	}
}

func missing(f field) string {
	switch {
	case len(f.rule.words) > 0:
		return "missing: must be one of " + strings.Join(f.rule.words, ", ")
	case isScalar(f.typ):
		return "missing"
	}
	return "the section is missing"
}

// unknown explains a field that is not in the vocabulary, and gives the field that was probably meant.
func (d *decoder) unknown(path string, key *yaml.Node, t reflect.Type) string {
	known := fieldNames(t)
	meant := Nearest(key.Value, known)
	if meant == "" {
		d.add(path, key, "unknown field: there are %s", strings.Join(known, ", "))
		return ""
	}
	d.add(path, key, "unknown field: did you mean %q?", meant)
	return meant
}

// list decodes a sequence into a slice or an array of just that length.
func (d *decoder) list(path string, n *yaml.Node, v reflect.Value, r rule) {
	if r.single && n.Kind == yaml.MappingNode {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}, Line: n.Line, Column: n.Column}
	}
	if x, ok := v.Addr().Interface().(sectioned); ok && d.sectioned(path, n, reflect.ValueOf(x.section()).Elem()) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.add(path, n, "a list is wanted, not %s", d.describe(n))
		return
	}
	if v.Kind() == reflect.Array && len(n.Content) != v.Len() {
		d.add(path, n, "a list of %d is wanted, not of %d", v.Len(), len(n.Content))
		return
	}
	if len(n.Content) == 0 {
		d.add(path, n, "the list is empty")
		return
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	}
	for i, child := range n.Content {
		element := settable(v.Index(i).Addr().Interface())
		d.value(fmt.Sprintf("%s[%d]", path, i), nil, child, element, r)
	}
}

// sectioned decodes a list that is spelled as a section, and refuses one that has such a section among its own.
func (d *decoder) sectioned(path string, n *yaml.Node, section reflect.Value) bool {
	if n.Kind == yaml.MappingNode {
		d.structure(path, n, section)
		return true
	}
	names := fieldNames(section.Type())
	for i, child := range n.Content {
		if child.Kind == yaml.MappingNode && len(child.Content) > 0 && slices.Contains(names, child.Content[0].Value) {
			d.add(at(path, i), child, "stands alone: write it as %s: {%s: ...}, without a list and with nothing beside it", path, names[0])
			return true
		}
	}
	return false
}

// field is one spelled field of a struct; embedded structs are spelled inline.
type field struct {
	name  string
	index []int
	typ   reflect.Type
	rule  rule
	kind  string // of a fault: the field is a section of that kind, and index that of the union
	doc   string // Type.Field: where it is described
}

func fieldsOf(t reflect.Type, prefix []int) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(prefix), i)
		name := f.Tag.Get("file")
		switch {
		case name == "-":
			continue
		case f.Type == specType:
			for _, kind := range fault.Kinds() {
				out = append(out, field{name: kind, index: index, typ: reflect.TypeOf(fault.New(kind)), kind: kind})
			}
			continue
		case f.Anonymous:
			out = append(out, fieldsOf(f.Type, index)...)
			continue
		case name == "":
			name = snake(f.Name)
		}
		owner, _, _ := strings.Cut(t.Name(), "[")
		out = append(out, field{name: name, index: index, typ: f.Type, rule: ruleOf(t, f), doc: typeName(t, owner) + "." + f.Name})
	}
	return out
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for _, f := range fieldsOf(t, nil) {
		names = append(names, f.name)
	}
	return names
}

// snake spells a Go name as in a file: HolderOf as holder_of, TTL as ttl, P50 as p50.
func snake(name string) string {
	var b strings.Builder
	rs := []rune(name)
	for i, r := range rs {
		starts := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1]))
		if starts {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe names what stands where something else is wanted.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", n.Value)
}

// describe is describe, without the words of a file that is not shown.
func (c *collector) describe(n *yaml.Node) string {
	if c.hidden && n.Kind == yaml.ScalarNode {
		return "a single value"
	}
	return describe(n)
}
