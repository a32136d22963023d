package experiments

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Marshal writes a resolved experiment as a file that stands alone: profiles expanded, defaults filled in, secrets out.
// Parse gives the same experiment back, whatever becomes of profiles and defaults later (but for secrets, SLO.Line and Lock.Place).
// A scaled experiment is refused: its file would no longer say so.
func Marshal(e *Experiment) ([]byte, error) {
	if e.Scaled != 0 {
		return nil, errors.New("marshal experiment: it is scaled already")
	}
	doc := file{APIVersion: "lockdrill/v1", Kind: "Experiment", Experiment: *e}
	return indented(encode(reflect.ValueOf(&doc).Elem(), rule{}), "experiment")
}

// encode is the inverse of decoder.value. v is addressable.
func encode(v reflect.Value, r rule) *yaml.Node {
	switch x := v.Addr().Interface().(type) {
	case reshaped:
		return encode(reflect.ValueOf(x.form()).Elem(), r)
	case *PodPatch:
		return x.node()
	case scalar:
		return plainNode(x.format())
	case *time.Duration:
		return plainNode(figures.Spell(*x))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return encode(v.Elem(), r)
	case reflect.Struct:
		if bare, alone := bareOf(v, r); alone {
			return encode(bare, r)
		}
		return encodeStruct(v)
	case reflect.Slice, reflect.Array:
		return encodeList(v, r)
	case reflect.Map:
		return encodeMap(v.Interface().(map[string]string), r)
	case reflect.String:
		if r.pattern {
			return textNode(v.String())
		}
		return textNode(Redact(v.String()))
	case reflect.Float64:
		if r.perSecond {
			return plainNode(formatRate(v.Float()))
		}
		return plainNode(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	default:
		return plainNode(fmt.Sprint(v.Interface()))
	}
}

// bareOf is the field of a section that may stand alone, and whether it does: nothing else of the section says anything.
func bareOf(v reflect.Value, r rule) (bare reflect.Value, alone bool) {
	if r.brief == "" {
		return bare, false
	}
	bare = v.FieldByName(r.brief)
	rest := reflect.New(v.Type()).Elem()
	rest.Set(v)
	rest.FieldByName(r.brief).SetZero()
	return bare, !bare.IsZero() && rest.IsZero()
}

func encodeStruct(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fieldsOf(v.Type(), nil) {
		fv := v.FieldByIndex(f.index)
		if f.kind != "" {
			if s, _ := fv.Interface().(fault.Spec); s != nil && s.Kind() == f.kind {
				n.Content = append(n.Content, plainNode(f.name), encode(reflect.ValueOf(s).Elem(), f.rule))
			}
			continue
		}
		if !absent(fv, f.rule) {
			n.Content = append(n.Content, plainNode(f.name), encode(fv, f.rule))
		}
	}
	return flowed(n)
}

func encodeList(v reflect.Value, r rule) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range v.Len() {
		n.Content = append(n.Content, encode(v.Index(i), r))
	}
	return flowed(n)
}

// absent reports whether a field is left out: a zero that says nothing, or that a file could not say.
func absent(v reflect.Value, r rule) bool {
	if !v.IsZero() {
		return v.Kind() == reflect.Slice && v.Len() == 0
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.String, reflect.Struct:
		return !r.required || r.unless != ""
	}
	return r.positive || r.min > 0 || r.quiet
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

func plainNode(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

var unquoted = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`)

// textNode quotes whatever might be read as something else than a text.
func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if !unquoted.MatchString(s) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// MarshalLock writes one lock as an entry of system.locks: with a policy of its own, whatever profile it came from.
func MarshalLock(l *Lock) ([]byte, error) {
	list := []Lock{*l}
	doc := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{plainNode("locks"), encode(reflect.ValueOf(&list).Elem(), rule{})}}
	return indented(doc, "lock")
}

// indented is the text of n, by two spaces.
func indented(n *yaml.Node, what string) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(n), enc.Close()); err != nil {
		return nil, fmt.Errorf("marshal %s: %w", what, err)
	}
	return b.Bytes(), nil
}
