package experiments

import (
	"net"
	"net/url"
	"slices"
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

// Names reports an experiment file, valid or not, in which the text stands as a value, with or without a slash at its end.
func Names(data []byte, text string) bool {
	var root yaml.Node
	return yaml.Unmarshal(data, &root) == nil && hasValue(&root, strings.TrimSuffix(text, "/"))
}

func hasValue(n *yaml.Node, text string) bool {
	return n.Kind == yaml.ScalarNode && strings.TrimSuffix(n.Value, "/") == text ||
		slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return hasValue(c, text) })
}

// AddressesOf are the addresses, host:port, to which an experiment file, valid or not, sends the value of an environment variable: those
// of the sections that name it.
func AddressesOf(data []byte, variable string) (all []string) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil
	}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 1 && c.Kind == yaml.ScalarNode && c.Value == variable && strings.HasSuffix(n.Content[i-1].Value, "_env") {
				all = append(all, addressesIn(n)...)
			}
			walk(c)
		}
	}
	walk(&root)
	return all
}

// AddressesIn are all addresses, host:port or the path of a socket, that an experiment file, valid or not, names.
func AddressesIn(data []byte) []string {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil
	}
	return addressesIn(&root)
}

// addressesIn are those of all URLs below a node, of which one value may name several.
func addressesIn(n *yaml.Node) (all []string) {
	if path, _, socket := Socket(n.Value); socket {
		all = append(all, path)
	}
	for _, one := range strings.Split(n.Value, ",") {
		u, err := url.Parse(one)
		if n.Kind != yaml.ScalarNode || err != nil || u.Host == "" {
			continue
		}
		ports := []string{u.Port()}
		if ports[0] == "" { // of a server, of a Sentinel, of an etcd
			ports = []string{"6379", "26379", "2379", "5432", "80", "443"}
		}
		for _, port := range ports {
			all = append(all, net.JoinHostPort(u.Hostname(), port))
		}
	}
	for _, c := range n.Content {
		all = append(all, addressesIn(c)...)
	}
	return all
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

// MadeBy is the kind of object that the fault of that id makes, as UndoOf says the command of a hook.
func MadeBy(data []byte, id string) (apiVersion, kind string) {
	var file struct {
		Faults []struct {
			ID     string
			Object *struct {
				Manifest struct {
					APIVersion string `yaml:"apiVersion"`
					Kind       string
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return "", ""
	}
	for _, f := range file.Faults {
		if f.ID == id && f.Object != nil {
			return f.Object.Manifest.APIVersion, f.Object.Manifest.Kind
		}
	}
	return "", ""
}

// Routes reports that an experiment file names a proxy as one that replicas pass, by its name or a template of it.
func Routes(data []byte, proxy string) bool {
	var file struct{ Proxy struct{ Route string } }
	return yaml.Unmarshal(data, &file) == nil && file.Proxy.Route != "" && PatternOf(file.Proxy.Route).MatchString(proxy)
}

func variables(n *yaml.Node) (names []string) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && strings.HasSuffix(n.Content[i-1].Value, "_env") {
			if c.Kind == yaml.ScalarNode {
				names = append(names, c.Value)
			}
			for j := 1; c.Kind == yaml.MappingNode && j < len(c.Content); j += 2 { // headers by their names
				names = append(names, c.Content[j].Value)
			}
		}
		names = append(names, variables(c)...)
	}
	return names
}
