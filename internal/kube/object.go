package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/jsonpath"
)

// A fault may make one object of any kind, as its manifest says: such kinds are found by discovery, and each object bears the mark of the
// run. Apply and Remove go by a list of their own.

// Kind is a kind of objects, as the API server serves it.
type Kind struct {
	APIVersion, Kind string
	Resource         string // its word for them: networkchaos
	Wide             bool   // they are in no namespace
}

// Served finds a kind; ok is false where the API server serves none such, in that version or in another one of its group.
func (c *Cluster) Served(ctx context.Context, apiVersion, kind string) (k Kind, ok bool, err error) {
	k, ok, err = c.servedAs(ctx, apiVersion, kind)
	group, _, named := strings.Cut(apiVersion, "/")
	if err != nil || ok || !named {
		return k, ok, err
	}
	var versions metav1.APIGroup
	if there, err := c.discover(ctx, "/apis/"+group, &versions); err != nil || !there {
		return k, false, err
	}
	for _, v := range versions.Versions {
		if k, ok, err = c.servedAs(ctx, v.GroupVersion, kind); err != nil || ok {
			return k, ok, err
		}
	}
	return k, false, nil
}

// servedAs is Served of that very version.
func (c *Cluster) servedAs(ctx context.Context, apiVersion, kind string) (k Kind, ok bool, err error) {
	path := "/api/" + apiVersion
	if strings.Contains(apiVersion, "/") {
		path = "/apis/" + apiVersion
	}
	var all metav1.APIResourceList
	if there, err := c.discover(ctx, path, &all); err != nil || !there {
		return k, false, err
	}
	for _, r := range all.APIResources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			return Kind{apiVersion, kind, r.Name, !r.Namespaced}, true, nil
		}
	}
	return k, false, nil
}

// discover reads what the API server says of itself; there is false where it says nothing of that.
func (c *Cluster) discover(ctx context.Context, path string, into any) (there bool, err error) {
	if c.core == nil {
		return false, errNoConnection
	}
	body, err := c.core.Get().AbsPath(path).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return false, fmt.Errorf("ask the API server which kinds it serves (%s): %w", path, err)
	}
	return true, nil
}

// ObjectOf reads the manifest of one object.
func ObjectOf(manifest string) (o Object, err error) {
	if err = o.UnmarshalJSON([]byte(manifest)); err != nil {
		err = fmt.Errorf("read manifest: %w", err)
	}
	return o, err
}

// Create makes an object that was not there before: one of that name is an error that wraps ErrAnother. What it is then is returned.
func (c *Cluster) Create(ctx context.Context, k Kind, o Object) (Object, error) {
	made, err := c.of(k).Create(ctx, &o, metav1.CreateOptions{FieldManager: FieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		return o, fmt.Errorf("create %s: it is there already: %w", spell(&o), ErrAnother)
	case err != nil:
		return o, fmt.Errorf("create %s: %w", spell(&o), err)
	}
	return *made, nil
}

// Read reads one; ok is false where there is none of that name.
func (c *Cluster) Read(ctx context.Context, k Kind, name string) (o Object, ok bool, err error) {
	found, err := c.of(k).Get(ctx, name, metav1.GetOptions{})
	if gone(err) {
		return o, false, nil
	}
	if err != nil {
		return o, false, fmt.Errorf("read %s %s: %w", strings.ToLower(k.Kind), name, err)
	}
	return *found, true, nil
}

// Delete is Remove, of a kind that was discovered.
func (c *Cluster) Delete(ctx context.Context, k Kind, name, uid string) error {
	return remove(ctx, c.of(k), k.APIVersion, k.Kind, name, uid)
}

// of is the generic API of a kind.
func (c *Cluster) of(k Kind) dynamic.ResourceInterface {
	api := c.objects.Resource(schema.FromAPIVersionAndKind(k.APIVersion, k.Kind).GroupVersion().WithResource(k.Resource))
	if k.Wide {
		return api
	}
	return api.Namespace(c.Namespace)
}

// MarkOf is the run whose mark an object bears; "" = none.
func MarkOf(o Object) string { return o.GetLabels()[RunLabel] }

// Shown are the values that a JSONPath finds in an object, as kubectl prints them; none where it finds nothing.
func Shown(o Object, path string) ([]string, error) {
	p := jsonpath.New("confirm").AllowMissingKeys(true)
	if err := p.Parse(path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	found, err := p.FindResults(o.Object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []string
	for _, list := range found {
		for i := range list {
			var b bytes.Buffer
			if err := p.PrintResults(&b, list[i:i+1]); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if b.Len() > 0 {
				all = append(all, b.String())
			}
		}
	}
	return all, nil
}

// Name gives an object its name and, unless its kind is in none, its namespace.
func Name(o *Object, k Kind, name, namespace string) {
	o.SetName(name)
	if unstructured.RemoveNestedField(o.Object, "metadata", "namespace"); !k.Wide {
		o.SetNamespace(namespace)
	}
}
