package kube

import (
	"context"
	"strings"
	"sync"
)

// A drill may have pods in several namespaces. One outside of the cluster's own is called NAMESPACE/NAME: by Pods and WatchPods, by
// whoever asks for it, and in histories. So are Lease objects.

// Each is the cluster's namespaces, each alone: its own, and then those beside it.
func (c *Cluster) Each() []*Cluster {
	all := []*Cluster{c.In(c.Namespace)}
	for _, name := range c.Also {
		all = append(all, c.In(name))
	}
	return all
}

// In is a namespace of the same cluster, alone.
func (c *Cluster) In(namespace string) *Cluster {
	other := *c
	other.Namespace, other.Also = namespace, nil
	return &other
}

// at is the namespace that a name leads to, and the name there.
func (c *Cluster) at(name string) (*Cluster, string) {
	if namespace, bare, other := strings.Cut(name, "/"); other {
		return c.In(namespace), bare
	}
	return c, name
}

// called is what an object of the namespace of is called here.
func (c *Cluster) called(of *Cluster, name string) string {
	if of.Namespace == c.Namespace {
		return name
	}
	return of.Namespace + "/" + name
}

// NamespaceIn is the namespace that a name says, "" = the cluster's own, and the name there.
func NamespaceIn(name string) (namespace, bare string) {
	if namespace, bare, other := strings.Cut(name, "/"); other {
		return namespace, bare
	}
	return "", name
}

// Bare is the name of a pod as it calls itself, without its namespace.
func Bare(name string) string {
	_, bare := NamespaceIn(name)
	return bare
}

// watchEach watches several namespaces as if they were one: the list is whole when each one's is, and broken from when the first one's is.
func (c *Cluster) watchEach(ctx context.Context, selector map[string]string, container string, on func(Change), heard func(error)) {
	var mu sync.Mutex
	var work sync.WaitGroup
	each, standing := c.Each(), map[*Cluster]bool{}
	for _, one := range each {
		work.Go(func() {
			one.WatchPods(ctx, selector, container, func(k Change) {
				k.Pod.Name = c.called(one, k.Pod.Name)
				mu.Lock()
				defer mu.Unlock()
				on(k)
			}, func(broken error) {
				mu.Lock()
				defer mu.Unlock()
				was := len(standing) == len(each)
				if delete(standing, one); broken == nil {
					standing[one] = true
				}
				switch is := len(standing) == len(each); {
				case is && !was:
					heard(nil)
				case was && !is:
					heard(broken)
				}
			})
		})
	}
	work.Wait()
}
