package experiments

import (
	"net"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// inPods reports whether the file has a kubernetes section, be it a wrong one.
func (c *checker) inPods() bool { return c.places["kubernetes"] != nil }

// pods checks where replicas are pods, and what else goes with that.
func (c *checker) pods() {
	e, k := c.e, c.e.Kubernetes
	c.leases()
	switch {
	case !c.inPods() && e.Observed():
		c.check("system.mode", "observe watches pods of somebody's: say where they are in a kubernetes section")
	case !c.inPods() && len(e.Limits.Namespaces) > 0:
		c.check("limits.namespaces", "is a cap on pods, and there is no kubernetes section")
	}
	for i, n := range e.Limits.Namespaces {
		if !dnsLabel.MatchString(n) {
			c.check(at("limits.namespaces", i), "%q is no name of a namespace", n)
		}
	}
	if k == nil {
		return
	}
	c.section(k)
	if e.System.Restart > 0 && c.places["system.restart"] != nil {
		c.check("system.restart", "is for processes: a pod is replaced by its controller, when that sees fit")
	}
	if e.System.Worker != nil {
		c.check("system.worker", "is a command that the runner starts on its own host: in a pod the image says what runs; leave it out")
	}
	switch e.System.Mode {
	case ModeEmbedded:
		c.workerPods(k)
	case ModeObserve:
		c.observed(k)
	}
}

// section checks the values of the section by themselves.
func (c *checker) section(k *Kubernetes) {
	if k.Namespace != "" && !dnsLabel.MatchString(k.Namespace) {
		c.check("kubernetes.namespace", "%q is no name of a namespace", k.Namespace)
	} else if k.Namespace != "" && !c.e.Limits.NamespaceAllowed(k.Namespace) {
		c.check("kubernetes.namespace", "%s is none of limits.namespaces", k.Namespace)
	}
	if k.Container != "" && !dnsLabel.MatchString(k.Container) {
		c.check("kubernetes.container", "%q is no name of a container", k.Container)
	}
	if k.Secret != "" && !dnsName.MatchString(k.Secret) {
		c.check("kubernetes.secret", "%q is no name of a Secret", k.Secret)
	}
	c.labels("kubernetes.selector", k.Selector)
	if k.Grace%time.Second != 0 {
		c.check("kubernetes.grace", "%s is not in whole seconds, and a pod's grace is", figures.Spell(k.Grace))
	}
	for _, f := range []struct{ name, value string }{{"redis", k.Redis}, {"ledger", k.Ledger}} {
		if f.value != "" && !hostPort(f.value) {
			c.check("kubernetes."+f.name, "%q is no address: write it like redis.staging.svc:6379", f.value)
		}
	}
	if k.Holder != nil {
		c.holder(k.Holder)
	}
}

func hostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, errPort := strconv.ParseUint(port, 10, 16)
	return err == nil && errPort == nil && host != "" && n > 0
}

// workerPods checks what lockdrill's own workers need in pods.
func (c *checker) workerPods(k *Kubernetes) {
	if k.Pods == PodsApply {
		if k.Image == "" {
			c.check("kubernetes.image", "missing: pods: apply makes workers of an image (make image builds one); pods: use takes those that are there")
		}
		if len(k.Selector) > 0 {
			c.check("kubernetes.selector", "is for pods: use; with apply the run labels its own pods, and knows them by that")
		}
	}
	if k.Holder != nil {
		c.check("kubernetes.holder", "is for mode observe: lockdrill's workers say which pod they are in")
	}
	if c.e.Redis.Mode != RedisExternal {
		c.check("redis", "workers in pods do not reach a store of the runner's own: mode external, with the url of a Redis that runner and pods reach (kubernetes.redis, where they reach it by another name)")
	}
	if c.e.Ledger.URL == "" {
		c.check("ledger", "missing: workers in pods need a ledger that they reach: ledger: {url: redis://host:6379}, on another server than the locks")
	}
}

// observed checks what can be asked of a system that is somebody's own.
func (c *checker) observed(k *Kubernetes) {
	e := c.e
	if k.Pods == PodsApply {
		c.check("kubernetes.pods", "apply makes workers of lockdrill's; an observed system is there: pods: use")
	}
	if len(k.Selector) == 0 {
		c.check("kubernetes.selector", "missing: the labels of the observed pods")
	}
	for _, f := range []struct {
		path, why string
		set       bool
	}{
		{"kubernetes.image", "is of lockdrill's workers: observed pods have their own", k.Image != ""},
		{"kubernetes.grace", "is of lockdrill's workers: observed pods declare their own", c.places["kubernetes.grace"] != nil},
		{"kubernetes.redis", "is for lockdrill's workers: nobody tells observed pods where their Redis is", k.Redis != ""},
		{"kubernetes.ledger", "is for lockdrill's workers: observed pods write to no ledger", k.Ledger != ""},
		{"ledger", "nobody writes to it: observed pods know of no ledger", e.Ledger.URL != ""},
		{"system.work", "nobody takes it: observed pods have work of their own", len(e.System.Work) > 0},
		{"system.policy_sheet", "makes locks of a Redis that lockdrill's workers take: write the observed locks out", c.places["system.policy_sheet"] != nil},
		{"time_scale", "observed pods run at their own pace: 1", e.TimeScale != 1},
		{"abort_when", "counts what lockdrill's workers report: observed pods report nothing", len(e.AbortWhen) > 0},
	} {
		if f.set {
			c.check(f.path, "%s", f.why)
		}
	}
	if c.places["system.policy_sheet"] == nil {
		c.observedLocks()
	}
}

// observedLocks checks that each lock can be looked at.
func (c *checker) observedLocks() {
	e, keys := c.e, 0
	for i := range e.System.Locks {
		l, path := &e.System.Locks[i], at("system.locks", i)
		if l.Lease == "" {
			keys++
		}
		switch {
		case c.touched(path):
		case !l.Loop() && e.EffectsOf(l.Name) == nil && len(e.System.Effects) == 0:
			c.check(path, "lock %s is taken per job, and nobody says where its jobs are read: system.effects", l.Name)
		case l.Lease == "" && e.Redis.Mode != RedisExternal:
			c.check(path, "lock %s is neither a lease (lease: the name of the object) nor in a Redis that can be looked at (redis: {mode: external, url: ...})", l.Name)
		}
	}
	if keys == 0 && e.Redis.Mode == RedisExternal && len(e.System.Locks) > 0 {
		c.check("redis", "every lock is a Lease object: no Redis is looked at")
	}
}

// leases checks locks that are Lease objects.
func (c *checker) leases() {
	leases := 0
	for i := range c.e.System.Locks {
		l, path := &c.e.System.Locks[i], at("system.locks", i)+".lease"
		switch {
		case l.Lease == "":
			continue
		case !dnsName.MatchString(l.Lease):
			c.check(path, "%q is no name of a Lease object", l.Lease)
		case c.e.System.Mode == ModeEmbedded:
			c.check(path, "is for mode observe: lockdrill's workers take their locks in the Redis")
		}
		leases++
	}
	switch p := c.e.Probes.Leases; {
	case c.places["probes.leases"] == nil:
	case leases == 0:
		c.check("probes.leases", "no lock is a Lease object")
	case p.Every < minLeaseEvery:
		c.check("probes.leases.every", "%s is under %s: each look is a request to the API server", figures.Spell(p.Every), figures.Spell(minLeaseEvery))
	}
}

// minLeaseEvery keeps the looks from becoming the API server's load.
const minLeaseEvery = 50 * time.Millisecond

// unseen says why a promise cannot be answered where nobody reports, or "".
func (c *checker) unseen(s *SLO) string {
	if !c.e.Observed() || s.Takeover != nil || s.Metric != nil || s.Logs != nil {
		return ""
	}
	return c.effectsAnswer(s)
}
