package fault

import (
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// NetworkPolicy cuts the pod of a holder off, by a NetworkPolicy of the run's own: nothing gets in or out.
type NetworkPolicy struct {
	Aim
	Reach []string // a command in the victim's container that succeeds while the pod reaches what it needs: what shows the cut, in place of its lease
}

func newNetworkPolicy(string, string) Spec { return &NetworkPolicy{} }

func (*NetworkPolicy) Kind() string      { return "network_policy" }
func (*NetworkPolicy) Form() string      { return "" }
func (*NetworkPolicy) Magnitude() string { return "" }

func (n *NetworkPolicy) Traits() Traits {
	return Traits{Class: ClassPause, Noun: "cut", Called: "cut off", GoesOn: "a pod is cut off until the policy is removed", OnTheWay: true, Cuts: true, LabelsPods: true,
		Command: n.Reach}
}

// Whom: what shows the cut is a lease that runs out.
func (*NetworkPolicy) Whom() string { return "holder_of or replica" }

func (*NetworkPolicy) Barred(a Around) string {
	switch {
	case !a.Pods:
		return "is for replicas in pods, and there is no kubernetes section: a hook can run the firewall's command"
	case !a.Observed:
		return "would cut lockdrill's workers off from the runner as well: black_hole, with proxy: {mode: external, url: ...}"
	}
	return ""
}

func (n *NetworkPolicy) Check(c Checker) {
	n.check(c, n.Whom(), true)
	if n.All && n.HolderOf == "" && n.Replica == "" {
		c.Check("all", "one pod is cut off at a time: %s", n.Whom())
	}
	if slices.Contains(n.Reach, "") {
		c.Check("reach", "has an empty word")
	}
	if len(n.Reach) > 0 {
		return
	}
	var least time.Duration
	for _, l := range c.Locks() {
		if n.HolderOf == "" || n.HolderOf == l.Name {
			least = max(least, l.Policy.TTL)
		}
	}
	if f := c.Around().For; f > 0 && f <= least {
		c.Check("", "for %s is not above the ttl of %s: a cut is confirmed when the lease of the pod has run out; or give it a reach", figures.Spell(f), figures.Spell(least))
	}
}

func (n *NetworkPolicy) Describe(bool) Description {
	if len(n.Reach) > 0 {
		return Description{"a label on the pod, and a NetworkPolicy of the run's own for it, let nothing in or out, which a command in the pod tries",
			"a command in its container fails that succeeded before: " + strings.Join(n.Reach, " ") + "; a network plugin that does not enforce policies makes the shot void",
			"the policy is deleted and the label removed, which is read back"}
	}
	return Description{"the pod gets a label, and a NetworkPolicy of the run's own lets nothing in or out of pods with that label",
		"the lease that the pod holds is not extended, and runs out: a network plugin that does not enforce policies makes the shot void",
		"the policy is deleted and the label removed, which is read back"}
}

func (*NetworkPolicy) Action(s Shot) string {
	return "cut off " + s.Victim + s.held() + " by a NetworkPolicy" + s.lasting()
}
func (n *NetworkPolicy) Measured(m Measured) string { return m.as("the cut showed after") }
