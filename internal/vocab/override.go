package vocab

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// overrider puts values of a command line into a document. Its own File has one line a value, so that problems have a place there.
type overrider struct {
	*File
	flag *File
	line int
	text string
}

// Override puts values into the document, each given as PATH=VALUE. A path has the names of fields, and for an entry of a list its name,
// id or lock, or its number from 0: system.locks.leader.poll=2s, slos.0.takeover.max=3s. The value is YAML. What is wrong with a
// value is told as "FLAG:N:column", where N is the number of the value.
func (f *File) Override(flag string, values []string) {
	if f.Root == nil || len(values) == 0 {
		return
	}
	own := f.Blank(flag)
	own.lines, own.hidden = values, false
	f.Attach(own)
	for i, text := range values {
		o := overrider{f, own, i + 1, text}
		path, value, is := strings.Cut(text, "=")
		switch at := strings.IndexAny(path, "[]"); {
		case !is || path == "" || strings.Contains("."+path+".", ".."):
			o.wrong(0, "is no field and value: write it like system.replicas=3")
			continue
		case at >= 0:
			o.wrong(at, "an entry of a list has a dot before it, and no brackets: write it like system.locks.0.poll=2s, or with the entry's name")
			continue
		}
		if n := o.value(value, len(path)+1); n != nil {
			o.put(f.Root, 0, path, n)
		}
	}
}

func (o *overrider) wrong(at int, format string, args ...any) {
	o.flag.addAt("", o.line, at+1, format, args...)
}

// value is the YAML that begins at an offset of the flag's text.
func (o *overrider) value(text string, at int) *yaml.Node {
	var doc yaml.Node
	in := yaml.NewDecoder(strings.NewReader(text))
	err := in.Decode(&doc)
	if err != nil && !errors.Is(err, io.EOF) {
		text, _ := parserSays(err)
		o.wrong(at, "the value is no YAML: %s", cmp.Or(parserErrors[text], text))
		return nil
	}
	if err == nil && !errors.Is(in.Decode(&yaml.Node{}), io.EOF) {
		o.wrong(at, "the value is one YAML document: take what is behind it off")
		return nil
	}
	if len(doc.Content) == 0 || Null(doc.Content[0]) {
		o.wrong(at, "the value is missing")
		return nil
	}
	n := doc.Content[0]
	o.own(n, at)
	if !o.plain(n) {
		return nil
	}
	return n
}

// own says of a value, and of all in it, that it stands in the flag.
func (o *overrider) own(n *yaml.Node, at int) {
	if o.adopted == nil {
		o.adopted = map[*yaml.Node]place{}
	}
	if n.Line == 1 {
		n.Column += at
	} else {
		n.Column = at + 1
	}
	n.Line = o.line
	o.adopted[n] = place{in: o.flag}
	for _, c := range n.Content {
		o.own(c, at)
	}
}

// put sets the value at a path below a node; at is where the path begins in the flag's text.
func (o *overrider) put(in *yaml.Node, at int, path string, value *yaml.Node) {
	switch {
	case Null(in):
		*in = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: in.Line, Column: in.Column}
		o.field(in, at, path, value)
	case in.Kind == yaml.MappingNode:
		o.field(in, at, path, value)
	case in.Kind == yaml.SequenceNode:
		o.entry(in, at, path, value)
	default:
		o.wrong(at, "what is set there is a single value: set it as a whole")
	}
}

// field goes on at the field of a section that the path begins with: of several names that fit the longest, because names of labels have
// dots.
func (o *overrider) field(in *yaml.Node, at int, path string, value *yaml.Node) {
	found, name := -1, ""
	for i := 0; i+1 < len(in.Content); i += 2 {
		if k := in.Content[i].Value; (path == k || strings.HasPrefix(path, k+".")) && len(k) > len(name) {
			found, name = i, k
		}
	}
	if found < 0 {
		name, _, _ = strings.Cut(path, ".")
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: 1, Column: 1}
		o.own(key, at)
		in.Content = append(in.Content, key, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: o.line, Column: at + 1})
		o.adopted[in.Content[len(in.Content)-1]] = place{in: o.flag}
		found = len(in.Content) - 2
	}
	o.set(in, found+1, at+len(name), path[len(name):], value)
}

// entry goes on at the entry of a list that the path begins with.
func (o *overrider) entry(in *yaml.Node, at int, path string, value *yaml.Node) {
	var found []int
	name := ""
	for i, n := range in.Content {
		if k, named := nameOf(n); named && (path == k || strings.HasPrefix(path, k+".")) && len(k) >= len(name) {
			if len(k) > len(name) {
				found = nil
			}
			found, name = append(found, i), k
		}
	}
	number := false
	if len(found) == 0 {
		name, _, _ = strings.Cut(path, ".")
		i, err := strconv.Atoi(name)
		if number = err == nil; number && i >= 0 && i < len(in.Content) {
			found = []int{i}
		}
	}
	switch len(found) {
	case 1:
		o.set(in, found[0], at+len(name), path[len(name):], value)
	case 0:
		if number {
			o.wrong(at, "the list has no entry %s: they go from 0 to %d", name, len(in.Content)-1)
			return
		}
		o.wrong(at, "the list has no entry %s", UnknownWord(name, entryNames(in)))
	default:
		o.wrong(at, "%d entries of the list are called %s: give the number of one, from 0", len(found), name)
	}
}

// set goes on below the value at an index of a node, or sets it where the path is at its end.
func (o *overrider) set(in *yaml.Node, index, at int, rest string, value *yaml.Node) {
	if rest == "" {
		in.Content[index] = value
		return
	}
	o.put(in.Content[index], at+1, rest[1:], value)
}

// entryNames are what the entries of a list can be called by: their names, and their numbers.
func entryNames(n *yaml.Node) (names []string) {
	for i, c := range n.Content {
		if name, named := nameOf(c); named && !slices.Contains(names, name) {
			names = append(names, name)
		} else {
			names = append(names, strconv.Itoa(i))
		}
	}
	return names
}
