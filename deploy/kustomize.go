package deploy

import "slices"

// KustomizeOptions say what a kustomize base holds; all three are about the same experiment, and in no namespace: an overlay names it.
type KustomizeOptions struct {
	Job     JobOptions // with its schedule
	Network NetworkOptions
	Rules   []Rule // of the Role
}

// beside are the rules of further namespaces.
func beside(all []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(all), func(r Rule) bool { return r.Namespace == "" })
}

// Kustomize is a base for scheduled drills: the texts of its files by their names. It holds no Role of further namespaces: an overlay would
// put it into its own. export rbac prints them.
func Kustomize(o KustomizeOptions) (map[string][]byte, error) {
	o.Job.Namespace, o.Network.Namespace = "", ""
	drill, err := CronJob(o.Job)
	if err != nil {
		return nil, err
	}
	permissions, err := Role(RoleOptions{Name: RunnerName(o.Job.Experiment), Rules: slices.DeleteFunc(slices.Clone(o.Rules), func(r Rule) bool { return r.Namespace != "" })})
	if err != nil {
		return nil, err
	}
	network, err := Network(o.Network)
	if err != nil {
		return nil, err
	}
	index, err := manifests("kustomization", nil)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"drill.yaml": Join(drill), "permissions.yaml": Join(permissions), "network.yaml": Join(network), "kustomization.yaml": Join(index),
	}, nil
}
