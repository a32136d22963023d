package deploy

import (
	"bytes"
	"fmt"
)

// KustomizeOptions say what a kustomize base holds; all three are about the same experiment, and in no namespace: an overlay names it.
type KustomizeOptions struct {
	Job     JobOptions // with its schedule
	Network NetworkOptions
	Rules   []Rule // of the Role
}

const kustomizationNote = `Made by lockdrill export kustomize; make it anew when the experiment changes: its permissions and times follow from it.
An overlay names the namespace, which must carry the annotation lockdrill.dev/environment.
`

// Kustomize is a base for scheduled drills: the texts of its files by their names.
func Kustomize(o KustomizeOptions) (map[string][]byte, error) {
	o.Job.Namespace, o.Network.Namespace = "", ""
	drill, err := CronJob(o.Job)
	if err != nil {
		return nil, err
	}
	permissions, err := Role(RoleOptions{Name: RunnerName(o.Job.Experiment), Rules: o.Rules})
	if err != nil {
		return nil, err
	}
	network, err := Network(o.Network)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"drill.yaml": Join(drill), "permissions.yaml": Join(permissions), "network.yaml": Join(network)}
	index, err := encode(struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Resources  []string `yaml:"resources"`
	}{"kustomize.config.k8s.io/v1beta1", "Kustomization", []string{"drill.yaml", "permissions.yaml", "network.yaml"}})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for line := range bytes.Lines([]byte(kustomizationNote)) {
		fmt.Fprintf(&b, "# %s", line)
	}
	files["kustomization.yaml"] = append(b.Bytes(), index...)
	return files, nil
}
