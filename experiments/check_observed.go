package experiments

import (
	"slices"
)

// observed checks what can be asked of a system that is somebody's own.
func (c *checker) observed() {
	e, here := c.e, c.Node("system.processes") != nil
	if !e.Observed() {
		return
	}
	c.Refuse(c.inPods() && here, "system.processes", "the replicas are pods, by the kubernetes section: exactly one of the two")
	c.Refuse(!c.inPods() && !here, "system.mode", "observe watches replicas that are somebody's: say where they are, under system.processes or in a kubernetes section")
	c.Refuse(e.TimeScale != 1, "time_scale", "observed replicas run at their own pace: 1")
	if k := e.Kubernetes; k != nil {
		c.Refuse(k.Pods == PodsApply, "kubernetes.pods", "apply makes workers of lockdrill's; an observed system is there: pods: use")
		c.Refuse(len(k.Selector) == 0, "kubernetes.selector", "missing: the labels of the observed pods")
	}
	if e.System.Processes != nil && !c.inPods() {
		c.processes(e.System.Processes)
		c.Refuse(len(e.System.Worker) > 0, "system.worker", "is a command that the runner starts: observed processes are there")
		c.Refuse(e.System.Restart > 0 && c.Node("system.restart") != nil, "system.restart", "is for processes that the runner starts: an observed one is started again by its supervisor, when that sees fit")
	}
	c.observedLocks()
}

// observedLocks checks that each lock can be looked at.
func (c *checker) observedLocks() {
	e, keys, away := c.e, 0, c.e.Redis.Mode != RedisExternal
	for path, l := range entries("system.locks", e.System.Locks) {
		if l.Lease == "" {
			keys++
		}
		_ = c.Invalid(path) ||
			c.Refuse(!l.Loop() && e.EffectsOf(l.Name) == nil && len(e.System.Effects) == 0, path, "lock %s is taken per job, and nobody says where its jobs are read: system.effects", l.Name) ||
			c.Refuse(l.Lease == "" && away && c.inPods(), path, "lock %s is neither a lease (lease: the name of the object) nor in a Redis that can be looked at (redis: {mode: external, url: ...})", l.Name) ||
			c.Refuse(l.Lease == "" && away, path, "lock %s is in no Redis that can be looked at (redis: {mode: external, url: ...})", l.Name) ||
			c.Refuse(l.Lease != "" && !c.inPods(), path+".lease", "a Lease object is looked at in the cluster of a kubernetes section, and there is none")
	}
	names, known := c.lockNames()
	alone := len(names) == 0 && known && c.Node("redis") != nil && !slices.ContainsFunc(e.System.Effects, func(x Effects) bool { return x.InRedis() && x.Redis.URL == "" })
	c.Refuse(!away && alone, "redis", "there is no lock, and no effects are read there: no Redis is looked at")
	c.Refuse(!away && keys == 0 && len(e.System.Locks) > 0, "redis", "every lock is a Lease object: no Redis is looked at")
}
