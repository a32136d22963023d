package experiments

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Unsaid begins a value of a draft that nobody has said yet: what follows says what belongs there. No file with one is valid.
const Unsaid = "CHECK: "

// unsaidBelow are the values below a node that nobody has said yet.
func unsaidBelow(n *yaml.Node) (all []*yaml.Node) {
	if n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Value, Unsaid) {
		all = append(all, n)
	}
	for _, child := range n.Content {
		all = append(all, unsaidBelow(child)...)
	}
	return all
}

// UnsaidIn is how many values of a file nobody has said yet.
func UnsaidIn(data []byte) int {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil {
		return 0
	}
	return len(unsaidBelow(&doc))
}
