package experiments

import "github.com/lockdrill/lockdrill/internal/vocab"

// observed checks what can be asked of a system that is somebody's own.
func (c *checker) observed() {
	e, here := c.e, c.Node("system.processes") != nil
	switch {
	case !e.Observed() && here:
		c.Check("system.processes", "is for mode observe: replicas of mode embedded are started by the run, which knows them")
		return
	case !e.Observed() && e.Limits.LastReplica:
		c.Check("limits.last_replica", "is for mode observe: replicas of mode embedded are the run's own, and all of them may be struck")
		return
	case !e.Observed():
		return
	case c.inPods() && here:
		c.Check("system.processes", "the replicas are pods, by the kubernetes section: exactly one of the two")
	case !c.inPods() && !here:
		c.Check("system.mode", "observe watches replicas that are somebody's: say where they are, under system.processes or in a kubernetes section")
	}
	if e.Kubernetes != nil {
		c.observedPods(e.Kubernetes)
	}
	if e.System.Processes != nil && !c.inPods() {
		c.observedProcesses(e.System.Processes)
	}
	for _, f := range []ours{
		{"ledger", "nobody writes to it: observed replicas know of no ledger", e.Ledger.URL != ""},
		{"system.work", "nobody takes it: observed replicas have work of their own", len(e.System.Work) > 0},
		{"system.policy_sheet", "makes locks of a Redis that lockdrill's workers take: write the observed locks out", c.Node("system.policy_sheet") != nil},
		{"time_scale", "observed replicas run at their own pace: 1", e.TimeScale != 1},
		{"abort_when", "counts what lockdrill's workers report: observed replicas report nothing", len(e.AbortWhen) > 0},
	} {
		c.refuse(f)
	}
	if c.Node("system.policy_sheet") == nil {
		c.observedLocks()
	}
	c.lastReplica()
}

// lastReplica refuses what could only strike the one replica that there is.
func (c *checker) lastReplica() {
	if c.e.System.Replicas != 1 || c.e.Limits.LastReplica {
		return
	}
	for i := range c.e.Faults {
		if f := &c.e.Faults[i]; f.Spec != nil && (f.Traits().Kills || f.Traits().Rolls || f.Traits().InVictim && f.Traits().Stands > 0) {
			c.Check(vocab.At("faults", i), "strikes the only replica that there is, and nobody would be left: say limits: {last_replica: true} where that is meant")
		}
	}
}

// ours is a field that is for replicas of lockdrill's.
type ours struct {
	path, why string
	set       bool
}

func (c *checker) refuse(f ours) {
	if f.set {
		c.Check(f.path, "%s", f.why)
	}
}

// observedPods checks what is said of pods that are somebody's own.
func (c *checker) observedPods(k *Kubernetes) {
	if k.Pods == PodsApply {
		c.Check("kubernetes.pods", "apply makes workers of lockdrill's; an observed system is there: pods: use")
	}
	if len(k.Selector) == 0 {
		c.Check("kubernetes.selector", "missing: the labels of the observed pods")
	}
	for _, f := range []ours{
		{"kubernetes.image", "is of lockdrill's workers: observed pods have their own", k.Image != ""},
		{"kubernetes.workers", "is of lockdrill's workers: observed pods have their own controller", c.Node("kubernetes.workers") != nil},
		{"kubernetes.grace", "is of lockdrill's workers: observed pods declare their own", c.Node("kubernetes.grace") != nil},
		{"kubernetes.redis", "is for lockdrill's workers: nobody tells observed pods where their Redis is", k.Redis != ""},
		{"kubernetes.ledger", "is for lockdrill's workers: observed pods write to no ledger", k.Ledger != ""},
	} {
		c.refuse(f)
	}
}

// observedProcesses checks what is said of processes that are somebody's own.
func (c *checker) observedProcesses(p *Processes) {
	c.processes(p)
	for _, f := range []ours{
		{"system.worker", "is a command that the runner starts: observed processes are there", len(c.e.System.Worker) > 0},
		{"system.restart", "is for processes that the runner starts: an observed one is started again by its supervisor, when that sees fit", c.e.System.Restart > 0 && c.Node("system.restart") != nil},
	} {
		c.refuse(f)
	}
}

// observedLocks checks that each lock can be looked at.
func (c *checker) observedLocks() {
	e, keys := c.e, 0
	for i := range e.System.Locks {
		l, path := &e.System.Locks[i], vocab.At("system.locks", i)
		if l.Lease == "" {
			keys++
		}
		switch {
		case c.Invalid(path):
		case !l.Loop() && e.EffectsOf(l.Name) == nil && len(e.System.Effects) == 0:
			c.Check(path, "lock %s is taken per job, and nobody says where its jobs are read: system.effects", l.Name)
		case l.Lease == "" && e.Redis.Mode != RedisExternal && c.inPods():
			c.Check(path, "lock %s is neither a lease (lease: the name of the object) nor in a Redis that can be looked at (redis: {mode: external, url: ...})", l.Name)
		case l.Lease == "" && e.Redis.Mode != RedisExternal:
			c.Check(path, "lock %s is in no Redis that can be looked at (redis: {mode: external, url: ...})", l.Name)
		case l.Lease != "" && !c.inPods():
			c.Check(path+".lease", "a Lease object is looked at in the cluster of a kubernetes section, and there is none")
		}
	}
	if keys == 0 && e.Redis.Mode == RedisExternal && len(e.System.Locks) > 0 {
		c.Check("redis", "every lock is a Lease object: no Redis is looked at")
	}
}

// unseen says why a promise cannot be answered where nobody reports, or "".
func (c *checker) unseen(s *SLO) string {
	if !c.e.Observed() || s.Takeover != nil || s.Rolling != nil || s.Metric != nil || s.Logs != nil {
		return ""
	}
	if s.Abandonments != nil {
		if l := c.e.Lock(s.Lock); l == nil || l.AbandonedBy != nil {
			return ""
		}
		return "cannot be answered: an observed system does not tell lockdrill what it gives up; say in the lock which counter or log line does: abandoned_by: {metric: NAME} or {log: PATTERN}"
	}
	return c.effectsAnswer(s)
}
