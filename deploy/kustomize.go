package deploy

// KustomizeOptions say what a kustomize base holds; all three are about the same experiment, and in no namespace: an overlay names it.
type KustomizeOptions struct {
	Job     JobOptions // with its schedule
	Network NetworkOptions
	Rules   []Rule // of the Role
}

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
	index, err := manifests("kustomization", nil)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"drill.yaml": Join(drill), "permissions.yaml": Join(permissions), "network.yaml": Join(network), "kustomization.yaml": Join(index),
	}, nil
}
