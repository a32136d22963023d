package experiments

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// VariablesIn lists the environment variables that an experiment file names, valid or not: the values of all fields whose names end
// in _env.
func VariablesIn(data []byte) []string {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil
	}
	return variables(&root)
}

func variables(n *yaml.Node) (names []string) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && c.Kind == yaml.ScalarNode && strings.HasSuffix(n.Content[i-1].Value, "_env") {
			names = append(names, c.Value)
		}
		names = append(names, variables(c)...)
	}
	return names
}
