package fault

import (
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// RollingRestart restarts every replica, one after the other, as a deployment does: each is asked to end, and the next one only once all
// are ready again. Of pods it may be the rollout restart of their owner, which then decides the order.
type RollingRestart struct {
	Order   Order         `rule:"words=index|leader_first|leader_last"` // index: by their names; leader_first and leader_last: whoever leads lock is the first, or the last
	Lock    string        // the leader loop whose leader is the first, or the last
	Grace   time.Duration `rule:"positive" scale:"no"`  // from SIGTERM to SIGKILL; left out: as the supervisor grants it
	Pause   time.Duration `rule:"positive" scale:"yes"` // from when all are ready again until the next is asked to end
	Within  time.Duration `rule:"positive" scale:"no"`  // for a replica to be ready again; one that is not ends the restart
	Rollout string        // of pods: deployment/NAME or statefulset/NAME, restarted as kubectl rollout restart does
	How     string        `file:"-"` // its form, as events tell it
}

// Order is which replica a rolling restart takes next.
type Order string

const (
	ByIndex     Order = "index"
	LeaderFirst Order = "leader_first"
	LeaderLast  Order = "leader_last"
)

// RolledOut is the form of a rolling restart that the owner of the pods carries out.
const RolledOut = "rollout"

// Rolling is a fault that goes through all replicas.
type Rolling interface {
	Spec
	Rolls() *RollingRestart
}

// Rolls is the restart itself.
func (r *RollingRestart) Rolls() *RollingRestart { return r }

func newRolling(form, _ string) Spec {
	return &RollingRestart{Order: ByIndex, Within: time.Minute, How: form}
}

func (*RollingRestart) Kind() string      { return "rolling_restart" }
func (*RollingRestart) Magnitude() string { return "" }
func (*RollingRestart) Target() Aim       { return Aim{All: true} }

func (r *RollingRestart) Form() string {
	if r.Rollout != "" || r.How == RolledOut {
		return RolledOut
	}
	return Graceful
}

// Traits: each shot ends one replica, as a graceful kill does; or one call restarts all of them, whose ends are not the runner's doing.
func (r *RollingRestart) Traits() Traits {
	t := Traits{Noun: "restart", Called: "rolling restart", Instant: "a rolling restart", Rolls: true, Grace: r.Grace}
	if r.Form() == RolledOut {
		t.Owner = r.Rollout
		return t
	}
	t.Class, t.Kills, t.DeletesPods = ClassHandOver, true, true
	return t
}

func (*RollingRestart) Barred(Around) string { return "" }

func (r *RollingRestart) Check(c Checker) {
	around := c.Around()
	switch leads := r.Order != ByIndex; {
	case leads && r.Lock == "":
		c.Check("lock", "missing: %s of which leader loop?", r.Order)
	case !leads && r.Lock != "":
		c.Check("lock", "says whose leader is the first or the last: say order: leader_first or leader_last")
	case r.Lock != "":
		if l := c.Lock("lock", r.Lock); l != nil && l.Policy.Loop == nil {
			c.Check("lock", "lock %s is taken per job: it has no leader", r.Lock)
		}
	}
	if r.Rollout != "" {
		r.checkRollout(c)
	} else if around.Pods && r.Grace%time.Second != 0 {
		c.Check("grace", "%s is not in whole seconds, and a pod's grace is", figures.Spell(r.Grace))
	}
	if around.Pods && around.TimeScale != 1 && !around.Observed {
		c.Check("", "needs time_scale 1 in pods: their grace does not scale")
	}
}

// checkRollout refuses what the owner of the pods decides.
func (r *RollingRestart) checkRollout(c Checker) {
	if kind, name, _ := strings.Cut(r.Rollout, "/"); kind != "deployment" && kind != "statefulset" || name == "" {
		c.Check("rollout", "%q is neither deployment/NAME nor statefulset/NAME", r.Rollout)
	}
	if !c.Around().Pods {
		c.Check("rollout", "is of pods, and there is no kubernetes section")
	}
	for _, field := range []string{"order", "grace", "pause"} {
		if c.Given(field) && (field != "order" || r.Order != ByIndex) { // a resolved file says the order that it has by default
			c.Check(field, "is decided by what owns the pods: leave it out, or leave rollout out")
		}
	}
}

func (r *RollingRestart) Describe(pods bool) Description {
	const again = "nothing to undo: each replica is started again, or the restart ends there"
	order := map[Order]string{ByIndex: "by their names", LeaderFirst: "the leader of " + r.Lock + " first", LeaderLast: "the leader of " + r.Lock + " last"}[r.Order]
	next := ", the next one when all are ready again"
	if r.Pause > 0 {
		next += " and " + figures.Spell(r.Pause) + " more have passed"
	}
	switch {
	case r.Form() == RolledOut:
		return Description{"restarts " + r.Rollout + " as kubectl rollout restart does, by an annotation; its owner ends and replaces the pods",
			"the owner says that all its pods are new and available, and every old pod is gone",
			"nothing to undo: the pods stay restarted, and the annotation stays, as kubectl leaves it"}
	case pods:
		return Description{"deletes each pod with its grace, " + order + next, "the pod is gone, and all replicas are ready again", again}
	}
	return Description{"SIGTERM to each replica, " + order + next + "; SIGKILL when its grace is over", "its end is seen, after the signal, and all replicas are ready again", again}
}

func (r *RollingRestart) Action(s Shot) string {
	switch {
	case r.Form() == RolledOut:
		return "rollout restart of the pods' owner"
	case s.Pod:
		return "restarted the pod of " + s.Victim + s.held() + " (rolling restart)"
	}
	return "restarted " + s.Victim + s.held() + " with SIGTERM (rolling restart)"
}

func (*RollingRestart) Measured(m Measured) string { return m.as("took") }
