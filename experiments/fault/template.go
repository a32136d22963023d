package fault

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

var (
	place    = regexp.MustCompile(`\{([a-z0-9_%| ]+)\}`)
	optional = regexp.MustCompile(`\[[^\[\]]*\{[a-z0-9_%| ]+\}[^\[\]]*\]`)
)

// fill puts values into a text: {add}. What stands in [brackets] with a value that says nothing is left out. What is no value stays.
func fill(text string, value func(name string) (string, bool)) string {
	whole := func(s string) (out string, said bool) {
		said = true
		out = place.ReplaceAllStringFunc(s, func(p string) string {
			v, known := value(p[1 : len(p)-1])
			if !known {
				return p
			}
			said = said && v != ""
			return v
		})
		return out, said
	}
	text = optional.ReplaceAllStringFunc(text, func(s string) string {
		if out, said := whole(s[1 : len(s)-1]); said {
			return out
		}
		return ""
	})
	text, _ = whole(text)
	return text
}

// valueOf spells the field of a section that a file calls so; "" where it says nothing. {share|%} is a share in percent; that, and {add|0}, say
// nothing as 0.
func valueOf(section reflect.Value, name string) (string, bool) {
	name, way, _ := strings.Cut(name, "|")
	f := fieldNamed(section, name)
	if !f.IsValid() || f.IsZero() && way == "" {
		return "", f.IsValid()
	}
	switch v := f.Interface().(type) {
	case time.Duration:
		return figures.Spell(v), true
	case []string:
		return strings.Join(v, " "), true
	case Stream:
		return v.spelled(way), true
	case float64:
		if way == "%" {
			return fmt.Sprintf("%.3g%%", 100*v), true
		}
	}
	return fmt.Sprint(f.Interface()), true
}

// said are those of some fields of a section that say something.
func said(section any, names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		f := fieldNamed(reflectOf(section), name)
		return !f.IsValid() || f.IsZero()
	})
}

func reflectOf(p any) reflect.Value { return reflect.ValueOf(p).Elem() }

// fieldNamed is the field that a file calls so; the zero Value where there is none.
func fieldNamed(v reflect.Value, name string) reflect.Value {
	if at := pathOf(v.Type(), name); at != nil {
		return v.FieldByIndex(at)
	}
	return reflect.Value{}
}

// pathOf is where sections of a type have the field that a file calls so; nil where they have none.
func pathOf(t reflect.Type, name string) []int {
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Anonymous:
			if inner := pathOf(f.Type, name); inner != nil {
				return append([]int{i}, inner...)
			}
		case vocab.FieldName(f) == name:
			return []int{i}
		}
	}
	return nil
}
