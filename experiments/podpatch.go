package experiments

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/internal/vocab"
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
	if text == "" {
		return "", nil
	}
	f := vocabulary.Open("", []byte(text), false)
	if f.Root == nil {
		return "", errors.New(f.Err().(Problems)[0].Message)
	}
	if why := p.ParseNode(f.Root); why != "" {
		return "", errors.New(why)
	}
	return p, nil
}

func (p *PodPatch) ParseNode(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return fmt.Sprintf("a section with fields is wanted (%s), not %s", strings.Join(podFields, ", "), vocab.Describe(n))
	}
	for i := 0; i < len(n.Content); i += 2 {
		switch key := n.Content[i].Value; {
		case slices.Contains(podFields, key):
		case vocab.Nearest(key, podFields) != "":
			return fmt.Sprintf("%s (line %d) is unknown: did you mean %q?", key, n.Content[i].Line, vocab.Nearest(key, podFields))
		default:
			return fmt.Sprintf("%s (line %d) cannot be set: labels, owner and containers are lockdrill's own. There are %s", key, n.Content[i].Line, strings.Join(podFields, ", "))
		}
	}
	return (*vocab.JSON)(p).ParseNode(n)
}

func (p *PodPatch) Format() string { return string(*p) }

func (p *PodPatch) Node() *yaml.Node { return (*vocab.JSON)(p).Node() }

func (*PodPatch) Schema() *vocab.JSONSchema {
	properties := map[string]*vocab.JSONSchema{}
	for _, f := range podFields {
		properties[f] = &vocab.JSONSchema{}
	}
	return &vocab.JSONSchema{Type: "object", Properties: properties, Additional: false}
}
