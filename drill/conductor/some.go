package conductor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// A fault of several replicas, and of pods by their labels: any of them, whatever they hold.

// some chooses whom a fault strikes of the replicas that are alive and ready, or of the pods among them that it selects by labels. A life
// whose pod is not known has these: a rehearsal knows no labels.
func (c *Conductor) some(s *series) target {
	aim := s.f.Aim()
	var found []*replica
	for _, r := range c.world.replicas {
		if r.alive && r.ready && (r.pod == nil || aim.Fits(r.pod.Labels)) {
			found = append(found, r)
		}
	}
	which := "replica"
	if aim.Pods != "" {
		which = "pod with these labels"
	}
	if len(found) == 0 {
		return target{why: "no " + which + " was alive and ready" + c.unfound()}
	}
	n, said := 1, ""
	switch {
	case aim.All:
		n = len(found)
	case aim.Some.Percent > 0:
		n, said = c.shareOf(s, found)
	case aim.Some.Count > len(found):
		return target{why: fmt.Sprintf("it strikes %d replicas, and only %d were alive and ready", aim.Some.Count, len(found)) + c.unfound()}
	case aim.Some.Count > 0:
		n = aim.Some.Count
	}
	if aim.Pick == fault.PickOldest || aim.Pick == fault.PickNewest {
		slices.SortStableFunc(found, func(a, b *replica) int {
			return cmp.Or(cmp.Compare(a.created(), b.created()), cmp.Compare(a.inc, b.inc))
		})
		if aim.Pick == fault.PickNewest {
			slices.Reverse(found)
		}
	} else if n < len(found) || n == 1 {
		for i := range n {
			j := i + c.rng.IntN(len(found)-i)
			found[i], found[j] = found[j], found[i]
		}
	}
	t := target{said: said}
	for _, r := range found[:n] {
		t.victims = append(t.victims, r.inc)
	}
	slices.Sort(t.victims)
	return t
}

// shareOf is how many of these replicas the fault's share is: no more than limits allow, but at least one, and said says what kept it from
// more. One that they do not allow either is refused as any other.
func (c *Conductor) shareOf(s *series, of []*replica) (n int, said string) {
	aim := s.f.Aim()
	n = aim.Some.Of(len(of))
	most, limit := n, ""
	if l := c.e.Limits; s.does.Kills && l.MaxKills > 0 && l.MaxKills-c.kills < most {
		most, limit = l.MaxKills-c.kills, "limits.max_kills"
	}
	if l := c.e.Limits; !s.does.Kills && l.MaxTargets > 0 && l.MaxTargets-len(c.struck) < most { // struck before or not
		most, limit = l.MaxTargets-len(c.struck), "limits.max_targets"
	}
	living := 0
	for _, r := range c.world.replicas {
		if r.alive {
			living++
		}
	}
	if c.world.observed && !c.e.Limits.LastReplica && living-1 < most {
		most, limit = living-1, "the last replica"
	}
	if most = max(1, most); most < n {
		said = fmt.Sprintf("%s of %d replicas are %d: %s leaves %d", aim.Some, len(of), n, limit, most)
	}
	return min(n, most), said
}

func (r *replica) created() string {
	if r.pod == nil {
		return ""
	}
	return r.pod.Created
}
