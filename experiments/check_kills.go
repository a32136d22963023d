package experiments

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/lockcore"
)

// kill checks whom a kill strikes, in which form, and when.
func (c *checker) kill(path string, f *Fault) {
	k, at := f.Kill, path+".kill"
	c.killForm(at, k)
	if !c.killAim(at, k) {
		return
	}
	l := c.sound(at+".holder_of", k.HolderOf)
	if l == nil {
		return
	}
	why := ""
	switch k.Phase {
	case KillAfterRenew, KillBeforeRenew:
		why = c.neverRenewed(l)
	case KillAfterGrant, KillAcquired:
		why = c.neverGrantedAgain(l)
	}
	if why != "" {
		c.check(at+".phase", "%s never comes: %s", k.Phase, why)
	}
}

// killAim checks whom a kill strikes, and reports whether that is the holder of a lock.
func (c *checker) killAim(at string, k *Kill) bool {
	c.labels(at+".pods", k.Pods)
	switch {
	case k.HolderOf != "" && len(k.Pods) > 0:
		c.check(at, "has holder_of and pods: a kill strikes the holder of a lock, or one pod with these labels")
	case k.HolderOf == "" && len(k.Pods) == 0:
		words := "holder_of a lock"
		if c.inPods() {
			words += ", or pods by their labels"
		}
		c.check(at, "does not say whom it strikes: %s", words)
	case len(k.Pods) > 0 && !c.inPods():
		c.check(at+".pods", "is for replicas in pods, and there is no kubernetes section: holder_of a lock")
	case k.Pick != "" && len(k.Pods) == 0:
		c.check(at+".pick", "chooses among pods: a lock has one holder")
	case len(k.Pods) > 0:
		for _, word := range []string{"phase", "on"} {
			if c.places[at+"."+word] != nil {
				c.check(at+"."+word, "is a moment of a holder's lease: pods are struck whatever they hold; leave it out, or say holder_of")
			}
		}
	case c.e.Observed() && k.Phase == KillBeforeRenew:
		c.check(at+".phase", "before_renew cannot be hit here: nobody announces a renewal of an observed lock, and a look sees it only when it is done; say after_renew")
	case c.e.Observed() && k.Phase == KillAcquired:
		c.check(at+".on", "observed locks are leader loops, held long enough: say phase: after_grant")
	default:
		return true
	}
	return false
}

// killForm checks how a pod is ended.
func (c *checker) killForm(at string, k *Kill) {
	crash := k.Form == FormCrash
	switch {
	case !crash && !c.inPods() && slices.Contains(rules["killForm.Form"].words, k.Form):
		c.check(at+".form", "%s is for replicas in pods, and there is no kubernetes section: a process is killed by form: crash", k.Form)
	case !crash && c.e.TimeScale != 1 && !c.e.Observed():
		c.check(at+".form", "%s needs time_scale 1: the grace of a pod, and the 2s that a kubelet gives at least, do not scale; say form: crash", k.Form)
	case len(k.Exec) > 0 && !c.inPods():
		c.check(at+".exec", "is run in a pod's container, and there is no kubernetes section")
	case len(k.Exec) > 0 && !crash:
		c.check(at+".exec", "is for form crash: %s is a request to the API server", k.Form)
	case len(k.Exec) > 0 && !c.e.Observed():
		c.check(at+".exec", "is for pods that are somebody's own: lockdrill's workers are told to crash")
	case crash && len(k.Exec) == 0 && c.e.Observed():
		c.check(at+".exec", "missing: nobody tells an observed pod to crash; say a command that ends its process, such as [sh, -c, \"kill -9 $(pidof server)\"] "+
			"(process 1 of a container cannot be killed from inside), or form: graceful or force_delete")
	case slices.Contains(k.Exec, ""):
		c.check(at+".exec", "has an empty word")
	}
}

// neverGrantedAgain says why the lock is not granted once the faults have begun, or "". Another fault may cost the holder its lock.
func (c *checker) neverGrantedAgain(l *Lock) string {
	if !l.Loop() || l.Policy.Loop.Mode != lockcore.LoopRenewed || len(c.e.Faults) > 1 {
		return ""
	}
	return fmt.Sprintf("loop %s is renewed until its holder dies, so it is granted once, before the first fault; after_renew comes", l.Name)
}
