package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Workload is how far what owns pods has replaced them.
type Workload struct {
	Labels                           map[string]string // of its pods
	Wanted, Updated, Available, Pods int64             // Pods: those that are there, old ones too
	seen                             bool              // its status is of the present template
}

// RolledOut reports that every pod is of the present template and available, and no other is left.
func (w Workload) RolledOut() bool {
	return w.seen && w.Updated == w.Wanted && w.Available == w.Wanted && w.Pods == w.Wanted
}

// owner is what deployment/NAME or statefulset/NAME names: its resource, with which the API speaks of it.
func (c *Cluster) owner(said string) (api dynamic.ResourceInterface, name string) {
	kind, name, _ := strings.Cut(said, "/")
	return c.objects.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: kind + "s"}).Namespace(c.Namespace), name
}

// Workload looks at what owns pods: deployment/NAME or statefulset/NAME. An error wraps ErrGone where there is none of that name.
func (c *Cluster) Workload(ctx context.Context, owner string) (Workload, error) {
	api, name := c.owner(owner)
	o, err := api.Get(ctx, name, metav1.GetOptions{})
	if gone(err) {
		err = ErrGone
	}
	if err != nil {
		return Workload{}, fmt.Errorf("read %s: %w", owner, err)
	}
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, path...)
		return n
	}
	w := Workload{Wanted: 1, Updated: number("status", "updatedReplicas"), Available: number("status", "availableReplicas"), Pods: number("status", "replicas")}
	if n, given, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); given {
		w.Wanted = n
	}
	w.Labels, _, _ = unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	w.seen = number("status", "observedGeneration") >= o.GetGeneration()
	return w, nil
}

// restartedAt is the annotation by which kubectl rollout restart makes a template a new one.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// Restart has what owns pods replace all of them, as kubectl rollout restart does.
func (c *Cluster) Restart(ctx context.Context, owner string, at time.Time) error {
	api, name := c.owner(owner)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{restartedAt: at.UTC().Format(time.RFC3339Nano)}}}}})
	if err != nil {
		return err
	}
	if _, err = api.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}); gone(err) {
		err = ErrGone
	}
	if err != nil {
		return fmt.Errorf("restart %s: %w", owner, err)
	}
	return nil
}
