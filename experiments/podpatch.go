package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// PodPatch is what is laid over each pod that lockdrill makes or exports, as JSON: annotations, resources of its container, and fields of a
// PodSpec that say where it runs and at what price. Its labels, its owner and what runs in it are lockdrill's, and are no part of this.
type PodPatch string

// podFields are the keys of a PodPatch.
var podFields = []string{
	"affinity", "annotations", "dnsConfig", "dnsPolicy", "hostAliases", "imagePullSecrets", "nodeSelector", "preemptionPolicy", "priorityClassName",
	"resources", "runtimeClassName", "schedulerName", "securityContext", "tolerations", "topologySpreadConstraints",
}

// ParsePod reads a PodPatch as a file has it; "" is none.
func ParsePod(text string) (p PodPatch, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) == 0 {
		return "", err
	}
	if why := p.parse(doc.Content[0]); why != "" {
		return "", errors.New(why)
	}
	return p, nil
}

func (p *PodPatch) parse(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return fmt.Sprintf("a section with fields is wanted (%s), not %s", strings.Join(podFields, ", "), describe(n))
	}
	for i := 0; i < len(n.Content); i += 2 {
		switch key := n.Content[i].Value; {
		case slices.Contains(podFields, key):
		case Nearest(key, podFields) != "":
			return fmt.Sprintf("%s (line %d) is unknown: did you mean %q?", key, n.Content[i].Line, Nearest(key, podFields))
		default:
			return fmt.Sprintf("%s (line %d) cannot be set: labels, owner and containers are lockdrill's own. There are %s", key, n.Content[i].Line, strings.Join(podFields, ", "))
		}
	}
	var fields map[string]any
	err := n.Decode(&fields)
	if err == nil {
		var text []byte
		text, err = json.Marshal(fields)
		*p = PodPatch(text)
	}
	if err != nil {
		return fmt.Sprintf("not to be written as JSON, which Kubernetes reads: %v", err)
	}
	return ""
}

func (p *PodPatch) format() string { return string(*p) }

// node is the patch as YAML.
func (p *PodPatch) node() *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(*p), &doc); err != nil || len(doc.Content) == 0 {
		return plainNode("{}") // parse made it
	}
	return doc.Content[0]
}

func (*PodPatch) schema() *jsonSchema {
	properties := map[string]*jsonSchema{}
	for _, f := range podFields {
		properties[f] = &jsonSchema{}
	}
	return &jsonSchema{Type: "object", Properties: properties, Additional: false}
}
