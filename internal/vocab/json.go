package vocab

import (
	"encoding/json"
	"fmt"

	"gopkg.in/yaml.v3"
)

// JSON is a section with fields of somebody else's, kept as JSON: what they mean its reader knows.
type JSON string

func (j *JSON) ParseNode(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return "a section with fields is wanted, not " + Describe(n)
	}
	var fields map[string]any
	err := n.Decode(&fields)
	if err == nil {
		var text []byte
		text, err = json.Marshal(fields)
		*j = JSON(text)
	}
	if err != nil {
		return fmt.Sprintf("not to be written as JSON, which Kubernetes reads: %v", err)
	}
	return ""
}

func (j *JSON) Format() string { return string(*j) }

// Node is the section as YAML.
func (j *JSON) Node() *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(*j), &doc); err != nil || len(doc.Content) == 0 {
		return Plain("{}") // ParseNode made it
	}
	return doc.Content[0]
}

func (*JSON) Schema() *JSONSchema { return &JSONSchema{Type: "object"} }
