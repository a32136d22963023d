package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// clusterFlags say which cluster is meant, as kubectl's flags of these names do. They win over the file.
type clusterFlags struct {
	kubeconfig, context, namespace string
}

func (c *clusterFlags) flags(flags *pflag.FlagSet) {
	c.where(flags)
	flags.StringVarP(&c.namespace, "namespace", "n", "", "of the pods (default: the file's, else that of the context)")
}

// where adds the flags that say how the cluster is reached.
func (c *clusterFlags) where(flags *pflag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "file that says how clusters are reached (default $KUBECONFIG, else ~/.kube/config, else the pod's service account)")
	flags.StringVar(&c.context, "context", "", "of the kubeconfig (default: the file's, else the current one)")
}

// open reads the kubeconfig for an experiment whose replicas are pods, and writes into it which context and namespace that is, so that
// the run's own copy says so; nil = its replicas are no pods. It does not dial. A problem is a usage error.
func (c *clusterFlags) open(e *experiments.Experiment) (*kube.Cluster, error) {
	k := e.Kubernetes
	if k == nil {
		if given := c.given(); given != "" {
			return nil, usagef("%s: %s is for experiments whose replicas are pods: this one has no kubernetes section", e.Name, given)
		}
		return nil, nil
	}
	o := kube.Options{Kubeconfig: c.kubeconfig, Context: k.Context, Namespace: k.Namespace}
	if c.context != "" {
		o.Context = c.context
	}
	if c.namespace != "" {
		o.Namespace = c.namespace
	}
	cluster, err := kube.Open(o)
	if err != nil {
		return nil, usagef("%s: %w", e.Name, err)
	}
	k.Context, k.Namespace = cluster.Context, cluster.Namespace
	return cluster, nil
}

// given names the first flag that was given.
func (c *clusterFlags) given() string {
	for _, f := range []struct{ name, value string }{{"--kubeconfig", c.kubeconfig}, {"--context", c.context}, {"--namespace", c.namespace}} {
		if f.value != "" {
			return f.name
		}
	}
	return ""
}

// clusterTarget names the namespace of a cluster that pods are in, for journals and guards.
func clusterTarget(k *experiments.Kubernetes) string {
	context := k.Context
	if context == "" {
		context = "in-cluster"
	}
	return "kubernetes " + context + "/" + k.Namespace
}

// needs is what the drill does in its namespace.
func needs(e *experiments.Experiment) kube.Needs {
	n := kube.Needs{Namespace: e.Kubernetes.Namespace, Apply: e.Kubernetes.Pods == experiments.PodsApply, Logs: true}
	n.Files = n.Apply && (e.Redis.CA != "" || e.Ledger.CA != "")
	for i := range e.Faults {
		if k := e.Faults[i].Kill; k != nil {
			n.Kill = n.Kill || k.Form != experiments.FormCrash
			n.Exec = n.Exec || len(k.Exec) > 0
		}
	}
	for i := range e.System.Locks {
		if name := e.System.Locks[i].Lease; name != "" && !slices.Contains(n.Leases, name) {
			n.Leases = append(n.Leases, name)
		}
	}
	return n
}

// elsewhere is how recover reaches the cluster of a record where it is not as the run reached it: on another machine. The namespace is
// always the record's.
func (c *clusterFlags) elsewhere(r undo.Record) (undo.Record, error) {
	if r.Cluster == nil {
		return r, nil
	}
	there := *r.Cluster
	if c.kubeconfig != "" {
		path, err := filepath.Abs(c.kubeconfig)
		if err != nil {
			return r, fmt.Errorf("find --kubeconfig: %w", err)
		}
		there.Kubeconfig = path
	}
	if c.context != "" {
		there.Context = c.context
	}
	r.Cluster = &there
	return r, nil
}

// hasStore reports whether a drill needs a store for its locks: one that only watches Lease objects does not.
func hasStore(e *experiments.Experiment) bool {
	return !e.Observed() || slices.ContainsFunc(e.System.Locks, func(l experiments.Lock) bool { return l.Lease == "" })
}
