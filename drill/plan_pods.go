package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// lookUpPods lists the pods that the drill would have, and says of each fault whom it would strike now, as far as that can be known
// without touching anything. Nothing is asked of a cluster that a guard has refused.
func lookUpPods(ctx context.Context, e *experiments.Experiment, c Consent, plan *forecast.Plan) {
	if slices.ContainsFunc(plan.Guards, func(g Guard) bool { return stops(g) && g.Name != podsGuardName }) {
		return
	}
	cluster, err := c.Cluster.open(e)
	if err != nil { // the guards have opened it before
		return
	}
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	for _, one := range cluster.Each() {
		if g, taken := turnGuard(ctx, e, one); taken {
			plan.Guards = append(plan.Guards, g)
		}
	}
	var pods []kube.Pod
	if e.Kubernetes.Pods == experiments.PodsUse {
		if pods, err = drillPods(ctx, e, cluster); err != nil {
			return // the guard of the pods has said it
		}
	}
	for i := range pods {
		p := &pods[i]
		plan.Pods = append(plan.Pods, forecast.PlannedPod{Name: p.Name, UID: p.UID, Node: p.Node, Phase: phaseOf(p), Ready: p.Ready})
	}
	for i := range plan.Timeline {
		if f := faultOf(e, plan.Timeline[i].ID); f.Traits().Kills {
			plan.Timeline[i].Now = strikesNow(ctx, e, cluster, f.Aim(), pods)
		}
	}
}

// turnGuard tells of another run that has the namespace. That a run is dead is found out by one that wants its turn.
func turnGuard(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) (Guard, bool) {
	lease, ok, err := cluster.Lease(ctx, kube.RunLease)
	if err != nil || !ok || lease.Holder == "" || time.Since(lease.Renewed) > lease.Duration {
		return Guard{}, false // one that cannot be asked is the permissions' matter
	}
	return Guard{Name: targetGuardName, Refuses: true, Says: fmt.Sprintf("%s is held by run %s since %s: one run at a time",
		inNamespace(e.Kubernetes, cluster.Namespace), lease.Holder, lease.Acquired.UTC().Format(time.RFC3339))}, true
}

func phaseOf(p *kube.Pod) string {
	if p.Ending {
		return p.Phase + ", ending"
	}
	return p.Phase
}

// strikesNow says whom a kill would strike at this moment.
func strikesNow(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster, aim fault.Aim, pods []kube.Pod) []string {
	switch {
	case e.Kubernetes.Pods == experiments.PodsApply:
		return []string{"the run makes its pods: there are none yet"}
	case aim.Pods != "":
		return []string{pickNow(aim, pods)}
	case !e.Observed():
		return []string{"the holder of a lock of the run: its keys are not there yet, and any of the pods may take them"}
	}
	at := slices.IndexFunc(e.System.Locks, func(l experiments.Lock) bool { return l.Name == aim.HolderOf })
	if at < 0 {
		return nil
	}
	l := &e.System.Locks[at]
	if l.Lease == "" {
		return []string{"the holder of the key " + l.Key + " at the moment of firing"}
	}
	p, as, why := leaseNow(ctx, e, cluster, l.Lease, pods)
	if p == nil {
		return []string{why}
	}
	return []string{fmt.Sprintf("pod %s (uid %s), which holds the Lease %s as %q", p.Name, p.UID, l.Lease, as)}
}

// leaseNow is the pod that holds a Lease object now, and under which name; nil = none of them, and why.
func leaseNow(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster, name string, pods []kube.Pod) (p *kube.Pod, as, why string) {
	lease, ok, err := cluster.Lease(ctx, name)
	switch {
	case err != nil:
		return nil, "", "not known: " + err.Error()
	case !ok:
		return nil, "", "there is no Lease " + name
	case lease.Holder == "":
		return nil, "", "nobody holds the Lease " + name
	}
	if p = holderPod(e.Kubernetes.Holder, lease.Holder, pods); p == nil {
		why = fmt.Sprintf("the Lease %s is held by %q, and none of the pods is that by kubernetes.holder", name, lease.Holder)
	}
	return p, lease.Holder, why
}

// pickNow is the pod that a kill by labels would strike.
func pickNow(aim fault.Aim, pods []kube.Pod) string {
	var fit []kube.Pod
	for _, p := range pods {
		if !p.Ending && aim.Fits(p.Labels) {
			fit = append(fit, p)
		}
	}
	if len(fit) == 0 {
		return "none of the pods has the labels " + aim.Pods
	}
	slices.SortStableFunc(fit, func(a, b kube.Pod) int { return a.Created.Compare(b.Created) })
	switch aim.Pick {
	case fault.PickOldest:
		return fmt.Sprintf("pod %s (uid %s), the oldest of %d", fit[0].Name, fit[0].UID, len(fit))
	case fault.PickNewest:
		last := fit[len(fit)-1]
		return fmt.Sprintf("pod %s (uid %s), the newest of %d", last.Name, last.UID, len(fit))
	}
	var names []string
	for _, p := range fit {
		names = append(names, p.Name)
	}
	return "one of " + strings.Join(names, ", ")
}

// holderPod is the pod that a holder's name leads to, the one with the longest name of several; nil = none of them.
func holderPod(h *experiments.HolderNames, holder string, all []kube.Pod) (best *kube.Pod) {
	for i := range all {
		if p := &all[i]; h.Is(holder, kube.Bare(p.Name), p.Labels, p.Annotations) && (best == nil || len(p.Name) > len(best.Name)) {
			best = p
		}
	}
	return best
}
