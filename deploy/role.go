package deploy

import (
	"cmp"
	"fmt"
)

// Rule is a permission within a namespace, or Wide; kube.Rule converts to it.
type Rule struct {
	APIGroup    string // "" = core
	Resource    string
	Subresource string // "" = none
	Verbs       []string
	Names       []string // of the objects; none = objects of any name
	Wide        bool     // of the whole cluster
}

// RoleOptions say who may do what.
type RoleOptions struct {
	Name           string // of the Role, the RoleBinding and the ServiceAccount
	Namespace      string // "" = that of whoever applies them
	ServiceAccount string // one that exists; "" = a new one of that Name
	Rules          []Rule
}

// Role is the ServiceAccount of a runner, a Role with these rules, and the RoleBinding between them, one YAML document each; for rules of
// the whole cluster also a ClusterRole and its binding, named after the namespace as well.
func Role(o RoleOptions) ([][]byte, error) {
	var inside, wide []Rule
	for _, r := range o.Rules {
		if r.Wide {
			wide = append(wide, r)
		} else {
			inside = append(inside, r)
		}
	}
	if len(wide) > 0 && o.Namespace == "" {
		return nil, fmt.Errorf("role %s: %s is in no namespace, and its ClusterRoleBinding must say in which the account is: give --namespace", o.Name, wide[0].Resource)
	}
	labels := map[string]string{NameLabel: runnerName}
	docs, err := manifests("role", struct {
		RoleOptions
		Meta, WideMeta meta
		Account        string
		Inside, Wide   []Rule
	}{o, meta{o.Name, o.Namespace, labels}, meta{o.Namespace + "-" + o.Name, "", labels}, cmp.Or(o.ServiceAccount, o.Name), inside, wide})
	if err != nil {
		return nil, fmt.Errorf("role %s: %w", o.Name, err)
	}
	return docs, nil
}

// runnerName is the label of what belongs to the runner of drills.
const runnerName = "lockdrill-runner"
