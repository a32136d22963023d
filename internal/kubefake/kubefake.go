// Package kubefake shows client-go's typed fake client as a generic one, which is what internal/kube takes: a test says what it
// begins with, and reads what came of it, in Go types. It is for tests only.
package kubefake

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// Generic is the same cluster as client: its objects, its reactors.
func Generic(client *fake.Clientset) *dynamicfake.FakeDynamicClient {
	d := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme.Scheme, nil)
	d.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a, err := typed(a)
		if err != nil {
			return true, nil, err
		}
		o, err := client.Invokes(a, nil)
		return true, o, err // d converts it
	})
	d.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.InvokesWatch(a)
		if err != nil {
			return true, nil, err
		}
		return true, untyped(w), nil
	})
	return d
}

// typed is an action with its object in its Go type.
func typed(a clienttesting.Action) (clienttesting.Action, error) {
	var err error
	switch v := a.(type) {
	case clienttesting.CreateActionImpl:
		v.Object, err = typedObject(v.Object)
		return v, err
	case clienttesting.UpdateActionImpl:
		v.Object, err = typedObject(v.Object)
		return v, err
	}
	return a, nil
}

func typedObject(o runtime.Object) (runtime.Object, error) {
	t, err := scheme.Scheme.New(o.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	return t, scheme.Scheme.Convert(o, t, nil)
}

// untyped is a watch whose objects are generic; what is of no kind, like the Status of an error, stays as it is.
func untyped(from watch.Interface) watch.Interface {
	events := make(chan watch.Event)
	to := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer from.Stop()
		for {
			select {
			case e, open := <-from.ResultChan():
				if !open {
					return
				}
				if u := new(unstructured.Unstructured); e.Type != watch.Error && scheme.Scheme.Convert(e.Object, u, nil) == nil {
					e.Object = u
				}
				select {
				case events <- e:
				case <-to.StopChan():
					return
				}
			case <-to.StopChan():
				return
			}
		}
	}()
	return to
}
