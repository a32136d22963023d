package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// CordonAnnotation says of a node which run has cordoned it: only that run uncordons it.
const CordonAnnotation = "lockdrill.dev/cordoned-by"

// Node is what a cordon is about.
type Node struct {
	Name, UID, version string
	Cordoned           bool
	By                 string // the run that has cordoned it; "" = nobody of ours
}

func (c *Cluster) nodes() dynamic.ResourceInterface {
	return c.objects.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
}

// Node reads one node of the cluster; ok is false where there is none of that name.
func (c *Cluster) Node(ctx context.Context, name string) (n Node, ok bool, err error) {
	o, err := as[corev1.Node](c.nodes().Get(ctx, name, metav1.GetOptions{}))
	if gone(err) {
		return n, false, nil
	}
	if err != nil {
		return n, false, fmt.Errorf("read node %s: %w", name, err)
	}
	return Node{o.Name, string(o.UID), o.ResourceVersion, o.Spec.Unschedulable, o.Annotations[CordonAnnotation]}, true, nil
}

// Cordon lets no new pod onto the node and marks it as a run's; run "" ends both. It changes just the state that n was read in: an error
// wraps ErrAnother where the node is in another by now, and ErrGone where it is not there.
func (c *Cluster) Cordon(ctx context.Context, n Node, run string) error {
	var mark, closed any // nil takes them away
	if run != "" {
		mark, closed = run, true
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.version, "annotations": map[string]any{CordonAnnotation: mark}},
		"spec":     map[string]any{"unschedulable": closed},
	})
	if err != nil {
		return err
	}
	_, err = c.nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	switch {
	case gone(err):
		err = ErrGone
	case apierrors.IsConflict(err), apierrors.IsInvalid(err):
		err = ErrAnother
	}
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", n.Name, err)
	}
	return nil
}
