package experiments

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"
)

// One mistake is told once: a section in place of any value of a good file gives one message.
func TestOneMistakeIsToldOnce(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc yaml.Node
		if err := yaml.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		eachValue(&doc, func(n *yaml.Node) {
			was := *n
			defer func() { *n = was }()
			*n = yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "x"}, {Kind: yaml.ScalarNode, Value: "y"}}}
			text, err := yaml.Marshal(&doc)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse("one.yaml", text)
			var problems Problems
			if errors.As(err, &problems) && len(problems) > 1 {
				t.Errorf("%s: {x: y} in place of %q in line %d:\n%v", file, was.Value, was.Line, err)
			}
		})
	}
}

// eachValue shows every plain value below a node.
func eachValue(n *yaml.Node, show func(*yaml.Node)) {
	for i, c := range n.Content {
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 0:
		case c.Kind == yaml.ScalarNode:
			show(c)
		default:
			eachValue(c, show)
		}
	}
}
