package vocab

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Entry is what the vocabulary says of a word: a field of that name or path, a field that has it as one of its values, or a kind of a
// union.
type Entry struct {
	Paths []string // where the field stands in a file: slos[].takeover.max; several sections may have it
	Word  bool     // it is a value of the field
	Value string   // what the field takes, and its default: "duration above 0, default 10m"
	Says  string   // what it is for, and where it applies
}

// Explain says of a word, or of a path without its numbers or the end of one (takeover.max), all that the vocabulary knows, in the order of the file. doc is a pointer to
// a section.
func (y *Vocabulary) Explain(word string, doc any) []Entry {
	var all []Entry
	at := map[string]int{}
	y.walk("", reflect.TypeOf(doc).Elem(), nil, func(path string, in reflect.Type, d Field) {
		named := d.Name == word || path == word || strings.Contains(word, ".") && strings.HasSuffix(path, "."+word)
		if !named && !slices.Contains(d.Rule.Words, word) {
			return
		}
		e := Entry{Paths: []string{path}, Word: !named, Value: y.valueOf(d), Says: y.meaning(d)}
		if otherwise := y.leftOut(in, d); otherwise != nil {
			e.Value += fmt.Sprintf(", default %v", otherwise)
		}
		key := e.Value + "\x00" + e.Says
		if i, known := at[key]; known {
			all[i].Paths = append(all[i].Paths, path)
			return
		}
		at[key] = len(all)
		all = append(all, e)
	})
	return all
}

// Names are the names of all fields, and all values that a field lists, sorted.
func (y *Vocabulary) Names(doc any) []string {
	var all []string
	y.walk("", reflect.TypeOf(doc).Elem(), nil, func(_ string, _ reflect.Type, d Field) {
		all = append(append(all, d.Name), d.Rule.Words...)
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// Section is a section of a document: the type of its spelling, and where it stands first.
type Section struct {
	Path string
	Type reflect.Type
}

// Sections are all sections of a document, each type once, in the order of the file.
func (y *Vocabulary) Sections(doc any) (all []Section) {
	y.walk("", reflect.TypeOf(doc).Elem(), nil, func(path string, in reflect.Type, d Field) {
		if !slices.ContainsFunc(all, func(s Section) bool { return s.Type == in }) {
			all = append(all, Section{strings.TrimSuffix(strings.TrimSuffix(path, d.Name), "."), in})
		}
	})
	return all
}

// walk shows every field of the sections below t, with its path and the section that it is in. inside are the sections around t: one
// that holds itself is walked once.
func (y *Vocabulary) walk(path string, t reflect.Type, inside []reflect.Type, show func(string, reflect.Type, Field)) {
	switch t.Kind() {
	case reflect.Pointer:
		y.walk(path, t.Elem(), inside, show)
		return
	case reflect.Slice, reflect.Array:
		if x, is := reflect.New(t).Interface().(Sectioned); is {
			y.walk(path, reflect.TypeOf(x.Section()), inside, show)
		}
		y.walk(path+"[]", t.Elem(), inside, show)
		return
	case reflect.Map:
		y.walk(Join(path, "NAME"), t.Elem(), inside, show)
		return
	case reflect.Struct:
	default:
		return
	}
	switch x := reflect.New(t).Interface().(type) {
	case Scalar:
		return
	case Spelled:
		t = reflect.TypeOf(x.Spelling()).Elem()
	}
	if slices.Contains(inside, t) {
		return
	}
	for _, d := range y.Fields(t) {
		at := Join(path, d.Name)
		if d.Kind != "" {
			d.Doc = y.typeName(t, t.Name()) + "." + d.Kind
		}
		show(at, t, d)
		y.walk(at, d.Type, append(slices.Clone(inside), t), show)
	}
}

// valueOf is what a field takes, in words.
func (y *Vocabulary) valueOf(d Field) string { return y.takes(d.Type, d.Rule, d.Scaled) }

func (y *Vocabulary) takes(t reflect.Type, r Rule, scaled bool) string {
	if t.Kind() == reflect.Pointer {
		return y.takes(t.Elem(), r, scaled)
	}
	if _, is := reflect.New(t).Interface().(Scalar); is {
		return "value"
	}
	switch {
	case t == duration:
		return strings.TrimSpace("duration" + bounds(r) + map[bool]string{true: ", scaled"}[scaled])
	case r.PerSecond:
		return "rate"
	case len(r.Words) > 0 && t.Kind() == reflect.Slice:
		return "list of `" + strings.Join(r.Words, "`, `") + "`"
	case len(r.Words) > 0:
		return "`" + strings.Join(r.Words, "`, `") + "`"
	case r.Ident && t.Kind() == reflect.String:
		return "name"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64, reflect.Int, reflect.Int64:
		return "number" + bounds(r)
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Map:
		return "names and texts"
	}
	if r.Shorthand != "" {
		return "section, or one value"
	}
	return "section"
}

// bounds are those of a number or a duration.
func bounds(r Rule) string {
	var all []string
	switch {
	case r.Least > 0:
		all = append(all, " from "+figures.Spell(r.Least))
	case r.Min > 0:
		all = append(all, fmt.Sprintf(" from %g", r.Min))
	case r.Positive:
		all = append(all, " above 0")
	}
	switch {
	case r.Most > 0:
		all = append(all, " up to "+figures.Spell(r.Most))
	case r.Max > 0:
		all = append(all, fmt.Sprintf(" up to %.0f", r.Max))
	}
	return strings.Join(all, "")
}

// meaning is the comment of a field, and what its rules say of where it stands.
func (y *Vocabulary) meaning(d Field) string {
	if d.Kind != "" {
		return y.union(d.Union).Says(d.Kind)
	}
	text := y.Comments()[d.Doc]
	var rules []string
	for _, c := range d.Rule.For {
		rules = append(rules, "only with "+y.words(c))
	}
	for _, other := range d.Rule.Not {
		rules = append(rules, "not beside "+other)
	}
	if len(rules) == 0 {
		return text
	}
	return text + " (" + strings.Join(rules, "; ") + ")"
}

// Table is a section as a document has it: its fields with what they take, their defaults and their meanings. Bold are those that must be
// there.
func (y *Vocabulary) Table(t reflect.Type) string {
	var b strings.Builder
	b.WriteString("| field | value | default | meaning |\n|---|---|---|---|\n")
	for _, d := range y.Fields(t) {
		name, otherwise := "`"+d.Name+"`", ""
		if d.Rule.Required {
			name = "**" + name + "**"
		}
		if text := y.leftOut(t, d); text != nil {
			otherwise = fmt.Sprintf("`%v`", text)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, y.valueOf(d), otherwise, cell(y.meaning(d)))
	}
	return b.String()
}

// leftOut is what a field of a section is where the file leaves it out; nil = nothing that a file would say.
func (y *Vocabulary) leftOut(in reflect.Type, d Field) any {
	if d.Kind != "" {
		return nil
	}
	v := reflect.New(in)
	y.Default(v.Interface())
	return y.defaultValue(v.Elem().FieldByIndex(d.Index), d.Rule)
}

// cell is a text that does not end a cell of a table, and in which braces and angles stand as they are.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text) }
