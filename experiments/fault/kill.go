package fault

import (
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Kill ends the replica that holds a key of the lock at the moment of firing: a process by SIGKILL, a pod in one of three forms. A pod
// can also be chosen by its labels, whatever it holds.
type Kill struct {
	HolderOf string            // a lock: who holds it when the kill is fired
	Pods     map[string]string // labels: one pod that has them, whatever it holds
	Pick     Pick              `rule:"words=random|oldest|newest"`                          // with pods: which of them
	Phase    Phase             `rule:"words=after_grant|after_renew|before_renew|random"`   // moment of the lease
	On       Phase             `rule:"words=acquired"`                                      // instead of a phase: the next grant, for locks too short to be held by chance
	How      string            `file:"form" rule:"words=crash|graceful|force_delete|evict"` // crash: at once, without a word; graceful: asked to end, and killed when its grace is over; of pods also evict (graceful, and within disruption budgets) and force_delete (grace 0)
	Exec     []string          // crash of an observed pod: a command in its container that ends the process
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

func newKill(form, _ string) Spec { return &Kill{How: form} }

func (*Kill) Kind() string      { return "kill" }
func (k *Kill) Form() string    { return k.How }
func (*Kill) Magnitude() string { return "" }

func (k *Kill) Target() Aim { return Aim{HolderOf: k.HolderOf, Pods: Labels(k.Pods), Pick: k.Pick} }

// Moment is when it is fired; there is no lease that it could be a moment of where it is aimed at a pod.
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
	if k.Pick == "" && len(k.Pods) > 0 {
		k.Pick = PickRandom
	}
}

func (k *Kill) Traits() Traits {
	t := Traits{Class: ClassCrash, Noun: "kill", Instant: "a kill", Kills: true, Command: k.Exec}
	t.DeletesPods = k.How == Graceful || k.How == ForceDelete
	if t.Evicts = k.How == Evict; t.Evicts || k.How == Graceful {
		t.Class = ClassHandOver
	}
	return t
}

func (*Kill) Barred(Around) string { return "" }

// Check: whom a kill strikes, in which form, and when.
func (k *Kill) Check(c Checker) {
	if k.Phase != "" && k.On != "" {
		c.Check("on", "a kill has either a phase or on, not both")
	}
	k.checkForm(c)
	if !k.checkAim(c) {
		return
	}
	l := c.Lock("holder_of", k.HolderOf)
	if l == nil {
		return
	}
	why := ""
	switch k.Moment() {
	case AfterRenew, BeforeRenew:
		why = l.Unrenewed
	case AfterGrant, Acquired:
		why = neverGrantedAgain(l, c.Around().Faults)
	}
	if why != "" {
		c.Check("phase", "%s never comes: %s", k.Moment(), why)
	}
}

// checkAim checks whom a kill strikes, and reports whether that is the holder of a lock.
func (k *Kill) checkAim(c Checker) bool {
	around := c.Around()
	c.CheckLabels("pods", k.Pods)
	switch {
	case k.HolderOf != "" && len(k.Pods) > 0:
		c.Check("", "has holder_of and pods: a kill strikes the holder of a lock, or one pod with these labels")
	case k.HolderOf == "" && len(k.Pods) == 0:
		words := "holder_of a lock"
		if around.Pods {
			words += ", or pods by their labels"
		}
		c.Check("", "does not say whom it strikes: %s", words)
	case len(k.Pods) > 0 && !around.Pods:
		c.Check("pods", "is for replicas in pods, and there is no kubernetes section: holder_of a lock")
	case k.Pick != "" && len(k.Pods) == 0:
		c.Check("pick", "chooses among pods: a lock has one holder")
	case len(k.Pods) > 0:
		for _, word := range []string{"phase", "on"} {
			if c.Given(word) {
				c.Check(word, "is a moment of a holder's lease: pods are struck whatever they hold; leave it out, or say holder_of")
			}
		}
	case around.Observed && k.Moment() == BeforeRenew:
		c.Check("phase", "before_renew cannot be hit here: nobody announces a renewal of an observed lock, and a look sees it only when it is done; say after_renew")
	case around.Observed && k.Moment() == Acquired:
		c.Check("on", "observed locks are leader loops, held long enough: say phase: after_grant")
	default:
		return true
	}
	return false
}

// checkForm checks how a pod is ended.
func (k *Kill) checkForm(c Checker) {
	around, crash := c.Around(), k.How == Crash
	switch {
	case (k.How == ForceDelete || k.How == Evict) && !around.Pods:
		c.Check("form", "%s is for replicas in pods, and there is no kubernetes section: a process is killed by form: crash or graceful", k.How)
	case !crash && around.TimeScale != 1 && !around.Observed && around.Pods:
		c.Check("form", "%s needs time_scale 1: the grace of a pod, and the 2s that a kubelet gives at least, do not scale; say form: crash", k.How)
	case len(k.Exec) > 0 && !around.Pods:
		c.Check("exec", "is run in a pod's container, and there is no kubernetes section")
	case len(k.Exec) > 0 && !crash:
		c.Check("exec", "is for form crash: %s is a request to the API server", k.How)
	case len(k.Exec) > 0 && !around.Observed:
		c.Check("exec", "is for pods that are somebody's own: lockdrill's workers are told to crash")
	case crash && len(k.Exec) == 0 && around.Observed && around.Pods:
		c.Check("exec", "missing: nobody tells an observed pod to crash; say a command that ends its process, such as [sh, -c, \"kill -9 $(pidof server)\"] "+
			"(process 1 of a container cannot be killed from inside), or form: graceful, evict or force_delete")
	case slices.Contains(k.Exec, ""):
		c.Check("exec", "has an empty word")
	}
}

// neverGrantedAgain says why the lock is not granted once the faults have begun, or "". Another fault may cost the holder its lock.
func neverGrantedAgain(l *Lock, faults int) string {
	if l.Policy.Loop == nil || l.Policy.Loop.Mode != lockcore.LoopRenewed || faults > 1 {
		return ""
	}
	return "loop " + l.Name + " is renewed until its holder dies, so it is granted once, before the first fault; after_renew comes"
}

// Describe: of pods an API object that is gone proves no death, so each form says what does.
func (k *Kill) Describe(pods bool) Description {
	const (
		died   = "its container's status says terminated, or the stream of its log, opened before, ends; else the end stays open"
		undone = "nothing to undo: the pod's controller replaces it"
		again  = "nothing to undo: the kubelet starts the container again"
	)
	switch {
	case !pods && k.How == Graceful:
		return Description{"SIGTERM to the replica, and SIGKILL when its grace is over; a holder that releases hands its lock over", "its end is seen, after the signal",
			"nothing to undo: lockdrill starts a replica of its own again after system.restart, and your supervisor starts yours"}
	case !pods:
		return Description{"SIGKILL of the replica: every key that it holds is left to its TTL", "its end is seen, by SIGKILL, and it still held the lock then",
			"nothing to undo: lockdrill starts a replica of its own again after system.restart, and your supervisor starts yours"}
	case k.How == Graceful:
		return Description{"the pod is deleted with its own grace: SIGTERM, and SIGKILL when that is over; a holder that releases hands its lock over", died, undone}
	case k.How == Evict:
		return Description{"the pod is evicted, as by a drain: its disruption budgets are asked first, then SIGTERM, and SIGKILL when its own grace is over; a holder that releases hands its lock over",
			died + "; an eviction that a budget blocks is void", undone}
	case k.How == ForceDelete:
		return Description{"the pod is deleted with grace 0: the object goes at once, the process gets SIGTERM and may live on for 2s or more", died, undone}
	case len(k.Exec) > 0:
		return Description{"a command in the pod's container ends the process: " + strings.Join(k.Exec, " "), died, again}
	}
	return Description{"the worker in the pod is told to die at once, without a word", died, again}
}

func (k *Kill) Action(s Shot) string {
	switch {
	case k.How == Graceful && !s.Pod:
		return "SIGTERM " + s.Victim + s.held() + ", and SIGKILL when its grace was over"
	case k.How == Graceful:
		return "deleted the pod of " + s.Victim + s.held() + ", with its own grace"
	case k.How == Evict:
		return "evicted the pod of " + s.Victim + s.held()
	case k.How == ForceDelete:
		return "deleted the pod of " + s.Victim + s.held() + ", with grace 0"
	case s.Pod && k.How == Crash:
		return "crashed " + s.Victim + s.held()
	}
	return "SIGKILL " + s.Victim + s.held()
}

func (*Kill) Measured(m Measured) string { return m.as("took") }
