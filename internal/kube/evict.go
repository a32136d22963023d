package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrBudget is the API server's answer to an eviction that a PodDisruptionBudget does not allow now; nothing was changed.
var ErrBudget = errors.New("a PodDisruptionBudget does not allow it")

// causeBudget is by what an answer names the budget (k8s.io/api/policy/v1, DisruptionBudgetCause).
const causeBudget metav1.CauseType = "DisruptionBudget"

// policies is the API of evictions and budgets.
var policies = schema.GroupVersion{Group: "policy", Version: "v1"}

// Evict asks for the end of a pod with its own grace, as a drain does: the API server asks the PodDisruptionBudgets first. An error wraps
// ErrBudget, and says which, where one forbids it; ErrGone or ErrAnother where that pod is not there; ErrUnanswered where it may end all
// the same.
func (c *Cluster) Evict(ctx context.Context, name, uid string) error {
	at, bare := c.at(name)
	_, err := at.pods().Create(ctx, &Object{Object: map[string]any{
		"apiVersion": policies.String(), "kind": "Eviction", "metadata": map[string]any{"name": bare, "namespace": at.Namespace},
		"deleteOptions": map[string]any{"preconditions": map[string]any{"uid": uid}},
	}}, metav1.CreateOptions{}, "eviction")
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, causeBudget):
		return fmt.Errorf("evict pod %s: %w: %s", name, ErrBudget, causesOf(err))
	case apierrors.IsTooManyRequests(err): // a budget that its controller has not looked at yet names no cause
		return fmt.Errorf("evict pod %s: %w: %w", name, ErrBudget, err)
	case gone(err):
		err = ErrGone
	case apierrors.IsConflict(err):
		err = ErrAnother
	case !refused(err):
		err = fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return fmt.Errorf("evict pod %s: %w", name, err)
}

// causesOf is what an answer says of the budgets.
func causesOf(err error) string {
	var answer apierrors.APIStatus
	var said []string
	if errors.As(err, &answer) && answer.Status().Details != nil {
		for _, cause := range answer.Status().Details.Causes {
			said = append(said, cause.Message)
		}
	}
	return strings.Join(said, "; ")
}

// Budget is a PodDisruptionBudget of the namespace.
type Budget struct {
	Name    string // as a pod's is
	Allows  int64  // disruptions, now
	selects labels.Selector
}

// Covers reports that the budget is for that pod.
func (b Budget) Covers(p Pod) bool {
	mine, _ := NamespaceIn(b.Name)
	its, _ := NamespaceIn(p.Name)
	return mine == its && b.selects.Matches(labels.Set(p.Labels))
}

// Budgets lists the PodDisruptionBudgets of the namespaces, in the order of their names.
func (c *Cluster) Budgets(ctx context.Context) ([]Budget, error) {
	var all []Budget
	for _, one := range c.Each() {
		budgets, err := one.budgets(ctx)
		if err != nil {
			return nil, err
		}
		for i := range budgets {
			budgets[i].Name = c.called(one, budgets[i].Name)
		}
		all = append(all, budgets...)
	}
	return all, nil
}

// budgets are those of the cluster's own namespace.
func (c *Cluster) budgets(ctx context.Context) ([]Budget, error) {
	list, err := c.objects.Resource(policies.WithResource("poddisruptionbudgets")).Namespace(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list disruption budgets: %w", err)
	}
	var all []Budget
	for i := range list.Items {
		o := &list.Items[i]
		selector, err := as[struct {
			Spec struct {
				Selector *metav1.LabelSelector `json:"selector"`
			} `json:"spec"`
		}](o, nil)
		if err != nil {
			return nil, fmt.Errorf("read disruption budget %s: %w", o.GetName(), err)
		}
		selects, err := metav1.LabelSelectorAsSelector(selector.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("read disruption budget %s: %w", o.GetName(), err)
		}
		allows, _, _ := unstructured.NestedInt64(o.Object, "status", "disruptionsAllowed")
		all = append(all, Budget{o.GetName(), allows, selects})
	}
	slices.SortFunc(all, func(a, b Budget) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
