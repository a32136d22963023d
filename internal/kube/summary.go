package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// summaryLabel says that a ConfigMap holds the summary of a run.
const summaryLabel = "lockdrill.dev/summary"

// ErrForeign is wrapped by errors about objects that somebody else made.
var ErrForeign = errors.New("it is not lockdrill's")

// WriteSummary makes or replaces the ConfigMap of that name. One that is there and was not made by this function is left as it is: an
// error that wraps ErrForeign.
func (c *Cluster) WriteSummary(ctx context.Context, name string, data map[string]string) error {
	return c.writeSummary(ctx, name, data, false)
}

// MarkSummary is WriteSummary that keeps what the ConfigMap has under other keys.
func (c *Cluster) MarkSummary(ctx context.Context, name string, data map[string]string) error {
	return c.writeSummary(ctx, name, data, true)
}

func (c *Cluster) writeSummary(ctx context.Context, name string, data map[string]string, keep bool) error {
	api, err := c.api("v1", "ConfigMap")
	if err != nil {
		return err
	}
	switch there, err := api.Get(ctx, name, metav1.GetOptions{}); {
	case gone(err):
	case err != nil:
		return fmt.Errorf("look for configmap %s: %w", name, err)
	case there.GetLabels()[summaryLabel] == "":
		return fmt.Errorf("write configmap %s: %w: give another name", name, ErrForeign)
	case keep:
		had, _, _ := unstructured.NestedStringMap(there.Object, "data")
		if had != nil {
			maps.Copy(had, data)
			data = had
		}
	}
	o := generic(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: map[string]string{summaryLabel: "last"}},
		Data:       data,
	})
	if _, err := api.Apply(ctx, name, o, metav1.ApplyOptions{FieldManager: FieldManager, Force: true}); err != nil {
		return fmt.Errorf("write configmap %s: %w", name, err)
	}
	return nil
}
