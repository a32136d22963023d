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
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Noded types write themselves as YAML that is no single value.
type Noded interface{ Node() *yaml.Node }

// Encode is the inverse of File.Decode: doc is a pointer to a section, or to a list of them. Secrets are left out.
func (y *Vocabulary) Encode(doc any) *yaml.Node { return y.encode(reflect.ValueOf(doc).Elem(), Rule{}) }

// encode is the inverse of File.Decode. v is addressable.
func (y *Vocabulary) encode(v reflect.Value, r Rule) *yaml.Node {
	switch x := v.Addr().Interface().(type) {
	case Spelled:
		return y.encode(reflect.ValueOf(x.Spelling()).Elem(), r)
	case Noded:
		return x.Node()
	case Scalar:
		return Plain(x.Format())
	case *time.Duration:
		return Plain(figures.Spell(*x))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return y.encode(v.Elem(), r)
	case reflect.Struct:
		if bare, alone := bareOf(v, r); alone {
			return y.encode(bare, r)
		}
		return y.encodeStruct(v)
	case reflect.Slice, reflect.Array:
		return y.encodeList(v, r)
	case reflect.Map:
		return encodeMap(v.Interface().(map[string]string), r)
	case reflect.String:
		if r.Pattern {
			return textNode(v.String())
		}
		return textNode(Redact(v.String()))
	case reflect.Float64:
		if r.PerSecond {
			return Plain(formatRate(v.Float()))
		}
		return Plain(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	default:
		return Plain(fmt.Sprint(v.Interface()))
	}
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

func (y *Vocabulary) encodeStruct(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, d := range y.Fields(v.Type()) {
		at := v.FieldByIndex(d.Index)
		if d.Kind != "" {
			if !at.IsNil() && y.union(at.Type()).Word(at.Interface()) == d.Kind {
				n.Content = append(n.Content, Plain(d.Name), y.encode(reflect.ValueOf(at.Interface()).Elem(), d.Rule))
			}
			continue
		}
		if !absent(at, d.Rule) {
			n.Content = append(n.Content, Plain(d.Name), y.encode(at, d.Rule))
		}
	}
	return flowed(n)
}

func (y *Vocabulary) encodeList(v reflect.Value, r Rule) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range v.Len() {
		n.Content = append(n.Content, y.encode(v.Index(i), r))
	}
	return flowed(n)
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

// textNode quotes whatever might be read as something else than a text.
func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if !unquoted.MatchString(s) {
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
		n.Content = append(n.Content, textNode(name), textNode(text))
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
