package kube

import (
	"context"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Objects are read and written by client-go's generic client. Its typed ones, even that of a single kind, link the types of every kind
// that Kubernetes has: two fifths of the binary, and a third of what it takes to build it.

var errNoConnection = errors.New("this cluster has no connection")

func (c *Cluster) pods() dynamic.ResourceInterface {
	return c.objects.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(c.Namespace)
}

func (c *Cluster) leases() dynamic.ResourceInterface {
	return c.objects.Resource(coordinationv1.SchemeGroupVersion.WithResource("leases")).Namespace(c.Namespace)
}

// as is an answer of the generic client as a value of its Go type.
func as[T any](o runtime.Object, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	u, ok := o.(runtime.Unstructured)
	if !ok {
		return nil, apierrors.FromObject(o)
	}
	t := new(T)
	return t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), t)
}

// eachEvent calls on for each event of a watch until the watch breaks, which is the error, or ctx ends.
func eachEvent[T any](ctx context.Context, w watch.Interface, on func(watch.EventType, *T)) error {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-w.ResultChan():
			switch {
			case !open:
				return errors.New("the watch ended")
			case e.Type == watch.Error:
				return apierrors.FromObject(e.Object)
			}
			o, err := as[T](e.Object, nil)
			if err != nil {
				return err
			}
			on(e.Type, o)
		}
	}
}

// generic is o, which says its kind, as the generic client takes it.
func generic(o runtime.Object) *Object {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err) // no type of Kubernetes' API is such
	}
	return &unstructured.Unstructured{Object: fields}
}

// sub is a request about a part of a pod; container "" = its first.
func (c *Cluster) sub(q *rest.Request, pod, part, container string) *rest.Request {
	c, pod = c.at(pod)
	q = q.Namespace(c.Namespace).Resource("pods").Name(pod).SubResource(part)
	if container != "" {
		q = q.Param("container", container)
	}
	return q
}

// restClient is one client for the generic one and for what is no object.
func restClient(config *rest.Config) (rest.Interface, error) {
	config = dynamic.ConfigFor(config)
	config.AcceptContentTypes = "application/json, */*" // logs are text
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	return rest.RESTClientFor(config)
}
