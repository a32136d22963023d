package vocab

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// Setting is one value of a document under its path: system.locks.job.policy.ttl, 60s.
type Setting struct{ Path, Value string }

// Settings lists what the section at doc has set, in the order of the file that Encode gives. Entries of a list go by their name, id or
// lock where they have one, else by their number from 1, so that one entry more does not rename the others.
func (y *Vocabulary) Settings(doc any) []Setting {
	var all []Setting
	flatten(y.Encode(doc), "", &all)
	return all
}

func flatten(n *yaml.Node, path string, all *[]Setting) {
	below := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			flatten(n.Content[i+1], below(n.Content[i].Value), all)
		}
	case n.Kind == yaml.SequenceNode && listed(n):
		var values []string
		for _, c := range n.Content {
			values = append(values, c.Value)
		}
		*all = append(*all, Setting{path, strings.Join(values, " ")})
	case n.Kind == yaml.SequenceNode:
		seen := map[string]int{}
		for i, c := range n.Content {
			name := entryName(c, i)
			if seen[name]++; seen[name] > 1 {
				name += fmt.Sprintf("#%d", seen[name])
			}
			flatten(c, below(name), all)
		}
	default:
		*all = append(*all, Setting{path, n.Value})
	}
}

// listed reports a list of plain values: they are one setting.
func listed(n *yaml.Node) bool {
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			return false
		}
	}
	return true
}

// entryName is what the i-th entry of a list is called.
func entryName(n *yaml.Node, i int) string {
	if name, named := nameOf(n); named {
		return name
	}
	return fmt.Sprint(i + 1)
}

// nameOf is the name, id or lock of an entry.
func nameOf(n *yaml.Node) (name string, named bool) {
	if n.Kind != yaml.MappingNode {
		return "", false
	}
	for _, key := range []string{"name", "id", "lock"} {
		for k := 0; k+1 < len(n.Content); k += 2 {
			if n.Content[k].Value == key {
				return n.Content[k+1].Value, true
			}
		}
	}
	return "", false
}
