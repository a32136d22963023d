package experiments

import (
	"cmp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

func (c *checker) faults() {
	for path, f := range entries("faults", c.e.Faults) {
		kinds := slices.DeleteFunc(fault.Kinds(), func(word string) bool { n := c.Node(path + "." + word); return n == nil || vocab.Null(n) })
		if c.Refuse(len(kinds) == 0, path, "does nothing: a fault has one of %s", strings.Join(fault.Kinds(), ", ")) ||
			c.Refuse(len(kinds) > 1, path, "has %s: a fault has exactly one kind", strings.Join(kinds, " and ")) {
			continue
		}
		t, last := f.Traits(), c.e.Observed() && c.e.System.Replicas == 1 && !c.e.Limits.LastReplica
		c.Refuse(last && (t.Kills || t.Rolls || t.InVictim && t.Stands > 0), path, "strikes the only replica that there is, and nobody would be left: say limits: {last_replica: true} where that is meant")
		if of, making := f.Spec.(fault.Making); making && c.e.Kubernetes != nil {
			c.makes(path+"."+f.Kind(), of.Makes(), c.e.Kubernetes)
		}
		c.fault(path, f)
		if c.sure(path) {
			c.answered(path+".repeat", f)
		}
		c.Refuse(f.Repeat.Every > 0 && f.Repeat.Every < f.For, path+".repeat.every", "%s is under for %s: the fault would overlap itself", figures.Spell(f.Repeat.Every), figures.Spell(f.For))
	}
}

// faultless reports a file that declares no fault: it is not that one was lost to another problem.
func (c *checker) faultless() bool {
	n := c.Node("faults")
	return len(c.e.Faults) == 0 && !c.Invalid("faults") && (n == nil || n.Kind == yaml.SequenceNode)
}

// fault checks one fault of one kind: whether it can be done at all, how long it lasts, and what is particular to the kind.
func (c *checker) fault(path string, f *Fault) {
	section, t := section{c, path + "." + f.Kind(), f}, f.Traits()
	if !c.sure("redis", "proxy", "kubernetes", "store", "system.work") {
		return
	}
	if why := cmp.Or(fault.Of(f.Spec).Unsupported(section.Around()), c.outsideRedis(f)); c.Refuse(why != "", section.path, "%s", why) {
		return
	}
	_ = c.Refuse(f.For == 0 && t.GoesOn != "" && c.sure(section.path), path+".for", "missing: %s", t.GoesOn) ||
		c.Refuse(f.For != 0 && t.Instant != "" && c.sure(section.path), path+".for", "%s is an instant: it has no duration", t.Instant)
	c.several(section.path, f)
	if n, at := c.e.System.Replicas, path+".repeat"; f.eachInTurn() && !c.Invalid(at) {
		c.Refuse(n > 0 && f.Repeat.Count%max(1, n) != 0, at+".count", "%d is no multiple of the %d replicas: each shot restarts one of them; leave repeat out to restart each once", f.Repeat.Count, n)
		c.Refuse(!f.Repeat.Settled, at+".every", "a rolling restart goes on when all replicas are ready again: leave every out; pause waits for longer")
	}
	if runs, is := f.Spec.(fault.Commanding); is { // their words stand in the journal and in the history
		for word, words := range runs.Runs().Lists() {
			secret := slices.ContainsFunc(words, func(w string) bool { return vocab.Redact(w) != w })
			c.Refuse(secret, section.at(word), "has what looks like a secret, and is written down with the run: let the command take it from its environment")
		}
	}
	if k := c.e.Kubernetes; k != nil && t.Owner != "" {
		_ = c.Refuse(len(k.Namespaces) > 0, section.at("rollout"), "is for pods of one namespace: leave it out, and the run restarts them one by one") ||
			c.Refuse(k.Pods == PodsApply && !c.e.Observed(), section.at("rollout"), "is for pods that are there (pods: use): leave it out, and the run restarts its own workers one by one")
	}
	if c.sure(section.path) {
		fault.Of(f.Spec).Check(section)
	}
}

// answered checks a fault that repeats until the percentiles of its lock are answered: it is known while the run goes on of kills, whose
// takeovers show in the effects.
func (c *checker) answered(path string, f *Fault) {
	t, lock := f.Traits(), f.Lock()
	if !f.Repeat.Answered || !c.sure(path, "slos") ||
		c.Refuse(!t.Kills || t.Rolls || lock == "", path+".until", "%s cannot repeat until answered, only a kill of a lock's holder can: give count", f.Kind()) ||
		c.Refuse(!f.Repeat.Settled, path+".every", "until: answered looks at each takeover before the next kill: leave every out") {
		return
	}
	for i := range c.e.Faults {
		o := &c.e.Faults[i]
		if c.Refuse(o.Spec != nil && o.Lock() == lock && o.Traits().Class != t.Class, path+".until",
			"%s strikes the holder of %s in another way, and a percentile is of one kind of fault: give count, or take %[1]s out", o.ID, lock) {
			return
		}
	}
	need, name := 0, "" // the promised percentile that takes most kills
	for _, l := range c.e.Rows() {
		if n := CleanTrials(l.Bound()); l.Lock == lock && (l.Measure == "takeover" || l.Measure == "tick_gap") && n > need {
			need, name = n, l.Bound()
		}
	}
	_ = c.Refuse(need == 0, path+".until", "no percentile is promised of the takeover or tick_gap of %s, so nothing is to be answered: promise p95, or give count", lock) ||
		c.Refuse(f.Repeat.Count < need, path+".at_most", "%d is too few: a %s takes %d kills even if none misses the limit", f.Repeat.Count, name, need)
}

// rolls gives a rolling restart as many shots as there are replicas, unless the file says more.
func rolls(file *vocab.File, e *Experiment) {
	for path, f := range entries("faults", e.Faults) {
		if f.eachInTurn() && file.Node(path+".repeat") == nil {
			f.Repeat.Count = max(1, e.System.Replicas)
		}
	}
}

// several refuses a fault of more replicas than there are, and one that leaves no replica of somebody's own.
func (c *checker) several(path string, f *Fault) {
	aim, n := f.Aim(), c.e.System.Replicas
	count := aim.Some.Count
	if !f.Traits().Apart || !aim.Several() || c.Invalid(path) || n == 0 || c.Invalid("system.replicas") ||
		c.Refuse(!c.e.Observed() && count > n, path+".count", "%d is over the %s of the system", count, figures.Plural(n, "replica")) || !c.e.Observed() || c.e.Limits.LastReplica {
		return
	}
	const lift = "say limits.last_replica: true if none is to be left"
	_ = c.Refuse(aim.All && aim.Pods == "", path+".all", "strikes the last replica that lives as well: say percent: 99, which leaves one, or "+lift) ||
		c.Refuse(count >= n, path+".count", "%d is every one of the %d replicas of system.replicas: say fewer, or "+lift, count, n)
}

// section is what the file says in and around the section of a fault's kind.
type section struct {
	c    *checker
	path string
	f    *Fault
}

func (s section) at(field string) string {
	if field == "" {
		return s.path
	}
	return s.path + "." + field
}

func (s section) Around() fault.Around {
	e := s.c.e
	a := fault.Around{
		For: s.f.For, TimeScale: e.TimeScale, Faults: len(e.Faults), Redis: string(e.Redis.Mode), Allow: e.Redis.Allow,
		Pods: s.c.inPods(), Observed: e.Observed(), Stored: s.c.Stored, PodsProxy: e.Proxy.Mode == ProxyExternal,
		Store: string(e.StoreKind()), Servers: 1,
		Routed: e.Proxy.Route != "", Shared: e.Proxy.Shared(), Tapped: e.Proxy.API != "", APIProxy: e.Kubernetes != nil && e.Kubernetes.APIProxy != "",
	}
	a.Sentinels, a.Cluster = e.Redis.Sentinel != nil, e.Redis.Cluster
	if e.Kubernetes != nil {
		a.Kinds = e.Kubernetes.Allow
	}
	if !e.InRedis() {
		a.Redis, a.Servers = "", e.Store.Servers()
	}
	if !s.c.Invalid("system.replicas") {
		a.Replicas = e.ReplicaNames()
	}
	return a
}

func (s section) Given(field string) bool { return s.c.Node(s.at(field)) != nil }

func (s section) Check(field, format string, args ...any) { s.c.Check(s.at(field), format, args...) }

func (s section) Lock(field, name string) *fault.Lock {
	if s.c.e.keyless(name) != nil && s.c.e.Lock(name).Keyless() {
		s.Check(field, "the effects %s come about under no lock, so nobody holds it: strike a replica by its name", name)
		return nil
	}
	if l := s.c.sound(s.at(field), name); l != nil {
		return s.lock(l)
	}
	return nil
}

func (s section) Locks() []*fault.Lock {
	var all []*fault.Lock
	for i := range s.c.e.System.Locks {
		l := &s.c.e.System.Locks[i]
		if l.Policy.TTL == 0 {
			return nil
		}
		all = append(all, s.lock(l))
	}
	return all
}

func (s section) lock(l *Lock) *fault.Lock {
	return &fault.Lock{Name: l.Name, Policy: &l.Policy, Unrenewed: s.c.neverRenewed(l), Lease: l.Lease != ""}
}
