package drill

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// Cluster says which cluster is meant, as kubectl's flags of these names do. It wins over the file.
type Cluster struct {
	Kubeconfig, Context, Namespace string
}

// open reads the kubeconfig for an experiment whose replicas are pods, or whose locks are Lease objects, and writes into it which context and namespace that is, so that
// the run's own copy says so; nil = neither. It does not dial. A problem is a usage error.
func (c *Cluster) open(e *experiments.Experiment) (*kube.Cluster, error) {
	k := e.InCluster()
	if k == nil {
		if given := c.given(); given != "" {
			return nil, usagef("%s: %s is for experiments in a cluster: this one has no kubernetes section, and its locks are no Lease objects", e.Name, given)
		}
		return nil, nil
	}
	o := kube.Options{Kubeconfig: c.Kubeconfig, Context: k.Context, Namespace: k.Namespace, Also: k.Namespaces, Zones: zoned(e)}
	if c.Context != "" {
		o.Context = c.Context
	}
	if c.Namespace != "" {
		o.Namespace = c.Namespace
	}
	if slices.Contains(o.Also, o.Namespace) {
		return nil, usagef("%s: namespace %s is among kubernetes.namespaces already: name the first one", e.Name, o.Namespace)
	}
	cluster, err := kube.Open(o)
	if err != nil {
		return nil, usagef("%s: %w", e.Name, err)
	}
	k.Context, k.Namespace = cluster.Context, cluster.Namespace
	if e.Kubernetes == nil {
		e.Store.Context, e.Store.Namespace = cluster.Context, cluster.Namespace
	}
	return cluster, nil
}

// given names the first flag that was given.
func (c *Cluster) given() string {
	for _, f := range []struct{ name, value string }{{"--kubeconfig", c.Kubeconfig}, {"--context", c.Context}, {"--namespace", c.Namespace}} {
		if f.value != "" {
			return f.name
		}
	}
	return ""
}

// namespaceTargets names them for journals, by their UIDs: a context may be renamed, and "in-cluster" is every cluster's. Where a UID cannot
// be read no drill begins.
func namespaceTargets(ctx context.Context, k *experiments.Kubernetes, cluster *kube.Cluster) []string {
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	var all []string
	for _, one := range cluster.Each() {
		uid, err := one.NamespaceUID(ctx)
		if err != nil || uid == "" {
			return []string{k.Target()}
		}
		all = append(all, "kubernetes namespace "+one.Namespace+", UID "+uid)
	}
	return all
}

// drillPods are the pods that are there for the drill, and in its declared controller if it declares one.
func drillPods(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) ([]kube.Pod, error) {
	pods, err := cluster.Pods(ctx, podSelector(e), e.Kubernetes.Container)
	if owner := e.Kubernetes.Controller; owner != "" {
		pods = slices.DeleteFunc(pods, func(p kube.Pod) bool { return p.Owner != owner })
	}
	return pods, err
}

// zoned reports a fault that strikes pods by the zone of their node.
func zoned(e *experiments.Experiment) bool {
	return slices.ContainsFunc(e.Faults, func(f experiments.Fault) bool { return strings.Contains(f.Aim().Pods, fault.ZoneLabel+"=") })
}

// needs is what the drill does in its namespace.
func needs(e *experiments.Experiment) kube.Needs {
	if e.Kubernetes == nil {
		return kube.Needs{Namespace: e.InCluster().Namespace, Store: true}
	}
	n := kube.Needs{Namespace: e.Kubernetes.Namespace, Apply: e.Kubernetes.Pods == experiments.PodsApply, Logs: true, Events: e.Kubernetes.Events}
	n.Stateful = n.Apply && e.Kubernetes.Workers == experiments.WorkersStatefulSet
	n.Zones = zoned(e)
	n.Files = n.Apply && (e.Redis.CA != "" || e.Ledger.CA != "")
	for i := range e.Faults {
		t := e.Faults[i].Traits()
		n.Kill, n.Evict, n.Exec = n.Kill || t.DeletesPods, n.Evict || t.Evicts, n.Exec || len(t.Command) > 0
		n.Cut, n.Nodes = n.Cut || t.LabelsPods, n.Nodes || t.CordonsNode
		if t.Owner != "" && !slices.Contains(n.Restarts, t.Owner) {
			n.Restarts = append(n.Restarts, t.Owner)
		}
		n.Makes = append(n.Makes, makes(e, &e.Faults[i])...)
	}
	for i := range e.System.Locks {
		if in, name := kube.NamespaceIn(e.System.Locks[i].Lease); in == "" && name != "" && !slices.Contains(n.Leases, name) {
			n.Leases = append(n.Leases, name)
		}
	}
	return n
}

// needsIn is what the drill does in a namespace beside the first: it looks at its pods and strikes them, and makes nothing but what a fault
// needs.
func needsIn(e *experiments.Experiment, namespace string) kube.Needs {
	n := needs(e)
	n.Namespace, n.Restarts, n.Nodes, n.Zones, n.Leases, n.Makes = namespace, nil, false, false, nil, nil
	for i := range e.Faults {
		n.Makes = append(n.Makes, slices.DeleteFunc(makes(e, &e.Faults[i]), func(m kube.Made) bool { return m.Wide })...)
	}
	for i := range e.System.Locks {
		if in, name := kube.NamespaceIn(e.System.Locks[i].Lease); in == namespace && !slices.Contains(n.Leases, name) {
			n.Leases = append(n.Leases, name)
		}
	}
	return n
}

// makes is the object that a fault makes; none = it makes none. In which of the namespaces that is, its victim decides.
func makes(e *experiments.Experiment, f *experiments.Fault) []kube.Made {
	making, ok := f.Spec.(fault.Making)
	if !ok {
		return nil
	}
	o := making.Makes()
	h := o.Header()
	m := kube.Made{APIGroup: h.Group(), Resource: o.Called(), Name: h.Metadata.Name, Wide: h.Wide(e.Kubernetes.Allow)}
	if strings.Contains(m.Name, "${") {
		m.Name = ""
	}
	return []kube.Made{m}
}

// served asks the API server how it serves the kinds of objects that faults make. A problem is why the drill is refused.
func served(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) (problem string, err error) {
	for i := range e.Faults {
		making, ok := e.Faults[i].Spec.(fault.Making)
		if !ok {
			continue
		}
		o := making.Makes()
		h, at := o.Header(), "fault "+e.Faults[i].ID+": "
		k, known, err := cluster.Served(ctx, h.APIVersion, h.Kind)
		in := h.Metadata.Namespace
		switch {
		case err != nil:
			return "", err
		case !known:
			return at + "the API server knows no kind " + h.Kind + " of " + h.APIVersion + ": is what serves it installed there?", nil
		case k.APIVersion != h.APIVersion:
			return at + "the API server serves " + h.Kind + " as " + k.APIVersion + ", and not as " + h.APIVersion, nil
		case o.Resource != "" && o.Resource != k.Resource:
			return at + "the API server calls objects of kind " + h.Kind + " " + k.Resource + ", and the file " + o.Resource, nil
		case !k.Wide && h.Wide(e.Kubernetes.Allow):
			return at + "a " + h.Kind + " is in a namespace, and no guarded kind: take it out of kubernetes.allow", nil
		case k.Wide && !h.Wide(e.Kubernetes.Allow):
			return at + "a " + h.Kind + " is in no namespace, and may reach the whole cluster. If you mean it, say " + h.Lift(), nil
		case k.Wide && in != "":
			return at + "a " + h.Kind + " is in no namespace: leave metadata.namespace out", nil
		case in != "" && in != "${namespace}" && in != cluster.Namespace && !slices.Contains(e.Kubernetes.Namespaces, in):
			return at + "namespace " + in + " is none of the drill's", nil
		}
		o.Served = k.Resource
	}
	return "", nil
}

// elsewhere is how recover reaches the cluster of a record where it is not as the run reached it: on another machine. The namespace is
// always the record's.
func (c *Cluster) elsewhere(r undo.Record) (undo.Record, error) {
	if r.Cluster == nil {
		return r, nil
	}
	there := *r.Cluster
	if c.Kubeconfig != "" {
		path, err := filepath.Abs(c.Kubeconfig)
		if err != nil {
			return r, fmt.Errorf("find --kubeconfig: %w", err)
		}
		there.Kubeconfig = path
	}
	if c.Context != "" {
		there.Context = c.Context
	}
	r.Cluster = &there
	return r, nil
}

// recommendable makes of what is left what may be told to a person, who would undo it by the same kubeconfig: it names the one that the
// person has named, and a record with one that would do more than reach a cluster is refused, whatever else has kept it from being undone.
func (c *Cluster) recommendable(r *undo.Report) {
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Err == nil || o.Record.Cluster == nil {
			continue
		}
		there, err := c.elsewhere(o.Record)
		if err != nil {
			continue
		}
		o.Record = there
		w := there.Cluster
		if _, err := kube.Open(kube.Options{Kubeconfig: w.Kubeconfig, Context: w.Context, Namespace: w.Namespace, Unproven: c.Kubeconfig == ""}); errors.Is(err, kube.ErrUnproven) {
			o.Err = &undo.RefusedError{Why: err}
		}
	}
}

// hasStore reports whether a drill needs the locks' store. One that only watches Lease objects does not; nor does one of effects alone,
// unless it strikes that store or the way to it, or looks at one of its keys.
func hasStore(e *experiments.Experiment) bool {
	if !e.Observed() || slices.ContainsFunc(e.System.Locks, func(l experiments.Lock) bool { return l.Lease == "" }) {
		return true
	}
	return len(e.System.Locks) == 0 &&
		(slices.ContainsFunc(e.Faults, func(f experiments.Fault) bool { return f.Net() || f.Traits().AtStore }) ||
			slices.ContainsFunc(e.Probes.Metrics, func(m experiments.Metric) bool { return m.Scrape == experiments.ScrapeLocks }))
}

// Rules are the rules of a Role that permits what the drill does in its namespaces, and nothing more; summary is the ConfigMap that its
// runner writes afterwards, "" = none.
func Rules(e *experiments.Experiment, summary string) []kube.Rule {
	n := needs(e)
	n.Summary = summary
	rules := kube.RulesFor(n)
	for _, namespace := range e.InCluster().Namespaces {
		for _, r := range kube.RulesFor(needsIn(e, namespace)) {
			r.Namespace = namespace
			rules = append(rules, r)
		}
	}
	return rules
}

// Summary is a ConfigMap of the drill's namespace, for what came of the drill.
type Summary struct {
	cluster *kube.Cluster
	name    string
}

// OpenSummary does not dial. A problem is a usage error.
func OpenSummary(e *experiments.Experiment, c Cluster, name string) (*Summary, error) {
	cluster, err := c.open(e)
	if err == nil && cluster == nil {
		err = usagef("%s: --summary-configmap needs a cluster, and this experiment has no kubernetes section: --result-file and --junit need none", e.Name)
	}
	return &Summary{cluster, name}, err
}

// summaryWithin bounds writing it.
const summaryWithin = 10 * time.Second

// Write makes or replaces what the ConfigMap holds.
func (s *Summary) Write(data map[string]string) error {
	ctx, cancel := context.WithTimeout(context.Background(), summaryWithin)
	defer cancel()
	return s.cluster.WriteSummary(ctx, s.name, data)
}

// Mark adds to what the ConfigMap holds, until Write replaces it.
func (s *Summary) Mark(data map[string]string) error {
	ctx, cancel := context.WithTimeout(context.Background(), summaryWithin)
	defer cancel()
	return s.cluster.MarkSummary(ctx, s.name, data)
}

// Quiet keeps the clients of stores and clusters from writing to standard error themselves. It is for main.
func Quiet() {
	redisstore.Quiet()
	kube.Quiet()
}

// ownContexts leads replicas to their Lease objects by contexts of their own, if the file says so. Each must reach the namespace that the
// run has the turn of: what replicas did elsewhere would be neither seen nor removed.
func (s *pair) ownContexts(ctx context.Context) error {
	if !s.e.InObjects() || s.e.Store.ReplicasContext == "" {
		return nil
	}
	turn, _, err := s.cluster.Lease(ctx, kube.RunLease)
	if err != nil {
		return err
	}
	for _, replica := range s.e.ReplicaNames() {
		name := s.e.Store.ContextOf(replica)
		as, err := kube.Open(kube.Options{Kubeconfig: s.cluster.Kubeconfig, Context: name, Namespace: s.cluster.Namespace})
		if err != nil {
			return usagef("store.replicas_context: %w", err)
		}
		there, _, err := as.Lease(ctx, kube.RunLease)
		if err != nil {
			return &Error{verdict.ExitRefused, fmt.Errorf("refused: context %s of replica %s cannot read Leases in %s: %w", name, replica, s.cluster.Namespace, err)}
		}
		if there.UID != turn.UID {
			return &Error{verdict.ExitRefused, fmt.Errorf("refused: context %s of replica %s leads to another cluster than that of the run: %s", name, replica, as.Server())}
		}
	}
	s.tapped = func(replica string, e protocol.Endpoint) protocol.Endpoint {
		e.Context = s.e.Store.ContextOf(replica)
		return e
	}
	return nil
}
