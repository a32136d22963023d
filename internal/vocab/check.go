package vocab

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Refuse is a constraint: it says what is wrong at a place where that is broken, and whether it is. Of several that are joined by || the first
// that is broken is told.
func (f *File) Refuse(broken bool, path, format string, args ...any) bool {
	if broken {
		f.Check(path, format, args...)
	}
	return broken
}

// CheckRules holds the section that doc points at, which stands at path, and all sections below it against the rules of their fields.
func (f *File) CheckRules(path string, doc any) {
	f.check(path, reflect.ValueOf(doc).Elem())
}

func (f *File) check(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.check(path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			f.check(At(path, i), v.Index(i))
		}
		if v.Type().Elem().Kind() == reflect.Struct {
			f.unique(path, v)
		}
	case reflect.Struct:
		if _, is := v.Addr().Interface().(Scalar); is {
			return
		}
		f.section(path, spelled(v))
	}
}

// section holds the fields of a section against their rules.
func (f *File) section(path string, v reflect.Value) {
	of := f.Vocabulary.section(v.Type())
	whole := of.whole
	if f.Invalid(path) && (len(whole.One) > 0 || len(whole.Any) > 0) || !f.whole(path, v, whole) {
		return
	}
	for _, d := range of.fields {
		at, value := Join(path, d.Name), v.FieldByIndex(d.Index)
		switch {
		case d.Kind != "":
			if !value.IsNil() && f.union(value.Type()).Word(value.Interface()) == d.Kind {
				f.check(at, reflect.ValueOf(value.Interface()))
			}
			continue
		case !f.stands(path, at, v, value, d):
			continue
		}
		if d.Type == duration {
			f.length(at, value.Interface().(time.Duration), d.Rule)
		}
		f.format(at, value, d.Rule.Format)
		f.ref(at, value, d.Rule.Ref)
		if words, is := value.Interface().([]string); is && !f.Stored && (d.Rule.Unique || d.Rule.Words != nil || d.Rule.Ref != "") {
			f.once(at, "", words)
		}
		f.check(at, value)
	}
}

// whole holds a section against its own rule; false = there is nothing more to be said of it.
func (f *File) whole(path string, v reflect.Value, r Rule) bool {
	if c := f.broken(path, v, r.For); c != nil {
		f.Check(path, "%s", f.only(*c, v))
		return false
	}
	of := slices.Concat(r.One, r.Any)
	given := f.Said(v.Addr().Interface(), of...)
	switch {
	case len(of) > 0 && len(given) == 0:
		f.Check(path, "needs %s", Either(of))
	case len(r.One) > 0 && len(given) > 1:
		f.Check(path, "has %s: give exactly one of %s", strings.Join(given, " and "), Either(of))
	default:
		return true
	}
	return false
}

// stands checks whether a field may, and must, stand where it does; false = its value is of no interest.
func (f *File) stands(path, at string, v, value reflect.Value, d Field) bool {
	given := f.given(at, value) && !f.Stored
	if given {
		if c := f.broken(path, v, d.Rule.For); c != nil {
			f.Check(at, "%s", f.only(*c, v))
			return false
		}
	}
	excluded := ""
	for _, other := range d.Rule.Not {
		if f.given(Join(path, other), f.fieldOf(v, other)) && !f.fieldOf(v, other).IsZero() {
			excluded = other
		}
	}
	switch {
	case excluded != "" && given && !value.IsZero():
		f.Check(at, "does not go with %s; leave one of them out", excluded)
	case excluded == "" && value.IsZero() && len(d.Rule.Need) > 0 && f.needed(path, v, d.Rule.Need):
		c := d.Rule.Need[0]
		if len(c.Words) > 1 {
			c.Words = []string{f.fieldOf(v, c.Field).String()}
		}
		f.Check(path, "%s needs %s", f.words(c), d.Name)
	}
	return true
}

// given reports whether a field stands in the file. Of values that came from no file, those that say something do.
func (f *File) given(at string, value reflect.Value) bool {
	return f.positions[at] != nil || f.Root == nil && !value.IsZero()
}

// needed reports that all conditions hold, and that none of them rests on what did not decode.
func (f *File) needed(path string, v reflect.Value, all []Cond) bool {
	return f.broken(path, v, all) == nil && !slices.ContainsFunc(all, func(c Cond) bool { return f.Invalid(Join(path, c.Field)) })
}

// broken is the first condition that does not hold, or nil. One on a field that did not decode is taken to hold.
func (f *File) broken(path string, v reflect.Value, all []Cond) *Cond {
	for i, c := range all {
		if fact, is := strings.CutPrefix(c.Field, "@"); is {
			if holds, known := f.Facts[fact]; known && !holds {
				return &all[i]
			}
			continue
		}
		lost := slices.ContainsFunc(c.fields(), func(name string) bool { return f.Invalid(Join(path, name)) })
		switch {
		case lost:
		case len(c.Words) == 0 && len(f.Said(v.Addr().Interface(), c.fields()...)) == 0, len(c.Words) > 0 && !slices.Contains(c.Words, f.fieldOf(v, c.Field).String()):
			return &all[i]
		}
	}
	return nil
}

// only says with what a field goes, and what the file says there instead.
func (f *File) only(c Cond, v reflect.Value) string {
	if len(c.Words) > 0 {
		if of := f.fieldOf(v, c.Field); !of.IsZero() {
			return fmt.Sprintf("goes with %s, not %s", f.words(c), of)
		}
	}
	return "goes with " + f.words(c) + " only"
}

// fieldOf is a field of a section, by its name in a file.
func (y *Vocabulary) fieldOf(v reflect.Value, name string) reflect.Value {
	for _, d := range y.Fields(v.Type()) {
		if d.Name == name {
			return v.FieldByIndex(d.Index)
		}
	}
	panic(fmt.Sprintf("vocab: a rule of %s names %s, which is no field of it", v.Type().Name(), name))
}

// length holds a duration against its bounds. 0 is no length: whether it may stand there is said by another rule.
func (f *File) length(at string, d time.Duration, r Rule) {
	switch {
	case d > 0 && d < r.Least:
		f.Check(at, "%s is too short: at least %s", figures.Spell(d), figures.Spell(r.Least))
	case r.Most > 0 && d > r.Most:
		f.Check(at, "%s is too long: at most %s", figures.Spell(d), figures.Spell(r.Most))
	}
}

// unique refuses entries of a list that have a value in a field that no two may share.
func (f *File) unique(list string, v reflect.Value) {
	for _, d := range f.Fields(spelled(reflect.New(v.Type().Elem()).Elem()).Type()) {
		if !d.Rule.Unique || d.Type.Kind() != reflect.String {
			continue
		}
		var all []string
		for i := range v.Len() {
			all = append(all, f.fieldOf(spelled(v.Index(i)), d.Name).String())
		}
		f.once(list, "."+d.Name, all)
	}
}

// once refuses a text that stands in a list before; field is where in an entry it stands.
func (f *File) once(list, field string, all []string) {
	for i, text := range all {
		if first := slices.Index(all, text); first < i && text != "" {
			f.Check(At(list, i)+field, "%q is there twice: the first is %s", text, At(list, first))
		}
	}
}

// spelled is a section as a file spells it.
func spelled(v reflect.Value) reflect.Value {
	if x, is := v.Addr().Interface().(Spelled); is {
		return reflect.ValueOf(x.Spelling()).Elem()
	}
	return v
}

// ref checks that a name, or each of several, is one of those of a list.
func (f *File) ref(at string, v reflect.Value, list string) {
	if list == "" || v.IsZero() {
		return
	}
	if v.Kind() != reflect.String {
		for i := range v.Len() {
			f.ref(At(at, i), v.Index(i), list)
		}
		return
	}
	switch names, known := f.Refs(list); {
	case !known, slices.Contains(names, v.String()):
	case len(names) == 0:
		f.Check(at, "no %s is called %q: the file declares none", list, v.String())
	default:
		f.Check(at, "no %s is called %s", list, UnknownWord(v.String(), names))
	}
}

// Format says what is wrong with a text, or "". argument is what stands behind the format's name in a rule. Of names and texts it says what is
// wrong with one of them: the text is its name, and the argument its text.
type Format func(f *File, text, argument string) string

// format holds a text, or each of several, against a format.
func (f *File) format(path string, v reflect.Value, name string) {
	switch {
	case name == "" || v.IsZero():
		return
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			f.format(At(path, i), v.Index(i), name)
		}
		return
	case v.Kind() == reflect.Map:
		all := v.Interface().(map[string]string)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			why := f.Formats[name](f, key, all[key])
			f.Refuse(why != "", Join(path, key), "%s", why)
		}
		return
	}
	name, argument, _ := strings.Cut(name, ":")
	check := f.Formats[name]
	if check == nil {
		panic(fmt.Sprintf("vocab: there is no format %q", name))
	}
	if why := check(f, v.String(), argument); why != "" {
		f.Check(path, "%s", why)
	}
}

// Matching is the format of texts that a pattern matches. Says may use the text as %q.
func Matching(pattern, says string) Format {
	re := WhenAsked(pattern)
	return func(_ *File, text, _ string) string {
		if re().MatchString(text) {
			return ""
		}
		return strings.ReplaceAll(says, "%q", fmt.Sprintf("%q", text))
	}
}
