package experiments

import (
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// inPods reports whether the file has a kubernetes section, be it a wrong one.
func (c *checker) inPods() bool { return c.Node("kubernetes") != nil }

// pods checks where replicas are pods, and what else goes with that.
func (c *checker) pods() {
	e, k := c.e, c.e.Kubernetes
	c.leases()
	if !c.inPods() && !e.InObjects() && len(e.Limits.Namespaces) > 0 {
		c.Check("limits.namespaces", "is a cap on a cluster, and the run works in none: there is no kubernetes section")
	}
	if k == nil {
		return
	}
	c.section(k)
	if e.System.Restart > 0 && c.Node("system.restart") != nil {
		c.Check("system.restart", "is for processes: a pod is replaced by its controller, when that sees fit")
	}
	if e.System.Worker != nil {
		c.Check("system.worker", "is a command that the runner starts on its own host: in a pod the image says what runs; leave it out")
	}
	if e.System.Mode == ModeEmbedded {
		c.workerPods(k)
	}
}

// section checks the values of the section together.
func (c *checker) section(k *Kubernetes) {
	if k.Namespace != "" && noNamespace(nil, k.Namespace, "") == "" && !c.e.Limits.NamespaceAllowed(k.Namespace) {
		c.Check("kubernetes.namespace", "%s is none of limits.namespaces", k.Namespace)
	}
	c.furtherNamespaces(k)
	c.labels("kubernetes.selector", k.Selector)
	if k.Grace%time.Second != 0 {
		c.Check("kubernetes.grace", "%s is not in whole seconds, and a pod's grace is", figures.Spell(k.Grace))
	}
	if k.Holder != nil {
		c.holder(k.Holder)
	}
}

// furtherNamespaces checks those beside the one of kubernetes.namespace.
func (c *checker) furtherNamespaces(k *Kubernetes) {
	for i, n := range k.Namespaces {
		switch path := vocab.At("kubernetes.namespaces", i); {
		case n == k.Namespace || slices.Contains(k.Namespaces[:i], n):
			c.Check(path, "%s is there twice", n)
		case noNamespace(nil, n, "") == "" && !c.e.Limits.NamespaceAllowed(n):
			c.Check(path, "%s is none of limits.namespaces", n)
		}
	}
	if len(k.Namespaces) == 0 {
		return
	}
	for i := range c.e.Faults {
		if f := &c.e.Faults[i]; f.Spec != nil && f.Traits().Owner != "" {
			c.Check(vocab.At("faults", i)+"."+f.Kind()+".rollout", "is for pods of one namespace: leave it out, and the run restarts them one by one")
		}
	}
}

// workerPods checks what lockdrill's own workers need in pods.
func (c *checker) workerPods(k *Kubernetes) {
	if k.Pods == PodsApply {
		if k.Image == "" {
			c.Check("kubernetes.image", "missing: pods: apply makes workers of an image (make image builds one); pods: use takes those that are there")
		}
		if k.Controller != "" {
			c.Check("kubernetes.controller", "is for pods: use; with apply the run makes the controller, and knows its pods by a label of its own")
		}
		if len(k.Selector) > 0 {
			c.Check("kubernetes.selector", "is for pods: use; with apply the run labels its own pods, and knows them by that")
		}
	}
	for i := range c.e.Faults {
		if f := &c.e.Faults[i]; k.Pods == PodsApply && f.Traits().Owner != "" {
			c.Check(vocab.At("faults", i)+"."+f.Kind()+".rollout", "is for pods that are there (pods: use): leave it out, and the run restarts its own workers one by one")
		}
	}
	if c.e.Redis.Mode != RedisExternal {
		c.Check("redis", "workers in pods do not reach a store of the runner's own: mode external, with the url of a Redis that runner and pods reach (kubernetes.redis, where they reach it by another name)")
	}
	if c.e.Ledger.URL == "" {
		c.Check("ledger", "missing: workers in pods need a ledger that they reach: ledger: {url: redis://host:6379}, on another server than the locks")
	}
}

// leases checks locks that are Lease objects.
func (c *checker) leases() {
	leases := 0
	for i := range c.e.System.Locks {
		l, path := &c.e.System.Locks[i], vocab.At("system.locks", i)+".lease"
		switch {
		case l.Lease == "":
			continue
		case !c.isLease(l.Lease):
			c.Check(path, "%q is no name of a Lease object; one of kubernetes.namespaces is called NAMESPACE/NAME", l.Lease)
		case c.e.System.Mode == ModeEmbedded:
			c.Check(path, "is for mode observe: lockdrill's workers take their locks in the Redis")
		}
		leases++
	}
	switch p := c.e.Probes.Leases; {
	case c.Node("probes.leases") == nil:
	case leases == 0:
		c.Check("probes.leases", "no lock is a Lease object")
	case p.Every < minLeaseEvery:
		c.Check("probes.leases.every", "%s is under %s: each look is a request to the API server", figures.Spell(p.Every), figures.Spell(minLeaseEvery))
	}
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
