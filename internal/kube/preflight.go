package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EnvironmentAnnotation is what a namespace says of itself: "staging". Only a namespace that says it is drilled.
const EnvironmentAnnotation = "lockdrill.dev/environment"

// RunLease is the Lease object by which one run at a time has a namespace.
const RunLease = "lockdrill-run"

// Rule is a permission within the namespace, or Wide, as a rule of a Role says it; Names empty = objects of any name.
type Rule struct {
	APIGroup    string // "" = core
	Resource    string
	Subresource string   // "" = none; pods/log has "log"
	Verbs       []string // get, list, watch, create, patch, delete
	Names       []string
	Namespace   string // "" = the cluster's own
	Wide        bool   // of the whole cluster: its object is in no namespace, and a ClusterRole gives it
}

// Needs is what a drill does in a namespace. Every drill reads the namespace's annotation, and, but for Store, lists and watches pods.
type Needs struct {
	Namespace string   // its name, for the rule that reads it
	Apply     bool     // makes and removes workers of its own
	Stateful  bool     // ... as a StatefulSet, not as a Deployment
	Files     bool     // ... with files in a ConfigMap
	Cut       bool     // labels a pod, and makes and removes a NetworkPolicy for it
	Kill      bool     // deletes pods
	Evict     bool     // evicts pods
	Restarts  []string // has these replace their pods: deployment/NAME, statefulset/NAME
	Nodes     bool     // cordons nodes
	Zones     bool     // asks nodes for their zones
	Exec      bool     // runs a command in a container
	Events    bool     // writes Events about what it strikes
	Logs      bool     // follows the logs of pods
	Leases    []string // Lease objects that are looked at and watched
	Store     bool     // nothing but this: its locks are Lease objects, of any name
	Summary   string   // ConfigMap in which a run leaves its summary; "" = none
	Makes     []Made   // objects of any kind that faults make, and delete
}

// Made is an object that a fault makes.
type Made struct {
	APIGroup, Resource string
	Name               string // "" = it is not known before
	Wide               bool   // in no namespace
}

// RulesFor is all that such a drill is allowed to do, and nothing more: the one list for the preflight and for the Role that ships.
func RulesFor(n Needs) []Rule {
	rules := []Rule{
		{Resource: "namespaces", Verbs: []string{"get"}, Names: named(n.Namespace)},
		{Resource: "pods", Verbs: []string{"get", "list", "watch"}},
		// Who may create an object cannot be bound to a name: the API server does not know it yet.
		{APIGroup: "coordination.k8s.io", Resource: "leases", Verbs: []string{"create"}},
		{APIGroup: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "update", "delete"}, Names: []string{RunLease}},
	}
	if n.Store {
		rules = []Rule{rules[0], {APIGroup: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "list", "watch", "create", "update", "delete"}}}
	}
	if n.Kill || n.Apply { // what is applied is removed with its pods
		rules = append(rules, Rule{Resource: "pods", Verbs: []string{"delete"}})
	}
	if n.Evict {
		rules = append(rules, Rule{Resource: "pods", Subresource: "eviction", Verbs: []string{"create"}})
	}
	if n.Kill || n.Evict { // who is asked, and who is gone around
		rules = append(rules, Rule{APIGroup: "policy", Resource: "poddisruptionbudgets", Verbs: []string{"list"}})
	}
	if n.Logs {
		rules = append(rules, Rule{Resource: "pods", Subresource: "log", Verbs: []string{"get"}})
	}
	if n.Events {
		rules = append(rules, Rule{Resource: "events", Verbs: []string{"create"}})
	}
	if n.Exec {
		rules = append(rules, Rule{Resource: "pods", Subresource: "exec", Verbs: []string{"create", "get"}})
	}
	if len(n.Leases) > 0 { // names bind list and watch, too, where they ask for one name by a field selector
		rules = append(rules, Rule{APIGroup: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "list", "watch"}, Names: n.Leases})
	}
	made := []string{"get", "create", "patch", "delete"} // server-side apply: create and patch
	if n.Apply {
		workers := "deployments"
		if n.Stateful {
			workers = "statefulsets"
		}
		rules = append(rules,
			Rule{APIGroup: "apps", Resource: workers, Verbs: made},
			Rule{Resource: "serviceaccounts", Verbs: made})
	}
	if n.Files {
		rules = append(rules, Rule{Resource: "configmaps", Verbs: made})
	}
	if n.Summary != "" && !n.Files { // who makes some may write any
		rules = append(rules,
			Rule{Resource: "configmaps", Verbs: []string{"create"}},
			Rule{Resource: "configmaps", Verbs: []string{"get", "patch"}, Names: []string{n.Summary}})
	}
	for _, o := range n.Restarts {
		kind, name, _ := strings.Cut(o, "/")
		rules = append(rules, Rule{APIGroup: "apps", Resource: kind + "s", Verbs: []string{"get", "patch"}, Names: named(name)})
	}
	if n.Cut {
		rules = append(rules,
			Rule{Resource: "pods", Verbs: []string{"patch"}},
			Rule{APIGroup: "networking.k8s.io", Resource: "networkpolicies", Verbs: made})
	}
	for _, m := range n.Makes {
		rules = append(rules,
			Rule{APIGroup: m.APIGroup, Resource: m.Resource, Verbs: []string{"create"}, Wide: m.Wide},
			Rule{APIGroup: m.APIGroup, Resource: m.Resource, Verbs: []string{"get", "delete"}, Names: named(m.Name), Wide: m.Wide})
	}
	if n.Nodes { // which node it will be nobody knows before
		rules = append(rules, Rule{Resource: "nodes", Verbs: []string{"get", "patch"}, Wide: true})
	} else if n.Zones {
		rules = append(rules, Rule{Resource: "nodes", Verbs: []string{"get"}, Wide: true})
	}
	return rules
}

func named(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// Missing asks the API server of each rule whether the caller has it, and returns those, cut down to the verbs and names, that it has
// not. It changes nothing.
func (c *Cluster) Missing(ctx context.Context, rules []Rule) ([]Rule, error) {
	var missing []Rule
	for _, r := range rules {
		names := r.Names
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			var verbs []string
			for _, verb := range r.Verbs {
				ok, err := c.may(ctx, r, verb, name)
				if err != nil {
					return nil, err
				}
				if !ok {
					verbs = append(verbs, verb)
				}
			}
			if len(verbs) > 0 {
				missing = append(missing, Rule{APIGroup: r.APIGroup, Resource: r.Resource, Subresource: r.Subresource, Verbs: verbs, Names: named(name), Namespace: r.Namespace, Wide: r.Wide})
			}
		}
	}
	return missing, nil
}

func (c *Cluster) may(ctx context.Context, r Rule, verb, name string) (bool, error) {
	authorization := schema.GroupVersion{Group: "authorization.k8s.io", Version: "v1"}
	namespace := cmp.Or(r.Namespace, c.Namespace)
	if r.Wide {
		namespace = ""
	}
	review := &Object{Object: map[string]any{
		"apiVersion": authorization.String(), "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"namespace": namespace, "verb": verb, "group": r.APIGroup, "resource": r.Resource, "subresource": r.Subresource, "name": name,
		}},
	}}
	answer, err := c.objects.Resource(authorization.WithResource("selfsubjectaccessreviews")).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask the API server what is permitted: %w", err)
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}

// RuleYAML is the rules as they stand under "rules:" of a Role, to paste. Rules that differ in nothing but the verbs' order are not
// merged: what is printed is what was asked.
func RuleYAML(rules []Rule) string {
	var b strings.Builder
	for _, r := range rules {
		resource := r.Resource
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		if r.Wide {
			fmt.Fprintf(&b, "# of a ClusterRole:\n")
		}
		if r.Namespace != "" {
			fmt.Fprintf(&b, "# of the Role in namespace %s:\n", r.Namespace)
		}
		fmt.Fprintf(&b, "- apiGroups: [%q]\n  resources: [%q]\n", r.APIGroup, resource)
		if len(r.Names) > 0 {
			fmt.Fprintf(&b, "  resourceNames: %s\n", flow(r.Names))
		}
		fmt.Fprintf(&b, "  verbs: %s\n", flow(r.Verbs))
	}
	return b.String()
}

func flow(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// ErrForbidden is wrapped by errors of an API server that knows the caller and does not let it.
var ErrForbidden = errors.New("not permitted")

// Environment is what the namespace says it is, by EnvironmentAnnotation; said is false where it says nothing. An error wraps ErrGone
// where there is no such namespace, and ErrForbidden where it may not be read.
func (c *Cluster) Environment(ctx context.Context) (name string, said bool, err error) {
	o, err := c.namespace(ctx)
	switch {
	case gone(err):
		return "", false, fmt.Errorf("read namespace %s: %w", c.Namespace, ErrGone)
	case apierrors.IsForbidden(err):
		return "", false, fmt.Errorf("read namespace %s: %w", c.Namespace, ErrForbidden)
	case err != nil:
		return "", false, fmt.Errorf("read namespace %s: %w", c.Namespace, err)
	}
	name, said = o.GetAnnotations()[EnvironmentAnnotation]
	return name, said && name != "", nil
}

func (c *Cluster) namespace(ctx context.Context) (*Object, error) {
	return c.objects.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, c.Namespace, metav1.GetOptions{})
}

// NamespaceUID tells apart namespaces of one name in several clusters, whatever address a cluster is reached at.
func (c *Cluster) NamespaceUID(ctx context.Context) (string, error) {
	o, err := c.namespace(ctx)
	if err != nil {
		return "", fmt.Errorf("read namespace %s: %w", c.Namespace, err)
	}
	return string(o.GetUID()), nil
}
