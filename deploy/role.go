package deploy

import "fmt"

// Rule is a permission within a namespace; kube.Rule converts to it.
type Rule struct {
	APIGroup    string // "" = core
	Resource    string
	Subresource string // "" = none
	Verbs       []string
	Names       []string // of the objects; none = objects of any name
}

type roleRule struct {
	APIGroups []string `yaml:"apiGroups,flow"`
	Resources []string `yaml:"resources,flow"`
	Names     []string `yaml:"resourceNames,flow,omitempty"`
	Verbs     []string `yaml:"verbs,flow"`
}

type roleRef struct {
	APIGroup string `yaml:"apiGroup"`
	Kind     string `yaml:"kind"`
	Name     string `yaml:"name"`
}

type subject struct {
	Kind      string `yaml:"kind"`
	Name      string `yaml:"name"`
	Namespace string `yaml:"namespace,omitempty"`
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
	docs, err := documents(role(o))
	if err != nil {
		return nil, fmt.Errorf("role %s: %w", o.Name, err)
	}
	return docs, nil
}

func role(o RoleOptions) []manifest {
	m := meta{Name: o.Name, Namespace: o.Namespace, Labels: map[string]string{NameLabel: runnerName}}
	var objects []manifest
	account := o.ServiceAccount
	if account == "" {
		account = o.Name
		objects = append(objects, manifest{APIVersion: "v1", Kind: "ServiceAccount", Metadata: m, Automount: new(bool)})
	}
	var rules []roleRule
	for _, r := range o.Rules {
		resource := r.Resource
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		rules = append(rules, roleRule{[]string{r.APIGroup}, []string{resource}, r.Names, r.Verbs})
	}
	return append(objects,
		manifest{
			note:       "All that a run of this experiment asks of the API server, and nothing more.",
			APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role", Metadata: m, Rules: rules,
		},
		manifest{
			APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding", Metadata: m,
			RoleRef:  &roleRef{"rbac.authorization.k8s.io", "Role", o.Name},
			Subjects: []subject{{"ServiceAccount", account, o.Namespace}},
		})
}

// runnerName is the label of what belongs to the runner of drills.
const runnerName = "lockdrill-runner"
