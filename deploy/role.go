package deploy

import (
	"cmp"
	"fmt"
)

// Rule is a permission within a namespace; kube.Rule converts to it.
type Rule struct {
	APIGroup    string // "" = core
	Resource    string
	Subresource string // "" = none
	Verbs       []string
	Names       []string // of the objects; none = objects of any name
}

// RoleOptions say who may do what.
type RoleOptions struct {
	Name           string // of the Role, the RoleBinding and the ServiceAccount
	Namespace      string // "" = that of whoever applies them
	ServiceAccount string // one that exists; "" = a new one of that Name
	Rules          []Rule
}

// Role is the ServiceAccount of a runner, a Role with these rules, and the RoleBinding between them, one YAML document each.
func Role(o RoleOptions) ([][]byte, error) {
	docs, err := manifests("role", struct {
		RoleOptions
		Meta    meta
		Account string
	}{o, meta{o.Name, o.Namespace, map[string]string{NameLabel: runnerName}}, cmp.Or(o.ServiceAccount, o.Name)})
	if err != nil {
		return nil, fmt.Errorf("role %s: %w", o.Name, err)
	}
	return docs, nil
}

// runnerName is the label of what belongs to the runner of drills.
const runnerName = "lockdrill-runner"
