package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// Labels and names by which an object is known to be lockdrill's.
const (
	RunLabel     = "lockdrill.dev/run" // value: the run that made the object, and removes it
	FieldManager = "lockdrill"
)

// RunValue is a run's id as a value of RunLabel, which has at most 63 characters.
func RunValue(run string) string {
	if len(run) <= 63 {
		return run
	}
	sum := sha256.Sum256([]byte(run))
	return run[:50] + "-" + hex.EncodeToString(sum[:6])
}

// Object is one manifest, as a value of the generic API.
type Object = unstructured.Unstructured

// appliable are the kinds that Apply makes and Remove removes, with the API's word for them. It is a list and no discovery, so that a
// run can make nothing else, whatever is in its manifests.
var appliable = map[schema.GroupVersionKind]string{
	{Version: "v1", Kind: "ConfigMap"}:                                       "configmaps",
	{Version: "v1", Kind: "Service"}:                                         "services",
	{Version: "v1", Kind: "ServiceAccount"}:                                  "serviceaccounts",
	{Group: "apps", Version: "v1", Kind: "Deployment"}:                       "deployments",
	{Group: "apps", Version: "v1", Kind: "StatefulSet"}:                      "statefulsets",
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}:             "leases",
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}:       "networkpolicies",
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}:        "roles",
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}: "rolebindings",
}

// ParseManifests reads YAML documents, each one object. Empty documents are left out.
func ParseManifests(manifests ...[]byte) ([]Object, error) {
	var objects []Object
	for _, text := range manifests {
		d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			var o Object
			if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read manifest: %w", err)
			}
			if len(o.Object) == 0 {
				continue
			}
			if _, ok := appliable[o.GroupVersionKind()]; !ok || o.GetName() == "" {
				return nil, fmt.Errorf("read manifest: %s is none of the kinds that a run makes, or has no name", spell(&o))
			}
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// Mark labels an object, and the pods that it makes, as the run's.
func Mark(o *Object, run string) error {
	places := [][]string{{"metadata", "labels", RunLabel}}
	if _, ok, _ := unstructured.NestedMap(o.Object, "spec", "template"); ok {
		places = append(places, []string{"spec", "template", "metadata", "labels", RunLabel})
	}
	for _, place := range places {
		if err := unstructured.SetNestedField(o.Object, run, place...); err != nil {
			return fmt.Errorf("label %s: %w", spell(o), err)
		}
	}
	return nil
}

// spell names an object for a person.
func spell(o *Object) string { return strings.ToLower(o.GetKind()) + " " + o.GetName() }

// Found is what is known of an object that may be another's.
type Found struct {
	UID, Run string // Run: value of RunLabel, "" = it has none
	Ending   bool
}

// Find looks for the object of that kind and name in the namespace; ok is false where there is none.
func (c *Cluster) Find(ctx context.Context, apiVersion, kind, name string) (f Found, ok bool, err error) {
	api, err := c.api(apiVersion, kind)
	if err != nil {
		return f, false, err
	}
	o, err := api.Get(ctx, name, metav1.GetOptions{})
	if gone(err) {
		return f, false, nil
	}
	if err != nil {
		return f, false, fmt.Errorf("read %s %s: %w", strings.ToLower(kind), name, err)
	}
	return Found{UID: string(o.GetUID()), Run: o.GetLabels()[RunLabel], Ending: o.GetDeletionTimestamp() != nil}, true, nil
}

// Apply makes the object in the cluster's namespace by server-side apply, without force: a field that another manager owns is an error.
func (c *Cluster) Apply(ctx context.Context, o Object) error {
	api, err := c.api(o.GetAPIVersion(), o.GetKind())
	if err != nil {
		return err
	}
	o = *o.DeepCopy()
	o.SetNamespace(c.Namespace)
	if _, err := api.Apply(ctx, o.GetName(), &o, metav1.ApplyOptions{FieldManager: FieldManager}); err != nil {
		return fmt.Errorf("apply %s: %w", spell(&o), err)
	}
	return nil
}

// Remove asks for the end of the object with that UID, and of what it has made; it does not wait for it. An error wraps ErrGone or
// ErrAnother where that object is not there.
func (c *Cluster) Remove(ctx context.Context, apiVersion, kind, name, uid string) error {
	api, err := c.api(apiVersion, kind)
	if err != nil {
		return err
	}
	return remove(ctx, api, apiVersion, kind, name, uid)
}

func remove(ctx context.Context, api dynamic.ResourceInterface, apiVersion, kind, name, uid string) error {
	u, how := types.UID(uid), metav1.DeletePropagationBackground
	if strings.HasPrefix(apiVersion, "apps/") {
		how = metav1.DeletePropagationForeground // where the owner goes first, pods are made again meanwhile
	}
	err := api.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &u}, PropagationPolicy: &how})
	return deleted(strings.ToLower(kind)+" "+name, err)
}

// deleted is the answer to a delete of an object with a UID.
func deleted(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case gone(err):
		err = ErrGone
	case apierrors.IsConflict(err):
		err = ErrAnother
	}
	return fmt.Errorf("delete %s: %w", what, err)
}

// api is the generic API of a kind, in the namespace.
func (c *Cluster) api(apiVersion, kind string) (dynamic.ResourceInterface, error) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	resource, ok := appliable[gvk]
	if !ok {
		return nil, fmt.Errorf("%s %s is none of the kinds that a run makes", apiVersion, kind)
	}
	return c.objects.Resource(gvk.GroupVersion().WithResource(resource)).Namespace(c.Namespace), nil
}
