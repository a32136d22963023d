package experiments

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/jsonpath"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// inPods reports whether the file has a kubernetes section, be it a wrong one.
func (c *checker) inPods() bool { return c.Node("kubernetes") != nil }

// pods checks where replicas are pods, and what else goes with that.
func (c *checker) pods() {
	e, k := c.e, c.e.Kubernetes
	c.leases()
	c.Refuse(!c.inPods() && !e.InObjects() && len(e.Limits.Namespaces) > 0, "limits.namespaces", "is a cap on a cluster, and the run works in none: there is no kubernetes section")
	if k == nil {
		return
	}
	c.section(k)
	c.Refuse(e.System.Restart > 0 && c.Node("system.restart") != nil, "system.restart", "is for processes: a pod is replaced by its controller, when that sees fit")
	c.Refuse(e.System.Worker != nil, "system.worker", "is a command that the runner starts on its own host: in a pod the image says what runs; leave it out")
	if e.System.Mode == ModeEmbedded {
		c.workerPods(k)
	}
}

// makes checks where an object is made, and what shows it.
func (c *checker) makes(path string, o *fault.Object, k *Kubernetes) {
	if err := jsonpath.New("confirm").Parse(o.Confirm); err != nil || !strings.Contains(o.Confirm, "{") {
		c.Check(path+".confirm", "%q is no JSONPath: write it like {.status.phase}", o.Confirm)
	}
	if why := unservable(o); c.Refuse(!c.Stored && why != "", path+".manifest", "%s", why) {
		return
	}
	if in := o.Header().Metadata.Namespace; in != "" && k.Namespace != "" && in != "${namespace}" && in != k.Namespace && !slices.Contains(k.Namespaces, in) {
		c.Check(path+".manifest", "namespace %s is none of the drill's: an object is made in kubernetes.namespace, or in one of kubernetes.namespaces", in)
	}
}

var (
	apiVersion = vocab.Matching(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`, "apiVersion %q is none of an API server: write it like v1, apps/v1 or chaos-mesh.org/v1alpha1")
	kindOf     = vocab.Matching(`^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$`, "kind %q is none of an API server: letters, digits and dashes, such as NetworkChaos")
	objectName = vocab.Matching(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$`, "metadata.name %q is no name of an object: small letters, digits, dots and dashes, at most 253")
	rightsName = vocab.Matching(`^(|\.{3,}|[^/%]*[^./%][^/%]*)$`, "metadata.name %q is no name of an object: without slashes and percent signs")
)

// unservable says why no API server takes an object, whatever it knows; "" = one may.
func unservable(o *fault.Object) string {
	known := map[string]string{}
	for _, word := range fault.Stands {
		known[word] = "x"
	}
	filled := fault.Object{Manifest: vocab.JSON(o.Fill(known))}
	h := filled.Header()
	m := &h.Metadata
	if h.APIVersion == "" || h.Kind == "" || strings.Contains(m.Name, "${") {
		return "" // which is said of it as a manifest
	}
	name := objectName
	if h.Group() == "rbac.authorization.k8s.io" {
		name = rightsName
	}
	why := cmp.Or(apiVersion(nil, h.APIVersion, ""), kindOf(nil, h.Kind, ""), name(nil, m.Name, ""))
	if m.Namespace != "" {
		why = cmp.Or(why, noNamespace(nil, m.Namespace, ""))
	}
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		why = cmp.Or(why, labelled(nil, key, m.Labels[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) {
		why = cmp.Or(why, annotationKey(nil, strings.ToLower(key), ""))
	}
	return why
}

// section checks the values of the section together.
func (c *checker) section(k *Kubernetes) {
	allowed := func(n string) bool {
		return noNamespace(nil, n, "") != "" || c.Invalid("limits.namespaces") || c.e.Limits.NamespaceAllowed(n)
	}
	c.Refuse(k.Namespace != "" && !allowed(k.Namespace), "kubernetes.namespace", "%s is none of limits.namespaces", k.Namespace)
	for i, n := range k.Namespaces {
		path := vocab.At("kubernetes.namespaces", i)
		_ = c.Refuse(n == k.Namespace, path, "%s is there twice", n) || c.Refuse(!allowed(n), path, "%s is none of limits.namespaces", n)
	}
	c.Refuse(k.Grace%time.Second != 0, "kubernetes.grace", "%s is not in whole seconds, and a pod's grace is", figures.Spell(k.Grace))
	if h := k.Holder; h != nil {
		c.Refuse(h.Name != "" && h.Label+h.Annotation == "" && strings.Count(h.Name, podInName) != 1, "kubernetes.holder.name", "%q does not say where the pod's name stands: write it like \"{pod}_*\"", h.Name)
	}
}

// workerPods checks what lockdrill's own workers need in pods.
func (c *checker) workerPods(k *Kubernetes) {
	made := k.Pods == PodsApply
	c.Refuse(made && k.Image == "", "kubernetes.image", "missing: pods: apply makes workers of an image (make image builds one); pods: use takes those that are there")
	c.Refuse(made && k.Controller != "", "kubernetes.controller", "is for pods: use; with apply the run makes the controller, and knows its pods by a label of its own")
	c.Refuse(made && len(k.Selector) > 0, "kubernetes.selector", "is for pods: use; with apply the run labels its own pods, and knows them by that")
	c.Refuse(c.e.Redis.Mode != RedisExternal, "redis", "workers in pods do not reach a store of the runner's own: mode external, with the url of a Redis that runner and pods reach (kubernetes.redis, where they reach it by another name)")
	c.Refuse(c.e.Ledger.URL == "", "ledger", "missing: workers in pods need a ledger that they reach: ledger: {url: redis://host:6379}, on another server than the locks")
}

// leases checks locks that are Lease objects.
func (c *checker) leases() {
	leases := 0
	for path, l := range entries("system.locks", c.e.System.Locks) {
		if l.Lease == "" {
			continue
		}
		leases++
		_ = c.Refuse(!c.isLease(l.Lease), path+".lease", "%q is no name of a Lease object; one of kubernetes.namespaces is called NAMESPACE/NAME", l.Lease) ||
			c.Refuse(c.e.System.Mode == ModeEmbedded, path+".lease", "is for mode observe: lockdrill's workers take their locks in the Redis")
	}
	every := c.e.Probes.Leases.Every
	_ = c.Node("probes.leases") == nil || !c.sure("system.locks") || c.Refuse(leases == 0, "probes.leases", "no lock is a Lease object") ||
		c.Refuse(every < minLeaseEvery, "probes.leases.every", "%s is under %s: each look is a request to the API server", figures.Spell(every), figures.Spell(minLeaseEvery))
}

// isLease reports a name of a Lease object in one of the namespaces.
func (c *checker) isLease(name string) bool {
	if namespace, bare, other := strings.Cut(name, "/"); other {
		return c.e.Kubernetes != nil && slices.Contains(c.e.Kubernetes.Namespaces, namespace) && dnsName().MatchString(bare)
	}
	return dnsName().MatchString(name)
}

// minLeaseEvery keeps the looks from becoming the API server's load.
const minLeaseEvery = 50 * time.Millisecond
