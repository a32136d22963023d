package vocab

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Noded types write themselves as YAML that is no single value.
type Noded interface{ Node() *yaml.Node }

// Encode is the inverse of File.Decode: doc is a pointer to a section, or to a list of them. Secrets are left out.
func (y *Vocabulary) Encode(doc any) *yaml.Node { return y.encode(reflect.ValueOf(doc).Elem(), Rule{}) }

func (y *Vocabulary) encode(v reflect.Value, r Rule) *yaml.Node {
	return (&encoder{Vocabulary: y}).value("", v, reflect.Value{}, r)
}

// Comment is what a draft says of a value: lines above it, a few words beside it, and, of an entry of a list, lines below it.
type Comment struct{ Above, Beside, Below string }

// below stands for an entry of a list that is not there: what is above it is below the one before. The writer would put what is below a value
// elsewhere.
const below = "@below"

var belowEntry = regexp.MustCompile(`(?m)^ *- "` + below + `"\n`)

// Sparse is a document as a person would write it, with comments by the paths of values: what is as its default, and has no comment, is left
// out.
func (y *Vocabulary) Sparse(doc any, comments map[string]Comment) ([]byte, error) {
	v := reflect.ValueOf(doc).Elem()
	text, err := Text((&encoder{y, true, comments}).value("", v, y.setDefaults(reflect.New(v.Type()).Elem()), Rule{}), "draft")
	return belowEntry.ReplaceAll(text, nil), err
}

type encoder struct {
	*Vocabulary
	sparse   bool
	comments map[string]Comment // by the paths of values
}

// value is the inverse of File.value. v is addressable. otherwise is what it is where a file leaves it out, if that is asked for.
func (e *encoder) value(path string, v, otherwise reflect.Value, r Rule) *yaml.Node {
	switch x := v.Addr().Interface().(type) {
	case Spelled:
		if e.sparse {
			otherwise = spelled(otherwise)
		}
		return e.value(path, reflect.ValueOf(x.Spelling()).Elem(), otherwise, r)
	case Noded:
		return x.Node()
	case Scalar:
		return Plain(x.Format())
	case *time.Duration:
		return Plain(figures.Spell(*x))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return e.value(path, v.Elem(), e.otherwise(v.Type().Elem()), r)
	case reflect.Struct:
		if bare, alone := bareOf(v, r); alone {
			return e.encode(bare, r)
		}
		return e.section(path, v, otherwise)
	case reflect.Slice, reflect.Array:
		return e.list(path, v, r)
	case reflect.Map:
		return encodeMap(v.Interface().(map[string]string), r)
	case reflect.String:
		if r.Pattern {
			return textNode(v.String(), e.sparse)
		}
		return textNode(Redact(v.String()), e.sparse)
	case reflect.Float64:
		if r.PerSecond {
			return Plain(formatRate(v.Float()))
		}
		return Plain(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	default:
		return Plain(fmt.Sprint(v.Interface()))
	}
}

func (e *encoder) otherwise(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if e.sparse {
		e.setDefaults(v)
	}
	return v
}

// bareOf is the field of a section that may stand alone, and whether it does: nothing else of the section says anything.
func bareOf(v reflect.Value, r Rule) (bare reflect.Value, alone bool) {
	if r.Shorthand == "" {
		return bare, false
	}
	bare = v.FieldByName(r.Shorthand)
	rest := reflect.New(v.Type()).Elem()
	rest.Set(v)
	rest.FieldByName(r.Shorthand).SetZero()
	return bare, !bare.IsZero() && rest.IsZero()
}

func (e *encoder) section(path string, v, otherwise reflect.Value) *yaml.Node {
	n, told := &yaml.Node{Kind: yaml.MappingNode}, false
	for _, d := range e.Fields(v.Type()) {
		at, field, instead := Join(path, d.Name), v.FieldByIndex(d.Index), reflect.Value{}
		_, with := e.comments[at]
		switch {
		case d.Kind != "":
			u := e.union(d.Union)
			if field.IsNil() || u.Word(field.Interface()) != d.Kind {
				continue
			}
			field, instead = reflect.ValueOf(field.Interface()).Elem(), reflect.ValueOf(u.New(d.Kind)).Elem()
		case absent(field, d.Rule):
			continue
		case e.sparse:
			if instead = otherwise.FieldByIndex(d.Index); !with && !d.Rule.Required && reflect.DeepEqual(field.Interface(), instead.Interface()) {
				continue
			}
		}
		told = told || with
		key, value := Plain(d.Name), e.value(at, field, instead, d.Rule)
		n.Content = append(n.Content, e.commented(at, key, value), value)
	}
	if told {
		return n
	}
	return flowed(n)
}

func (e *encoder) list(path string, v reflect.Value, r Rule) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range v.Len() {
		item, said := e.value(At(path, i), v.Index(i), e.otherwise(v.Type().Elem()), r), e.comments[At(path, i)]
		if said != (Comment{}) {
			item.Style &^= yaml.FlowStyle
		}
		n.Content = append(n.Content, e.commented(At(path, i), item, item))
		if said.Below != "" {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: below, HeadComment: said.Below})
		}
	}
	return flowed(n)
}

// commented puts the comments of a path at a node: what stands beside a value of several lines stands beside its name.
func (e *encoder) commented(path string, n, value *yaml.Node) *yaml.Node {
	c := e.comments[path]
	n.HeadComment = c.Above
	if value.Kind == yaml.ScalarNode || value.Style&yaml.FlowStyle != 0 {
		value.LineComment = c.Beside
	} else {
		n.LineComment = c.Beside
	}
	return n
}

// absent reports whether a field is left out: a zero that says nothing, or that a file could not say.
func absent(v reflect.Value, r Rule) bool {
	if !v.IsZero() {
		return v.Kind() == reflect.Slice && v.Len() == 0
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.String, reflect.Struct:
		return !r.Required || r.Unless != ""
	}
	return r.Positive || r.Min > 0 || r.Omit
}

// flowed puts what is short and flat on one line.
func flowed(n *yaml.Node) *yaml.Node {
	width := 0
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			return n
		}
		width += len(c.Value) + 2
	}
	if width <= 100 {
		n.Style = yaml.FlowStyle
	}
	return n
}

// Plain is a value as it stands.
func Plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

var unquoted = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`)

// textNode quotes whatever might be read as something else than a text. By hand nobody writes each backslash twice.
func textNode(s string, byHand bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case byHand && strings.Contains(s, `\`) && !strings.Contains(s, "'"):
		n.Style = yaml.SingleQuotedStyle
	case !unquoted.MatchString(s):
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// encodeMap is the inverse of File.mapping, in the order of the names.
func encodeMap(m map[string]string, r Rule) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		text := m[name]
		if !r.Pattern {
			text = Redact(text)
		}
		n.Content = append(n.Content, textNode(name, false), textNode(text, false))
	}
	return flowed(n)
}

// Text is the text of n, indented by two spaces; what names it in the error.
func Text(n *yaml.Node, what string) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(n), enc.Close()); err != nil {
		return nil, fmt.Errorf("marshal %s: %w", what, err)
	}
	return b.Bytes(), nil
}
