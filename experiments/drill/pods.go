package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/probes"
)

// pods is what a drill has in a cluster. Exactly one of workers and observed is set once the pods are watched.
type pods struct {
	e        *experiments.Experiment
	cluster  *kube.Cluster
	version  string // of the API server
	stand    *testbed.PodStand
	workers  *testbed.PodFleet
	observed *testbed.ObservedFleet
	leases   *probes.Leases  // nil = no lock is a Lease object
	logs     *probes.PodLogs // nil = nobody reads logs
}

// standWithin bounds making what the drill stands on in the cluster, and removing it.
const standWithin = 30 * time.Second

// standPods takes the namespace's turn and, where the run makes its own workers, applies them.
func (d *Drill) standPods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, standWithin)
	defer cancel()
	d.pods = &pods{e: d.e, cluster: d.cluster}
	var err error
	if d.pods.version, err = d.cluster.Version(ctx); err != nil {
		return err
	}
	manifests, err := d.manifests()
	if err != nil {
		return err
	}
	d.pods.stand, err = testbed.ApplyPods(ctx, testbed.PodStandOptions{
		Cluster: d.cluster, Run: d.run, Experiment: d.e.Name, Folder: d.dir, Manifests: manifests, Journal: d.journal,
	})
	if held := new(testbed.HeldError); errors.As(err, &held) {
		return &Error{Refused, err}
	}
	return err
}

// manifests are those of the run's own workers; none where the pods are there.
func (d *Drill) manifests() ([][]byte, error) {
	if d.e.Kubernetes.Pods != experiments.PodsApply {
		return nil, nil
	}
	o, err := deploy.WorkersFor(d.e, d.fleetName())
	if err != nil {
		return nil, &Error{Usage, err}
	}
	o.Run, o.Files = d.run, map[string][]byte{}
	for name, path := range map[string]string{deploy.RedisCA: d.e.Redis.CA, deploy.LedgerCA: d.e.Ledger.CA} {
		if path == "" {
			continue
		}
		if o.Files[name], err = os.ReadFile(path); err != nil {
			return nil, usagef("%s: read the authority's certificate: %w", path, reason(err))
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

// watchPods begins to watch the pods and to listen to their workers. The runner ends it when it stops the fleet.
func (d *Drill) watchPods() (err error) {
	if d.pods == nil {
		return nil
	}
	o := testbed.PodsOptions{
		Cluster: d.cluster, Selector: d.selector(), Container: d.e.Kubernetes.Container, Clock: d.clock,
		OnEvent: func(e history.Event) { _, _ = d.rec.Record(e) }, // a failed recorder ends the run by itself
	}
	if named := d.e.Probes.Logs.Named(); len(named) > 0 {
		if d.pods.logs, err = probes.NewPodLogs(patternsOf(named), d.redact()); err != nil {
			return err
		}
		o.OnLine, o.OnCut = d.pods.logs.Line, d.pods.logs.Cut
	}
	if d.e.Observed() {
		d.observe(o)
		return nil
	}
	redis, err := d.stores.Ledger.Options()
	if err != nil {
		return fmt.Errorf("reach the ledger's store: %w", err)
	}
	d.pods.workers = testbed.NewPodFleet(testbed.PodFleetOptions{Pods: o, Redis: redis, Fleet: d.fleetName(), Wanted: d.wanted})
	return nil
}

// observe watches somebody's own pods, and lets their locks say who holds them.
func (d *Drill) observe(o testbed.PodsOptions) {
	k := d.e.Kubernetes
	fleet := testbed.NewObservedFleet(testbed.ObservedOptions{Pods: o, Holder: k.Holder, Wanted: d.wanted})
	d.pods.observed = fleet
	if d.keys != nil {
		d.keys.Name(probes.Names{Holder: fleet.HolderOf, Shown: k.Holder != nil})
	}
	leases := map[string]string{}
	for i := range d.e.System.Locks {
		if l := &d.e.System.Locks[i]; l.Lease != "" && leases[l.Lease] == "" {
			leases[l.Lease] = l.Name
		}
	}
	if len(leases) > 0 {
		d.pods.leases = probes.NewLeases(d.cluster, leases, fleet.HolderOf, d.clock)
	}
}

func patternsOf(named []experiments.LogPattern) map[string]string {
	all := map[string]string{}
	for _, p := range named {
		all[p.Name] = p.Pattern
	}
	return all
}

// redact takes the passwords that the experiment names out of a line of somebody's log.
func (d *Drill) redact() func(string) string {
	var pairs []string
	for _, name := range []string{d.e.Redis.PasswordEnv, d.e.Ledger.PasswordEnv} {
		if secret := os.Getenv(name); name != "" && secret != "" {
			pairs = append(pairs, secret, "***")
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

// logsEvery is how often what matched in the pods' logs is recorded: each line has its own time.
const logsEvery = 200 * time.Millisecond

// onPods adds what looks at pods, and the removal of what the run has made.
func (d *Drill) onPods(cfg *runner.Config) {
	if leases := d.pods.leases; leases != nil {
		cfg.Probes = append(cfg.Probes, runner.Sampled{
			Name: "leases", Source: "probe:leases", Probe: signing{leases, d.pods.observed, history.Ends{}}, ProbeSettings: d.e.Probes.Leases,
		})
		keys := cfg.Holder
		cfg.Holder = func(ctx context.Context, key string) (string, bool, error) {
			if !d.isLease(key) {
				return keys(ctx, key)
			}
			epoch, _, ok, err := leases.Holder(ctx, key)
			return epoch, ok, err
		}
	}
	if d.pods.logs != nil {
		cfg.Probes = append(cfg.Probes, runner.Sampled{
			Name: probes.LogsName, Source: "probe:logs", Probe: d.pods.logs, // not Live: workers that take long to stop are read until they have
			ProbeSettings: experiments.ProbeSettings{Every: logsEvery, MaxGap: d.e.Probes.Logs.MaxGap},
		})
	}
	cfg.Cleanup = append([]runner.Cleanup{{What: "pods", Do: d.closePods}}, cfg.Cleanup...)
}

// isLease says whether a key is the name of a Lease object.
func (d *Drill) isLease(key string) bool {
	return slices.ContainsFunc(d.e.System.Locks, func(l experiments.Lock) bool { return l.Lease != "" && l.Key == key })
}

// signing lets looks at locks be signs of their holders' lives: nobody else extends a lease.
type signing struct {
	runner.Probe
	lives interface {
		Sign(incarnation string, at int64)
		HolderOf(named string) string
	}
	ends history.Ends // looks are made one after the other
}

func (s signing) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	look, err := s.Probe.Look(ctx, final)
	if err != nil {
		return nil, err
	}
	return func(at history.Span) []history.Event {
		events := look(at)
		for _, e := range events {
			// Where another life has the same name by now, either may have extended it.
			if l := e.Look; l != nil && s.ends.Extended(e) && l.Prev != nil && l.Holder != "" && s.lives.HolderOf(l.Named) == l.Holder {
				s.lives.Sign(l.Holder, l.Prev.From)
			}
		}
		return events
	}, nil
}

// closePods removes what the run has made in the cluster, and gives the namespace back. It may be called again.
func (d *Drill) closePods(ctx context.Context) error {
	if d.pods == nil {
		return nil
	}
	if d.pods.leases != nil {
		d.pods.leases.Close()
	}
	if d.pods.stand == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), standWithin)
	defer cancel()
	d.notifyUnmade(ctx)
	return d.pods.stand.Close(ctx)
}

// unmadeWithin bounds asking for what is only told.
const unmadeWithin = time.Second

// notifyUnmade says, where the steady state was not reached, why the Deployment made no pods: of pods that are there the history tells what
// they wait for. The cluster's own word of it goes with the Deployment.
func (d *Drill) notifyUnmade(ctx context.Context) {
	steady := func(e history.Event) bool {
		return e.Kind == history.RunPhase && e.Phase.Holds != nil && *e.Phase.Holds
	}
	if d.e.Kubernetes.Pods != experiments.PodsApply || d.log == nil || slices.ContainsFunc(d.log.Since(0), steady) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, unmadeWithin)
	defer cancel()
	name := deploy.ObjectName(d.fleetName())
	if why, err := d.cluster.Unmade(ctx, name); err == nil && why != "" {
		d.o.Notify(fmt.Sprintf("lockdrill: deployment %s does not make its %s: %s", name, figures.Plural(d.e.System.Replicas, "pod"), why))
	}
}

// fleet is the one of the two that the drill has.
func (p *pods) fleet() runner.Fleet {
	if p.observed != nil {
		return p.observed
	}
	return p.workers
}

// kind is the word for it in run.environment.
func (p *pods) kind() string {
	if p.e.Observed() {
		return "observed"
	}
	return "pods"
}

// notice says whose pods are drilled, one line for a person.
func (p *pods) notice() string {
	where := fmt.Sprintf("%s (Kubernetes %s)", clusterTarget(p.e.Kubernetes), p.version)
	switch {
	case p.e.Observed():
		return "somebody's own pods in " + where
	case p.e.Kubernetes.Pods == experiments.PodsApply:
		return figures.Plural(p.e.System.Replicas, "worker") + " of this run's own in pods of " + where
	}
	return "workers that are there, in pods of " + where
}

// mayGoOn ends a run whose namespace is another run's by now.
func (p *pods) mayGoOn() (word, why string) {
	if err := p.stand.Held(); err != nil {
		return "target_lost", err.Error()
	}
	return "", ""
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

// ledgerAt is where a replica finds the ledger.
func (d *Drill) ledgerAt() protocol.Endpoint {
	e := d.stores.Ledger.Endpoint()
	if d.pods != nil {
		return fromPods(e, d.e.Kubernetes.Ledger, deploy.LedgerCA)
	}
	return e
}
