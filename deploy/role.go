package deploy

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule is a permission within a namespace, or Wide; kube.Rule converts to it.
type Rule struct {
	APIGroup    string // "" = core
	Resource    string
	Subresource string // "" = none
	Verbs       []string
	Names       []string // of the objects; none = objects of any name
	Namespace   string   // "" = that of the Role
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
// the whole cluster also a ClusterRole and its binding, named after the namespace as well; for rules of other namespaces a Role and a
// RoleBinding in each.
func Role(o RoleOptions) ([][]byte, error) {
	docs, err := role(o)
	if err == nil && o.Namespace == "" && slices.ContainsFunc(o.Rules, func(r Rule) bool { return r.Namespace != "" }) {
		err = fmt.Errorf("role %s: a RoleBinding in another namespace must say in which the account is: give --namespace", o.Name)
	}
	return docs, err
}

// role is Role, also where whoever fills in a chart will say in which namespace the account is.
func role(o RoleOptions) ([][]byte, error) {
	var inside, wide []Rule
	var beside []part
	labels := map[string]string{NameLabel: runnerName}
	for _, r := range o.Rules {
		at := slices.IndexFunc(beside, func(p part) bool { return p.Meta.Namespace == r.Namespace })
		switch {
		case r.Wide:
			wide = append(wide, r)
		case r.Namespace == "":
			inside = append(inside, r)
		case at < 0:
			beside = append(beside, part{meta{o.Name, r.Namespace, labels}, []Rule{r}})
		default:
			beside[at].Rules = append(beside[at].Rules, r)
		}
	}
	if len(wide) > 0 && o.Namespace == "" {
		return nil, fmt.Errorf("role %s: %s is in no namespace, and its ClusterRoleBinding must say in which the account is: give --namespace", o.Name, wide[0].Resource)
	}
	docs, err := manifests("role", struct {
		RoleOptions
		Meta, WideMeta meta
		Account        string
		Inside, Wide   []Rule
		Beside         []part
	}{o, meta{o.Name, o.Namespace, labels}, meta{o.Namespace + "-" + o.Name, "", labels}, cmp.Or(o.ServiceAccount, o.Name), inside, wide, beside})
	if err != nil {
		return nil, fmt.Errorf("role %s: %w", o.Name, err)
	}
	return docs, nil
}

// part is what a runner may do in a namespace beside its own.
type part struct {
	Meta  meta
	Rules []Rule
}

// runnerName is the label of what belongs to the runner of drills.
const runnerName = "lockdrill-runner"
