package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CutLabel is the label by which a policy of a run's finds the one pod that it cuts off.
const CutLabel = "lockdrill.dev/cut"

// PolicyKind are the words of a NetworkPolicy, as Find, Apply and Remove take them.
const (
	PolicyVersion = "networking.k8s.io/v1"
	PolicyKind    = "NetworkPolicy"
)

// CutPolicy lets nothing in or out of pods whose CutLabel has that value. It is marked as the run's.
func CutPolicy(name, value, run string) (Object, error) {
	o := Object{Object: map[string]any{
		"apiVersion": PolicyVersion, "kind": PolicyKind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{CutLabel: value}}, "policyTypes": []any{"Ingress", "Egress"}},
	}}
	return o, Mark(&o, run)
}

// SetCut gives the pod with that UID the CutLabel of that value; "" takes it away. An error wraps ErrGone or ErrAnother where that pod is
// not there.
func (c *Cluster) SetCut(ctx context.Context, name, uid, value string) error {
	var label any // nil takes it away
	if value != "" {
		label = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "labels": map[string]any{CutLabel: label}}})
	if err != nil {
		return err
	}
	at, bare := c.at(name)
	_, err = at.pods().Patch(ctx, bare, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	switch {
	case gone(err):
		err = ErrGone
	case apierrors.IsConflict(err), apierrors.IsInvalid(err): // a UID is not changed
		err = ErrAnother
	}
	if err != nil {
		return fmt.Errorf("label pod %s: %w", name, err)
	}
	return nil
}
