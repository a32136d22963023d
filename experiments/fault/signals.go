package fault

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Faults by a signal to a process; some of a pod are a call to the API server.

// Kill ends the replica that holds a key of the lock at the moment of firing: a process by SIGKILL, a pod in one of three forms. Pods can
// also be chosen by their labels, and replicas by their number, whatever they hold.
type Kill struct {
	HolderOf string            // whoever holds this lock when the kill is fired
	All      bool              `rule:"omit"`                                                // every replica, or all of pods
	Count    int               `rule:"min=1,max=1000"`                                      // so many replicas, or of pods
	Percent  float64           `rule:"positive,max=100"`                                    // of the live replicas, rounded up, as far as limits allow
	Pods     map[string]string `rule:"format=labels"`                                       // labels: one such pod, or all, count or percent of them
	Zone     string            `file:"topology_zone" rule:"format=label"`                   // pods on nodes of this zone (topology.kubernetes.io/zone)
	Pick     Pick              `rule:"words=random|oldest|newest,for=pods|topology_zone"`   // which of the pods
	Phase    Phase             `rule:"words=after_grant|after_renew|before_renew|random"`   // moment of the lease
	On       Phase             `rule:"words=acquired,not=phase"`                            // in place of a phase: the next grant
	How      string            `file:"form" rule:"words=crash|graceful|force_delete|evict"` // crash: at once; graceful: SIGTERM, and SIGKILL after its grace; of pods also evict (within disruption budgets) and force_delete (grace 0)
	Exec     []string          `rule:"for=form:crash"`                                      // of an observed pod: command in its container that ends the process
}

// Phase is the moment within the lease at which a kill is fired.
type Phase string

const (
	AfterGrant  Phase = "after_grant"
	AfterRenew  Phase = "after_renew"
	BeforeRenew Phase = "before_renew"
	RandomPhase Phase = "random"
	Acquired    Phase = "acquired" // the next grant of any key of the lock, for locks too short to be held by chance
)

// Ways to end a replica: forms of a kill.
const (
	Crash       = "crash"        // the process dies at once, without a word
	Graceful    = "graceful"     // asked to end, and killed when its grace is over: SIGTERM; of pods, a delete with the grace that the pod declares
	Evict       = "evict"        // pods: as graceful, by the Eviction API, which asks the PodDisruptionBudgets first
	ForceDelete = "force_delete" // pods: deleted with grace 0, which is no SIGKILL: docs/kubernetes.md
)

func (*Kill) Kind() string { return "kill" }

func (k *Kill) Target() Aim {
	return Aim{HolderOf: k.HolderOf, All: k.All, Pods: Labels(k.among()), Pick: k.Pick, Some: Some{k.Count, k.Percent}}
}

// ZoneLabel is the label of a node, and of a pod of it as package kube tells of it, with the zone that it is in.
const ZoneLabel = "topology.kubernetes.io/zone"

// among are the labels of the pods that it strikes any of; none = it is not aimed at pods.
func (k *Kill) among() map[string]string {
	if k.Zone == "" {
		return k.Pods
	}
	of := map[string]string{ZoneLabel: k.Zone}
	maps.Copy(of, k.Pods)
	return of
}

// Moment is when it is fired; there is no lease that it could be a moment of where it is aimed at replicas, whatever they hold.
func (k *Kill) Moment() Phase {
	switch {
	case k.HolderOf == "":
		return ""
	case k.On != "":
		return k.On
	case k.Phase != "":
		return k.Phase
	}
	return RandomPhase
}

func (k *Kill) Fill() {
	if k.How == "" {
		k.How = Crash
	}
	if k.Phase == "" && k.On == "" && k.HolderOf != "" {
		k.Phase = RandomPhase
	}
	if k.Zone != "" && k.HolderOf == "" && k.Pick == "" && k.Count == 0 && k.Percent == 0 {
		k.All = true
	}
	if k.Pick == "" && len(k.among()) > 0 && !k.All {
		k.Pick = PickRandom
	}
}

// RollingRestart restarts every replica, one after the other, as a deployment does: each is asked to end, and the next one only once all
// are ready again. Of pods it may be the rollout restart of their owner, which then decides the order.
type RollingRestart struct {
	Order   Order         `rule:"words=index|leader_first|leader_last"`                                   // by name, or the leader first or last
	Lock    string        `rule:"for=order:leader_first|leader_last,need=order:leader_first|leader_last"` // the leader loop that order goes by
	Grace   time.Duration `rule:"positive,not=rollout" scale:"no"`                                        // from SIGTERM to SIGKILL; default: the supervisor's
	Pause   time.Duration `rule:"positive,not=rollout" scale:"yes"`                                       // between the return of one and the end of the next
	Within  time.Duration `rule:"positive" scale:"no"`                                                    // limit for a replica to be ready again
	Rollout string        // deployment/NAME or statefulset/NAME, restarted as kubectl rollout restart does
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

func (*RollingRestart) Kind() string { return "rolling_restart" }
func (*RollingRestart) Target() Aim  { return Aim{All: true} }

func (r *RollingRestart) form() string {
	if r.Rollout != "" || r.How == RolledOut {
		return RolledOut
	}
	return Graceful
}

func (r *RollingRestart) seen(form, _ string) { r.How = form }

func (r *RollingRestart) values() map[string]string {
	return map[string]string{"in_order": map[Order]string{ByIndex: "by their names", LeaderFirst: "the leader of " + r.Lock + " first", LeaderLast: "the leader of " + r.Lock + " last"}[r.Order]}
}

// Pause is SIGSTOP of a replica, and SIGCONT when its time is up: a long garbage collection.
type Pause struct {
	Aim
	Count   int     `rule:"min=1,max=1000"`   // so many replicas
	Percent float64 `rule:"positive,max=100"` // of the live replicas, rounded up, as far as limits allow
}

func (p *Pause) Target() Aim {
	a := p.Aim
	a.Some = Some{p.Count, p.Percent}
	return a
}

func (*Pause) Kind() string { return "pause" }

func (p *Pause) values() map[string]string { return p.Target().whom() }

// Starve takes the processor from a replica for Share of each Period, by SIGSTOP and SIGCONT: a quota that is too small, or a host
// that is too full.
type Starve struct {
	Aim
	Share  float64       `rule:"required,positive,max=0.99"` // of each period in which the replica stands still
	Period time.Duration `rule:"positive" scale:"yes"`       // as of a container's quota
}

func (*Starve) Kind() string { return "starve" }

// Stood is for how long of each period the replica stands still.
func (s *Starve) Stood() time.Duration { return time.Duration(s.Share * float64(s.Period)) }

func (s *Starve) values() map[string]string {
	return map[string]string{"stood": figures.Spell(s.Stood())}
}

// leastPeriod is what can still be divided by signals, and seen in /proc.
const leastPeriod = 20 * time.Millisecond

const (
	died      = "its container's status says terminated, or the stream of its log, opened before, ends; else the end stays open"
	replaced  = "nothing to undo: the pod's controller replaces it"
	restarted = "nothing to undo: the kubelet starts the container again"
	ours      = "nothing to undo: lockdrill starts a replica of its own again after system.restart, and your supervisor starts yours"
	eachAgain = "nothing to undo: each replica is started again, or the restart ends there"
	goesOn    = "SIGCONT; the process goes on, which is read back"
	noPods    = "and there is no kubernetes section"
	instead   = "; kill the holder, or drill the same policy with lockdrill's workers (mode embedded)"
	nextOne   = "{in_order}, the next one when all are ready again[ and {pause} more have passed]"
)

// standing says why no process in a pod is stopped.
func standing(a Around, what string) string {
	const why = "SIGSTOP of a process in a pod takes an agent on its node, which lockdrill has not"
	switch {
	case !a.Pods:
		return ""
	case a.Observed:
		return why + instead
	}
	return why + ": cut the holder off with black_hole, or drill " + what + " with processes (without a kubernetes section)"
}

var signals = []Kind{
	{Word: "kill", By: Cluster, New: made(Kill{}), Formed: "form",
		Says: "SIGKILL of the replica that holds a lock, at a chosen moment of the lease; of a pod, by one of four forms",
		Form: Form{Traits: Traits{Class: ClassCrash, Noun: "kill", Instant: "a kill", Kills: true, Apart: true}, Shows: "took",
			Does: "SIGKILL of {whom}: every key that {they_hold} is left to its TTL", Seen: "its end is seen, by SIGKILL, and it still held the lock then",
			Undone: ours, Told: "SIGKILL {victim}{held}"},
		Forms: []Form{
			{Word: "crash", Pods: &Form{Does: "{crash}", Seen: died, Undone: restarted, Told: "crashed {victim}{held}"}},
			{Word: "graceful", Traits: Traits{Class: ClassHandOver, DeletesPods: true},
				Does: "SIGTERM to {whom}, and SIGKILL when {their} grace is over; a holder that releases hands its lock over", Seen: "its end is seen, after the signal",
				Told: "SIGTERM {victim}{held}, and SIGKILL when its grace was over",
				Pods: &Form{Does: "the pod is deleted with its own grace: SIGTERM, and SIGKILL when that is over; a holder that releases hands its lock over", Seen: died, Undone: replaced,
					Told: "deleted the pod of {victim}{held}, with its own grace"}},
			{Word: "evict", Traits: Traits{Class: ClassHandOver, Evicts: true}, Told: "evicted the pod of {victim}{held}",
				Pods: &Form{Does: "the pod is evicted, as by a drain: its disruption budgets are asked first, then SIGTERM, and SIGKILL when its own grace is over; a holder that releases hands its lock over",
					Seen: died + "; an eviction that a budget blocks is void", Undone: replaced, Told: "evicted the pod of {victim}{held}"}},
			{Word: "force_delete", Traits: Traits{DeletesPods: true}, Told: "deleted the pod of {victim}{held}, with grace 0",
				Pods: &Form{Does: "the pod is deleted with grace 0: the object goes at once, the process gets SIGTERM and may live on for 2s or more", Seen: died, Undone: replaced,
					Told: "deleted the pod of {victim}{held}, with grace 0"}},
		},
		Values: values(func(k *Kill, t Traits) Traits { t.Command = k.Exec; return t }),
		Constraints: slices.Concat(
			first(
				breaks("form", "{form} is for replicas in pods, "+noPods+": a process is killed by form: crash or graceful", func(k *Kill, c Checker) bool {
					return (k.How == "force_delete" || k.How == "evict") && !c.Around().Pods
				}),
				breaks("form", "{form} needs time_scale 1: the grace of a pod, and the 2s that a kubelet gives at least, do not scale; say form: crash", func(k *Kill, c Checker) bool {
					a := c.Around()
					return k.How != "crash" && a.TimeScale != 1 && !a.Observed && a.Pods
				}),
				breaks("exec", "is run in a pod's container, "+noPods, func(k *Kill, c Checker) bool { return len(k.Exec) > 0 && !c.Around().Pods }),
				breaks("exec", "is for pods that are somebody's own: lockdrill's workers are told to crash", func(k *Kill, c Checker) bool { return len(k.Exec) > 0 && k.How == "crash" && !c.Around().Observed }),
				breaks("exec", "missing: nobody tells an observed pod to crash; say a command that ends its process, such as [sh, -c, \"kill -9 $(pidof server)\"] "+
					"(process 1 of a container cannot be killed from inside), or form: graceful, evict or force_delete", func(k *Kill, c Checker) bool {
					a := c.Around()
					return k.How == "crash" && len(k.Exec) == 0 && a.Observed && a.Pods
				}),
			),
			[]Constraint{because("", (*Kill).whom)},
		)},
	{Word: "rolling_restart", By: Cluster, New: made(RollingRestart{Order: ByIndex, Within: time.Minute}),
		Says: "every replica is restarted, one after the other, as a deployment does",
		Form: Form{Traits: Traits{Noun: "restart", Called: "rolling restart", Instant: "a rolling restart", Rolls: true}, Shows: "took", Told: "rollout restart of the pods' owner"},
		Forms: []Form{
			{Word: "graceful", Traits: Traits{Class: ClassHandOver, Kills: true, DeletesPods: true}, Undone: eachAgain,
				Does: "SIGTERM to each replica, " + nextOne + "; SIGKILL when its grace is over", Seen: "its end is seen, after the signal, and all replicas are ready again",
				Told: "restarted {victim}{held} with SIGTERM (rolling restart)",
				Pods: &Form{Does: "deletes each pod with its grace, " + nextOne, Seen: "the pod is gone, and all replicas are ready again", Undone: eachAgain, Told: "restarted the pod of {victim}{held} (rolling restart)"}},
			{Word: "rollout", Does: "restarts {rollout} as kubectl rollout restart does, by an annotation; its owner ends and replaces the pods",
				Seen: "the owner says that all its pods are new and available, and every old pod is gone", Undone: "nothing to undo: the pods stay restarted, and the annotation stays, as kubectl leaves it",
				Unplayed: "what owns the pods decides which of them ends when, and that is not simulated"},
		},
		Values: values(func(r *RollingRestart, t Traits) Traits {
			if t.Grace = r.Grace; r.form() == "rollout" {
				t.Owner = r.Rollout
			}
			return t
		}),
		Constraints: append(slices.Clone(leads),
			breaks("rollout", `"{rollout}" is neither deployment/NAME nor statefulset/NAME`, func(r *RollingRestart, c Checker) bool {
				kind, name, _ := strings.Cut(r.Rollout, "/")
				return r.Rollout != "" && c.Around().Pods && (kind != "deployment" && kind != "statefulset" || name == "")
			}),
			breaks("rollout", "is of pods, "+noPods, func(r *RollingRestart, c Checker) bool { return r.Rollout != "" && !c.Around().Pods }),
			breaks("order", "is decided by what owns the pods: leave it out, or leave rollout out", func(r *RollingRestart, _ Checker) bool { return r.Rollout != "" && r.Order != "index" }),
			breaks("grace", "{grace} is not in whole seconds, and a pod's grace is", func(r *RollingRestart, c Checker) bool {
				return r.Rollout == "" && c.Around().Pods && r.Grace%time.Second != 0
			}),
			breaks("", "needs time_scale 1 in pods: their grace does not scale", func(_ *RollingRestart, c Checker) bool {
				a := c.Around()
				return a.Pods && a.TimeScale != 1 && !a.Observed
			}))},
	{Word: "pause", By: Signal, New: made(Pause{}), Aims: group, Says: "SIGSTOP of replicas for a while, then SIGCONT, as a long garbage collection",
		Form: Form{Traits: Traits{Class: ClassPause, Noun: "pause", GoesOn: "a pause goes on until it is ended", Apart: true, InVictim: true, Stands: 1}, Told: "SIGSTOP {victim}{held}{for}", Shows: "stood still for",
			Does: "SIGSTOP of {whom}, as a long garbage collection", Seen: "all its threads stand still, the whole time", Undone: goesOn},
		Unsupported: unsupported(func(_ *Pause, a Around) string { return standing(a, "the pause") })},
	{Word: "starve", By: Signal, New: made(Starve{Period: 100 * time.Millisecond}), Aims: one,
		Says: "a replica stands still for a share of each period, by SIGSTOP and SIGCONT",
		Form: Form{Traits: Traits{Class: ClassPause, Noun: "starvation", GoesOn: "a replica is starved until it is ended", InVictim: true}, Size: "{share|%} of each {period|0}",
			Does: "the replica stands still for {stood} of each {period|0} (SIGSTOP and SIGCONT), as one without its share of the processor",
			Seen: "how long all its threads were seen to stand still, added up: at least 80% of what was asked for", Undone: goesOn,
			Told: "starved {victim}{held} (stopped for {size}){for}", Shows: "stood still for"},
		Values:      values(func(s *Starve, t Traits) Traits { t.Stands = min(max(s.Share, 0.01), 0.99); return t }),
		Unsupported: unsupported(func(_ *Starve, a Around) string { return standing(a, "the starvation") }),
		Constraints: []Constraint{only("one replica is starved at a time", one, func(s *Starve) *Aim { return &s.Aim }),
			because("period", func(s *Starve, c Checker) string {
				if took := vocab.Scaled(s.Period, c.Around().TimeScale); s.Period > 0 && took < leastPeriod {
					return figures.Spell(took) + ", after time_scale, is under " + figures.Spell(leastPeriod) + ", the least that signals can divide"
				}
				return ""
			}),
			because("period", func(s *Starve, c Checker) string {
				if lasts := c.Around().For; lasts > 0 && s.Period > lasts {
					return "{period} is over for " + figures.Spell(lasts) + ": no period would come to its end"
				}
				return ""
			}),
		}},
}

var leads = []Constraint{breaks("lock", "lock {lock} is taken per job: it has no leader", func(r *RollingRestart, c Checker) bool {
	if r.Order == "index" || r.Lock == "" {
		return false
	}
	l := c.Lock("lock", r.Lock)
	return l != nil && l.Policy.Loop == nil
})}

// whom says what is wrong with whom a kill strikes, and with the moment.
func (k *Kill) whom(c Checker) string {
	around, tell := c.Around(), func(field, text string) string { c.Check(field, "%s", text); return "" }
	many := said(k, "all", "count", "percent")
	chosen := "pods"
	if len(k.Pods) == 0 {
		chosen = "topology_zone"
	}
	whatever := "pods are struck whatever they hold"
	if len(k.among()) == 0 {
		whatever = "these replicas are struck whatever they hold"
	}
	switch {
	case len(many) > 1:
		return "has " + strings.Join(many, " and ") + ": how many it strikes is one of them"
	case k.HolderOf != "" && len(many) > 0:
		return "has holder_of and " + many[0] + ": a kill strikes the holder of a lock, or replicas whatever they hold"
	case k.HolderOf != "" && len(k.among()) > 0:
		return "has holder_of and " + chosen + ": a kill strikes the holder of a lock, or one pod with these labels"
	case k.HolderOf == "" && len(k.among()) == 0 && len(many) == 0 && around.Pods:
		return "does not say whom it strikes: holder_of a lock, pods by their labels, all: true, count or percent"
	case k.HolderOf == "" && len(k.among()) == 0 && len(many) == 0:
		return "does not say whom it strikes: holder_of a lock, all: true, count or percent"
	case len(k.among()) > 0 && !around.Pods:
		return tell(chosen, "is for replicas in pods, "+noPods+": holder_of a lock, or count")
	case k.Pick != "" && k.All && c.Given("pick") && (!around.Stored || k.Pick != PickRandom): // runs wrote random
		return tell("pick", "chooses among pods, and all: true strikes every one of them")
	case k.HolderOf == "":
		for _, word := range []string{"phase", "on"} {
			if c.Given(word) {
				tell(word, "is a moment of a holder's lease: "+whatever+"; leave it out, or say holder_of")
			}
		}
		return ""
	case around.Observed && k.Moment() == BeforeRenew:
		return tell("phase", "before_renew cannot be hit here: nobody announces a renewal of an observed lock, and a look sees it only when it is done; say after_renew")
	case around.Observed && k.Moment() == Acquired:
		return tell("on", "observed locks are leader loops, held long enough: say phase: after_grant")
	}
	l := c.Lock("holder_of", k.HolderOf)
	if l == nil {
		return ""
	}
	why := ""
	switch loop := l.Policy.Loop; k.Moment() {
	case AfterRenew, BeforeRenew:
		why = l.Unrenewed
	case AfterGrant, Acquired:
		if loop != nil && loop.Mode == lockcore.LoopRenewed && around.Faults <= 1 {
			why = "loop " + l.Name + " is renewed until its holder dies, so it is granted once, before the first fault; after_renew comes"
		}
	}
	if why != "" {
		c.Check("phase", "%s never comes: %s", k.Moment(), why)
	}
	return ""
}

func (k *Kill) values() map[string]string {
	how := "the worker in the pod is told to die at once, without a word"
	if len(k.Exec) > 0 {
		how = "a command in the pod's container ends the process: " + strings.Join(k.Exec, " ")
	}
	v := k.Target().whom()
	v["crash"] = how
	return v
}
