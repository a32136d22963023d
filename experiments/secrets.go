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

// UndoOf is the command that undoes the hook of that id in an experiment file, valid or not, and the folder where it is run. It is what a
// journal is held against.
func UndoOf(data []byte, id string) (command []string, dir string) {
	var file struct {
		Faults []struct {
			ID   string
			Hook *struct {
				Undo []string
				Dir  string
			}
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, ""
	}
	for _, f := range file.Faults {
		if f.ID == id && f.Hook != nil {
			return f.Hook.Undo, f.Hook.Dir
		}
	}
	return nil, ""
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
