package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/lease"
)

// namespaceWithin bounds making what the drill stands on in the cluster, and removing it.
const namespaceWithin = 30 * time.Second

// openNamespace takes the namespace's turn and, where the run makes its own workers, applies them.
func (d *Drill) openNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, namespaceWithin)
	defer cancel()
	version, err := d.cluster.Version(ctx)
	if err != nil {
		return err
	}
	manifests, err := d.manifests()
	if err != nil {
		return err
	}
	for _, one := range d.cluster.Each() {
		if err := d.takeNamespace(ctx, one, manifests); err != nil {
			return err
		}
	}
	d.env.Cluster = version
	d.notices = append(d.notices, fmt.Sprintf("%s %s (Kubernetes %s)", whosePods(d.e), d.e.Kubernetes.Target(), version))
	if d.owners, err = controllersOf(ctx, d.e, d.cluster); err != nil {
		return err
	}
	d.strikes.Pods, d.strikes.Container = d.cluster, d.e.Kubernetes.Container
	d.strikes.Cluster = func(_ context.Context, r undo.Record) (injectors.Network, error) {
		return d.cluster.In(r.Cluster.Namespace), nil
	}
	homes := map[string]undo.Cluster{}
	for i, one := range d.cluster.Each() {
		home := testbed.NamespaceOf(ctx, one, d.run)
		if homes[one.Namespace] = home; i == 0 {
			homes[""] = home
		}
	}
	d.strikes.Home = func(namespace string) undo.Cluster { return homes[namespace] }
	d.strikes.APIProxy = d.e.Kubernetes.APIProxy
	return nil
}

// leasesOf is what the keys of locks begin with that are Lease objects of the run; "" = none are.
func (d *Drill) leasesOf() string {
	if !d.e.InObjects() {
		return ""
	}
	return lease.PrefixOf(d.run)
}

// takeNamespace takes the turn of one namespace, and applies manifests in the first.
func (d *Drill) takeNamespace(ctx context.Context, one *kube.Cluster, manifests [][]byte) error {
	first := one.Namespace == d.cluster.Namespace
	if !first {
		manifests = nil
	}
	stand, err := testbed.ApplyPods(ctx, testbed.PodStandOptions{
		Cluster: one, Run: d.run, Folder: d.dir, Manifests: manifests, Leases: d.leasesOf(), Journal: d.journal,
	})
	if held := new(stores.HeldError); errors.As(err, &held) {
		return &Error{verdict.ExitRefused, err}
	} else if err != nil {
		return err
	}
	d.cfg.Cleanup = append([]runner.Cleanup{{What: "pods", Do: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), namespaceWithin)
		defer cancel()
		if first && d.e.Kubernetes != nil {
			d.notifyUnmade(ctx)
		}
		return stand.Close(ctx)
	}}}, d.cfg.Cleanup...)
	d.guards = append(d.guards, func() (word, why string) {
		if err := stand.Held(); err != nil {
			return history.AbortTargetLost, err.Error()
		}
		return "", ""
	})
	return nil
}

// controllersOf are the controllers of the pods that are there, by namespace, which no kill strikes outside of; nil = the run makes its own.
// That there is one alone in each the guard has seen, and it is asked again here: what was deployed since is found out.
func controllersOf(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) (map[string]string, error) {
	if e.Kubernetes.Pods == experiments.PodsApply {
		return nil, nil
	}
	owners := map[string]string{}
	if e.Kubernetes.Controller != "" {
		for _, in := range append([]string{""}, e.Kubernetes.Namespaces...) {
			owners[in] = e.Kubernetes.Controller
		}
		return owners, nil
	}
	pods, err := drillPods(ctx, e, cluster)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Over() {
			continue
		}
		in, _ := kube.NamespaceIn(pods[i].Name)
		if owner, seen := owners[in]; seen && owner != pods[i].Owner {
			return nil, &Error{verdict.ExitRefused, fmt.Errorf("%s: refused: pod %s is of another controller than the rest: %q, not %q", e.Name, pods[i].Name, pods[i].Owner, owner)}
		}
		owners[in] = pods[i].Owner
	}
	return owners, nil
}

// whosePods says whose pods are drilled, up to the words that say where.
func whosePods(e *experiments.Experiment) string {
	switch {
	case e.Observed():
		return "somebody's own pods in"
	case e.Kubernetes.Pods == experiments.PodsApply:
		return figures.Plural(e.System.Replicas, "worker") + " of this run's own in pods of"
	}
	return "workers that are there, in pods of"
}

// Authority reads the certificates of a file that is put into pods.
func Authority(path string) ([]byte, error) {
	data, err := regular.Read(path)
	if err == nil {
		data, err = deploy.Certificates(data)
	}
	if err != nil {
		return nil, usagef("%s: read the authority's certificate: %w", path, reason(err))
	}
	return data, nil
}

// manifests are those of the run's own workers; none where the pods are there.
func (d *Drill) manifests() ([][]byte, error) {
	if d.e.Kubernetes.Pods != experiments.PodsApply {
		return nil, nil
	}
	o, err := deploy.WorkersFor(d.e, d.fleetName())
	if err != nil {
		return nil, &Error{verdict.ExitUsage, err}
	}
	o.Run, o.Files = d.run, map[string][]byte{}
	for name, path := range map[string]string{deploy.RedisCA: d.e.Redis.CA, deploy.LedgerCA: d.e.Ledger.CA} {
		if path == "" {
			continue
		}
		if o.Files[name], err = Authority(path); err != nil {
			return nil, err
		}
	}
	o.CA = inPods(d.e.Ledger.CA, deploy.LedgerCA)
	return deploy.Workers(o)
}

// fleetName is what the workers join: the run that applies them, or the experiment that they were exported from.
func (d *Drill) fleetName() string {
	if d.e.Kubernetes.Pods == experiments.PodsApply {
		return d.run
	}
	return d.e.Name
}

// selector are the labels of the drill's pods. Pods that the run has applied have its own as well: one without it is not the run's to strike.
func (d *Drill) selector() map[string]string {
	if d.e.Kubernetes.Pods == experiments.PodsApply {
		labels := deploy.WorkerLabels(d.fleetName())
		labels[kube.RunLabel] = kube.RunValue(d.run)
		return labels
	}
	return podSelector(d.e)
}

// podSelector are the labels of the pods of a drill that uses what is there.
func podSelector(e *experiments.Experiment) map[string]string {
	if s := e.Kubernetes.Selector; len(s) > 0 {
		return s
	}
	return deploy.WorkerLabels(e.Name)
}

// openWorkers has workers in pods for replicas. The runner ends the watch of them when it stops the fleet.
func (s *pair) openWorkers(context.Context) error {
	redis, err := s.Ledger.Options()
	if err != nil {
		return fmt.Errorf("reach the ledger's store: %w", err)
	}
	s.env.Fleet = history.FleetPods
	var fleet *testbed.PodFleet // watched from the history's beginning on: injectors, which are made before, strike after it
	s.strikes.Send = func(incarnation string, c protocol.Command) error { return fleet.Send(incarnation, c) }
	s.begin = append(s.begin, func() error {
		o, err := s.watched()
		if err != nil {
			return err
		}
		fleet = testbed.NewPodFleet(testbed.PodFleetOptions{Pods: o, Redis: redis, Fleet: s.fleetName(), Replicas: s.e.System.Replicas, Wanted: s.wanted})
		s.cfg.Fleet = fleet
		return nil
	})
	return nil
}

// watched says which pods are watched, and reads their logs if a promise is about them.
func (d *Drill) watched() (testbed.PodsOptions, error) {
	o := testbed.PodsOptions{
		Cluster: d.cluster, Selector: d.selector(), Container: d.e.Kubernetes.Container, Clock: d.clock,
		OnEvent: func(e history.Event) { _ = d.record(e) }, // a failed recorder ends the run by itself
	}
	o.Owners = d.owners
	d.hearPods(&o)
	return o, nil
}

// unmadeWithin bounds asking for what is only told.
const unmadeWithin = time.Second

// notifyUnmade says, where the steady state was not reached, why no pods were made: of pods that are there the history tells what they
// wait for. The cluster's own word of it goes with the Deployment or StatefulSet.
func (d *Drill) notifyUnmade(ctx context.Context) {
	steady := func(e history.Event) bool {
		return e.Kind == history.RunPhase && e.Phase.Holds != nil && *e.Phase.Holds
	}
	if d.e.Kubernetes.Pods != experiments.PodsApply || d.log == nil || d.log.Any(0, steady) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, unmadeWithin)
	defer cancel()
	kind, name := "Deployment", deploy.ObjectName(d.fleetName())
	if d.e.Kubernetes.Workers == experiments.WorkersStatefulSet {
		kind = "StatefulSet"
	}
	if why, err := d.cluster.Unmade(ctx, kind, name); err == nil && why != "" {
		d.o.Notify(fmt.Sprintf("lockdrill: %s %s does not make its %s: %s", strings.ToLower(kind), name, figures.Plural(d.e.System.Replicas, "pod"), why))
	}
}

// asPods is how pods see the stores: by addresses of their own, and with the authorities of the certificates where the manifests put
// them.
func asPods(k *experiments.Kubernetes) endpoints {
	return endpoints{
		locks:  func(e protocol.Endpoint) protocol.Endpoint { return fromPods(e, k.Redis, deploy.RedisCA) },
		ledger: func(e protocol.Endpoint) protocol.Endpoint { return fromPods(e, k.Ledger, deploy.LedgerCA) },
	}
}

// inPods is where a pod finds a file that the runner has at path.
func inPods(path, name string) string {
	if path == "" {
		return ""
	}
	return deploy.FilesDir + "/" + name
}

// fromPods is an endpoint as pods reach it: by an address of its own, and with the authority of its certificate where the manifests
// put it.
func fromPods(e protocol.Endpoint, hostPort, ca string) protocol.Endpoint {
	if hostPort != "" {
		e.Addr = hostPort
	}
	if host, _, err := net.SplitHostPort(e.Addr); err == nil && e.TLS {
		e.ServerName = host
	}
	e.CA = inPods(e.CA, ca)
	return e
}
