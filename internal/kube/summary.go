package kube

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
)

// summaryLabel says that a ConfigMap holds the summary of a run.
const summaryLabel = "lockdrill.dev/summary"

// ErrForeign is wrapped by errors about objects that somebody else made.
var ErrForeign = errors.New("it is not lockdrill's")

// WriteSummary makes or replaces the ConfigMap of that name. One that is there and was not made by this function is left as it is: an
// error that wraps ErrForeign.
func (c *Cluster) WriteSummary(ctx context.Context, name string, data map[string]string) error {
	api := c.client.CoreV1().ConfigMaps(c.Namespace)
	switch there, err := api.Get(ctx, name, metav1.GetOptions{}); {
	case gone(err):
	case err != nil:
		return fmt.Errorf("look for configmap %s: %w", name, err)
	case there.Labels[summaryLabel] == "":
		return fmt.Errorf("write configmap %s: %w: give another name", name, ErrForeign)
	}
	o := applycore.ConfigMap(name, c.Namespace).WithLabels(map[string]string{summaryLabel: "last"}).WithData(data)
	if _, err := api.Apply(ctx, o, metav1.ApplyOptions{FieldManager: FieldManager, Force: true}); err != nil {
		return fmt.Errorf("write configmap %s: %w", name, err)
	}
	return nil
}
