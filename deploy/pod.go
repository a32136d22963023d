package deploy

import (
	"encoding/json"
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/lockdrill/lockdrill/experiments"
)

// CheckPod says what of a patch the API would not know.
func CheckPod(patch experiments.PodPatch) error {
	if patch == "" {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(patch), &fields); err != nil {
		return fmt.Errorf("kubernetes.pod: %w", err)
	}
	for name, into := range map[string]any{"annotations": &map[string]string{}, "resources": &corev1.ResourceRequirements{}} {
		if text, given := fields[name]; given {
			if err := strictly(text, into); err != nil {
				return fmt.Errorf("kubernetes.pod.%s: %w", name, err)
			}
			delete(fields, name)
		}
	}
	rest, err := json.Marshal(fields)
	if err == nil {
		err = strictly(rest, &corev1.PodSpec{})
	}
	if err != nil {
		return fmt.Errorf("kubernetes.pod: %w", err)
	}
	return nil
}

// strictly decodes as the API does with --validate=strict.
func strictly(text []byte, into any) error {
	unknown, err := kjson.UnmarshalStrict(text, into)
	return errors.Join(append(unknown, err)...)
}

// patchPod lays a patch over the template of a manifest's pods, if it has any. Nothing that our templates say is a list that the patch may
// have: merging maps is all that there is to a strategic merge here, and null takes a field away.
func patchPod(doc *yaml.Node, patch experiments.PodPatch) error {
	template := at(doc.Content[0], "spec", "template")
	if template == nil {
		template = at(doc.Content[0], "spec", "jobTemplate", "spec", "template")
	}
	if patch == "" || template == nil {
		return nil
	}
	if err := CheckPod(patch); err != nil {
		return err
	}
	var over yaml.Node
	if err := yaml.Unmarshal([]byte(patch), &over); err != nil {
		return fmt.Errorf("kubernetes.pod: %w", err)
	}
	plain(&over)
	spec := at(template, "spec")
	for i := 0; i < len(over.Content[0].Content); i += 2 {
		key, value := over.Content[0].Content[i], over.Content[0].Content[i+1]
		switch key.Value {
		case "annotations":
			merge(at(template, "metadata"), key, value)
		case "resources":
			for _, kind := range []string{"initContainers", "containers"} {
				if list := at(spec, kind); list != nil {
					for _, container := range list.Content {
						merge(container, key, value)
					}
				}
			}
		default:
			merge(spec, key, value)
		}
	}
	return nil
}

// at is what a mapping has at a path; nil = nothing.
func at(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		var next *yaml.Node
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				next = n.Content[i+1]
			}
		}
		if next == nil {
			return nil
		}
		n = next
	}
	return n
}

// merge sets a field of a mapping: mappings are merged, null takes away, anything else replaces.
func merge(into, key, value *yaml.Node) {
	at := -1
	for i := 0; i < len(into.Content); i += 2 {
		if into.Content[i].Value == key.Value {
			at = i
		}
	}
	gone := value.Kind == yaml.ScalarNode && value.Tag == "!!null"
	switch {
	case at < 0 && gone:
	case at < 0:
		into.Content = append(into.Content, key, value)
	case gone:
		into.Content = append(into.Content[:at], into.Content[at+2:]...)
	case value.Kind == yaml.MappingNode && into.Content[at+1].Kind == yaml.MappingNode:
		for i := 0; i < len(value.Content); i += 2 {
			merge(into.Content[at+1], value.Content[i], value.Content[i+1])
		}
	default:
		into.Content[at+1] = value
	}
}

// plain takes the form of JSON from YAML.
func plain(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle
	for _, c := range n.Content {
		plain(c)
	}
}
