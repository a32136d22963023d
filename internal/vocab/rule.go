// Package vocab reads and writes YAML by declarations. A field of a section is one line: its type, its unit, its default, its rule
// and its words. Decoding with positions, checks, the JSON Schema, encoding, scaling, the tables of the documents and the words of
// `explain` all follow from that line.
//
// Its one invariant: it knows no type of those that it walks. What a vocabulary adds, it is told by a Vocabulary.
package vocab

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Vocabulary is what the engine is told of the types that it walks. It is not changed once it is in use.
type Vocabulary struct {
	Home     string                         // package path of the types: those of other packages stand under their package's name
	Comments func() map[string]string       // of the fields, by Type.Field
	Lists    map[string]func() []string     // words that are listed elsewhere: words=@NAME
	Formats  map[string]Format              // what a text can be, beside those of the engine: format=NAME or format=NAME:ARGUMENT
	Facts    map[string]string              // in words, what a condition @NAME asks of the file as a whole: "mode: observe"
	Unions   func() map[reflect.Type]*Union // fields of these interfaces are sections, each under the word of its kind

	known sync.Map // what fields gives, by type: a type does not change
}

// Union is an interface of which a file has one of several sections.
type Union struct {
	Words []string              // of the sections, in their order: of several that are given the first counts
	New   func(word string) any // a pointer to a section with its defaults
	Word  func(section any) string
	Says  func(word string) string
}

// Rule is what a field's tag says of its value, and of when it may and must stand in a file.
type Rule struct {
	Required  bool
	Unless    string   // a field beside it, or the path of a section, with which it is not required; of several, with | between them, each
	Ident     bool     // a name that can stand in a path, a key and a metric's label
	Words     []string // the only values
	Positive  bool     // durations and fractions: above 0
	Min, Max  float64  // whole numbers and fractions; Max 0 = no bound but that of 32 bits
	PerSecond bool     // spelled as a rate: 20/s
	Signed    bool     // durations: may be negative
	Shorthand string   // sections: the field that may stand alone, as a bare value
	Pattern   bool     // texts: a regular expression, which may look like a secret and is none
	Single    bool     // lists: a single section stands for a list of one
	Path      bool     // texts: the path of a file, beside the document's
	Omit      bool     // a resolved file leaves it out where it is zero
	Default   string   // of a plain value, as a file has it

	For    []Cond        // it may stand only where all of these hold
	Need   []Cond        // its section needs it where all of these hold, unless one of Not is there
	Not    []string      // fields beside it that it excludes
	One    []string      // of a section, by its field _: just one of these fields is there
	Any    []string      // of a section, by its field _: at least one of these fields is there
	Format string        // of a text, or of each text of a list
	Unique bool          // no other entry of the list has the same; of a list of texts: no two are the same, as of words and references
	Ref    string        // it names an entry of another list
	Least  time.Duration // of a duration above 0
	Most   time.Duration
}

// Cond is a condition on a field beside it (mode:external|spawn: it has one of these words; sql|http: one of these is given), or on the file
// as a whole (@observed).
type Cond struct {
	Field string
	Words []string
}

func (c Cond) fields() []string { return strings.Split(c.Field, "|") }

func condOf(text string) Cond {
	field, words, _ := strings.Cut(text, ":")
	c := Cond{Field: field}
	if words != "" {
		c.Words = strings.Split(words, "|")
	}
	return c
}

// words are the condition in those of the file.
func (y *Vocabulary) words(c Cond) string {
	fact, whole := strings.CutPrefix(c.Field, "@")
	switch {
	case whole:
		return y.Facts[fact]
	case len(c.Words) == 0:
		return Either(c.fields())
	}
	return c.Field + " " + Either(c.Words)
}

// ruleOf is the rule in a tag, "required,min=1,words=a|b"; without a tag every value is right. A tag that is wrong is a mistake of
// the program: it panics.
func (y *Vocabulary) ruleOf(owner reflect.Type, f reflect.StructField) (r Rule) {
	tag, ok := f.Tag.Lookup("rule")
	if !ok {
		return r
	}
	for part := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(part, "=")
		if err := y.rule(&r, name, value); err != nil {
			panic(fmt.Sprintf("vocab: field %s.%s: %v", owner.Name(), f.Name, err))
		}
	}
	return r
}

func (y *Vocabulary) rule(r *Rule, name, value string) (err error) {
	at, known := ruleFields[name]
	list, listed := strings.CutPrefix(value, "@")
	switch x := reflect.ValueOf(r).Elem().Field(at).Addr().Interface().(type) {
	case *bool:
		*x = true
	case *string:
		*x = cmp.Or(value, "Max") // that of a shorthand
	case *[]string:
		if name == "words" && listed {
			value = strings.Join(y.Lists[list](), "|")
		}
		*x = append(*x, strings.Split(value, "|")...)
	case *[]Cond:
		*x = append(*x, condOf(value))
	case *float64:
		*x, err = strconv.ParseFloat(value, 64)
	case *time.Duration:
		*x, err = time.ParseDuration(value)
	}
	if !known {
		err = fmt.Errorf("there is no rule %q", name)
	}
	return err
}

// ruleFields are the fields of a Rule, by what a tag calls them.
var ruleFields = func() map[string]int {
	all := map[string]int{}
	for i := range reflect.TypeFor[Rule]().NumField() {
		all[snake(reflect.TypeFor[Rule]().Field(i).Name)] = i
	}
	all["rate"] = all["per_second"]
	return all
}()

// Field is one field of a section, as it is spelled: all that is known of it. A Go field HolderOf is spelled holder_of, its tag
// `file` gives another name, or "-" where a file does not have it; embedded sections are spelled inline.
type Field struct {
	Name   string
	Index  []int
	Type   reflect.Type
	Rule   Rule
	Scaled bool   // time_scale changes it
	Kind   string // the field is a section of this kind of a union, and Index that of the union
	Union  reflect.Type
	Doc    string // Type.Field: where it is described
}

// Fields are the fields of a section, in their order.
func (y *Vocabulary) Fields(t reflect.Type) []Field {
	return y.section(t).fields
}

type section struct {
	fields []Field
	whole  Rule
}

// section is what fields gives, found once: every value of every file asks for it.
func (y *Vocabulary) section(t reflect.Type) section {
	if known, ok := y.known.Load(t); ok {
		return known.(section)
	}
	var s section
	s.fields, s.whole = y.fields(t, nil)
	y.known.Store(t, s)
	return s
}

// fields are the fields of a section, and the rule of the section as a whole, which stands at its field _.
func (y *Vocabulary) fields(t reflect.Type, prefix []int) (all []Field, whole Rule) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(prefix), i)
		name := FieldName(f)
		switch {
		case f.Name == "_":
			whole = y.ruleOf(t, f)
			continue
		case name == "-":
			continue
		case f.Type.Kind() == reflect.Interface:
			u := y.union(f.Type)
			for _, word := range u.Words {
				all = append(all, Field{Name: word, Index: index, Type: reflect.TypeOf(u.New(word)), Kind: word, Union: f.Type})
			}
			continue
		case f.Anonymous:
			inner, _ := y.fields(f.Type, index)
			all = append(all, inner...)
			continue
		}
		owner, _, _ := strings.Cut(t.Name(), "[")
		all = append(all, Field{Name: name, Index: index, Type: f.Type, Rule: y.ruleOf(t, f), Scaled: f.Tag.Get("scale") == "yes", Doc: y.typeName(t, owner) + "." + f.Name})
	}
	return all, whole
}

func (y *Vocabulary) union(t reflect.Type) *Union {
	u := y.Unions()[t]
	if u == nil {
		panic(fmt.Sprintf("vocab: nobody says which sections a field of type %s can be", t))
	}
	return u
}

func (y *Vocabulary) names(t reflect.Type) []string {
	var names []string
	for _, f := range y.Fields(t) {
		names = append(names, f.Name)
	}
	return names
}

// Given names the pointer fields of a section that are set, as a file spells them.
func (y *Vocabulary) Given(section any) []string {
	v := reflect.ValueOf(section).Elem()
	var names []string
	for _, f := range y.Fields(v.Type()) {
		if f.Type.Kind() == reflect.Pointer && !v.FieldByIndex(f.Index).IsNil() {
			names = append(names, f.Name)
		}
	}
	return names
}

// Said are those of some fields of a section that say something, in that order.
func (y *Vocabulary) Said(section any, names ...string) []string {
	v := reflect.ValueOf(section).Elem()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return y.fieldOf(v, name).IsZero() })
}

// typeName is the name of a type, with its package where that is not the vocabulary's own.
func (y *Vocabulary) typeName(t reflect.Type, name string) string {
	if t.PkgPath() == y.Home {
		return name
	}
	return path.Base(t.PkgPath()) + "." + name
}

// FieldName is what a file calls a field; "-" where it does not have it.
func FieldName(f reflect.StructField) string {
	if name := f.Tag.Get("file"); name != "" {
		return name
	}
	return snake(f.Name)
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

// Defaulted types have defaults that no single field can declare; they are set before the file's values.
type Defaulted interface{ SetDefaults() }

// Filled sections have defaults that depend on other values; they are set after the file's.
type Filled interface{ Fill() }

// Default sets the defaults of the section that p points at, and of the sections in it.
func (y *Vocabulary) Default(p any) {
	y.setDefaults(reflect.ValueOf(p).Elem())
}

func (y *Vocabulary) setDefaults(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "_" || !f.IsExported() {
				continue
			}
			y.setDefaults(v.Field(i))
			text := y.defaultOf(v.Type(), f)
			if text == "" {
				continue
			}
			r := y.ruleOf(v.Type(), f)
			if why := parseScalar(plainDefault(text), v.Field(i), r); why != "" {
				panic(fmt.Sprintf("vocab: the default of %s.%s: %s", v.Type().Name(), f.Name, why))
			}
		}
	}
	if x, ok := v.Addr().Interface().(Defaulted); ok {
		x.SetDefaults()
	}
	return v
}

func (y *Vocabulary) defaultOf(owner reflect.Type, f reflect.StructField) string {
	if !strings.Contains(f.Tag.Get("rule"), "default=") {
		return ""
	}
	return y.ruleOf(owner, f).Default
}

// Either joins words as alternatives.
func Either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Excuses are the fields and sections of which each makes it optional.
func (r *Rule) Excuses() []string {
	return strings.FieldsFunc(r.Unless, func(c rune) bool { return c == '|' })
}
