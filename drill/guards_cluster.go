package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// permissionsWithin bounds asking for all permissions, one after the other.
const permissionsWithin = 15 * time.Second

// clusterGuards ask a cluster, before anything is made in it: what the caller may do there, what the namespace says it is, and whether
// its pods are there.
func clusterGuards(ctx context.Context, e *experiments.Experiment, c Consent, cluster *kube.Cluster) []question {
	all := []question{
		{namespaceGuardName, func() (Guard, error) { return namespaceGuard(e), nil }},
		{permissionsGuardName, func() (Guard, error) { return permissionsGuard(ctx, e, c.Summary, cluster), nil }},
		{environmentGuardName, func() (Guard, error) { return environmentGuard(ctx, e, c, cluster) }},
	}
	if e.Kubernetes != nil {
		all = append(all, question{podsGuardName, func() (Guard, error) { return podsGuard(ctx, e, cluster), nil }})
	}
	return all
}

// namespaceGuard holds a flag to the caps of the file.
func namespaceGuard(e *experiments.Experiment) Guard {
	k := e.InCluster()
	all := append([]string{k.Namespace}, k.Namespaces...)
	for _, name := range all {
		if !e.Limits.NamespaceAllowed(name) {
			return Guard{Refuses: true, Says: fmt.Sprintf("%s is not among limits.namespaces (%s)", name, strings.Join(e.Limits.Namespaces, ", "))}
		}
	}
	return Guard{Says: strings.Join(all, ", ")}
}

// permissionsGuard refuses a drill that would be stopped half-way by a permission that it has not.
func permissionsGuard(ctx context.Context, e *experiments.Experiment, summary string, cluster *kube.Cluster) Guard {
	ctx, cancel := context.WithTimeout(ctx, permissionsWithin)
	defer cancel()
	problem, err := served(ctx, e, cluster)
	if problem != "" {
		return Guard{Refuses: true, Says: problem}
	}
	rules := Rules(e, summary)
	var missing []kube.Rule
	if err == nil {
		missing, err = cluster.Missing(ctx, rules)
	}
	if err != nil {
		return Guard{Refuses: true, Says: fmt.Sprintf("%s could not be asked: %v", e.InCluster().Target(), err)}
	}
	if len(missing) > 0 {
		return Guard{Refuses: true, Paste: kube.RuleYAML(missing), Says: fmt.Sprintf("%s does not let this user do all that the drill does; "+
			"add to the rules of the user's Role there (lockdrill export rbac prints the whole of it):", e.InCluster().Target())}
	}
	return Guard{Says: fmt.Sprintf("%s, all that the drill needs", figures.Plural(len(rules), "rule"))}
}

// inNamespace names one of the drill's namespaces, for people.
func inNamespace(k *experiments.Kubernetes, namespace string) string {
	one := *k
	one.Namespace, one.Namespaces = namespace, nil
	return one.Target()
}

// environmentOf is what the namespace says it is.
func environmentOf(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) (string, bool, error) {
	name, said, err := cluster.Environment(ctx)
	if errors.Is(err, kube.ErrGone) {
		return "", false, fmt.Errorf("%s: there is no such namespace", inNamespace(e.InCluster(), cluster.Namespace))
	}
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", inNamespace(e.InCluster(), cluster.Namespace), err)
	}
	return name, said, nil
}

// podsGuard refuses a drill of pods that are there where there are too few of them (it would wait for its steady state in vain), and a
// kill of pods by labels that none of them has.
func podsGuard(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) Guard {
	if e.Kubernetes.Pods == experiments.PodsApply {
		says := fmt.Sprintf("the run makes %s and removes them", figures.Plural(e.System.Replicas, "worker"))
		made := appliedPods(e)
		return strikesSome(e, says+budgetsOf(ctx, e, cluster, made), made)
	}
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	pods, err := drillPods(ctx, e, cluster)
	if err != nil {
		return Guard{Refuses: true, Says: fmt.Sprintf("%s could not be asked: %v", e.Kubernetes.Target(), err)}
	}
	ready, live, self, without := 0, 0, ownPod(), ""
	owners := map[string]int{} // how many of the live ones
	several := false           // in one namespace
	first := map[string]string{}
	for i := range pods {
		if kube.Bare(pods[i].Name) == self {
			return Guard{Refuses: true, Says: fmt.Sprintf("pod %s, in which this runs, has %s as well: give the runner's pod other labels, or a narrower kubernetes.selector",
				self, fault.Labels(podSelector(e)))}
		}
		if !pods[i].Over() {
			live++
			in, _ := kube.NamespaceIn(pods[i].Name)
			owner := cmp.Or(pods[i].Owner, "no controller")
			if had, seen := first[in]; seen && had != owner {
				several = true
			}
			first[in] = owner
			if in != "" {
				owner += " in " + in
			}
			owners[owner]++
		}
		switch c := e.Kubernetes.Container; {
		case c != "" && !slices.Contains(pods[i].Containers, c): // nobody lives there, as far as this drill is concerned
			without = fmt.Sprintf("; pod %s has no container %s, only %s", pods[i].Name, c, strings.Join(pods[i].Containers, ", "))
		case pods[i].Ready && !pods[i].Ending:
			ready++
		}
	}
	says := fmt.Sprintf("%s with %s, %d of them ready%s", figures.Plural(len(pods), "pod"), fault.Labels(podSelector(e)), ready, without)
	if ready < e.System.Replicas {
		says += fmt.Sprintf(": system.replicas is %d", e.System.Replicas)
		if len(pods) == 0 && !e.Observed() {
			says += "; lockdrill export deployment prints the workers"
		}
		return Guard{Refuses: true, Says: says}
	}
	if several || live > e.System.Replicas {
		return Guard{Refuses: true, Says: says + tooMany(e, live, owners, several)}
	}
	if why := sameName(e, pods); why != "" {
		return Guard{Refuses: true, Says: says + ": " + why}
	}
	if why := foreignOwner(ctx, e, cluster); why != "" {
		return Guard{Refuses: true, Says: says + ": " + why}
	}
	return strikesSome(e, says+budgetsOf(ctx, e, cluster, pods), pods)
}

// appliedPods are the pods that a run will make, as far as they are known before.
func appliedPods(e *experiments.Experiment) []kube.Pod {
	all := make([]kube.Pod, e.System.Replicas)
	for i := range all {
		if all[i].Labels = deploy.AppliedLabels(); e.Kubernetes.Workers == experiments.WorkersStatefulSet {
			all[i].Labels[podIndex] = strconv.Itoa(i)
		}
	}
	return all
}

// podIndex is the label that a StatefulSet gives its pods.
const podIndex = "apps.kubernetes.io/pod-index"

// budgetsOf says which disruption budgets of these pods the faults go around, and which they ask; "" = there are none, or it matters to
// no fault.
func budgetsOf(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster, pods []kube.Pod) string {
	var deletes, evicts []string
	for i := range e.Faults {
		switch t := e.Faults[i].Traits(); {
		case t.DeletesPods:
			deletes = append(deletes, e.Faults[i].ID)
		case t.Evicts:
			evicts = append(evicts, e.Faults[i].ID)
		}
	}
	if len(deletes)+len(evicts) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	budgets, err := cluster.Budgets(ctx)
	if err != nil {
		return fmt.Sprintf("; its disruption budgets are not known: %v", err)
	}
	var names []string
	for _, b := range budgets {
		if slices.ContainsFunc(pods, b.Covers) {
			names = append(names, fmt.Sprintf("%s (allows %s now)", b.Name, figures.Plural(b.Allows, "disruption")))
		}
	}
	if len(names) == 0 {
		return ""
	}
	says := ""
	if len(deletes) > 0 {
		says = fmt.Sprintf("; %s deletes pods, which goes around PodDisruptionBudget %s: an eviction honours it", strings.Join(deletes, ", "), strings.Join(names, ", "))
	}
	if len(evicts) > 0 {
		says += fmt.Sprintf("; %s evicts pods only as PodDisruptionBudget %s lets it", strings.Join(evicts, ", "), strings.Join(names, ", "))
	}
	return says
}

// tooMany says whose pods have the labels, where that is not one controller's, or there are more than the experiment's replicas.
func tooMany(e *experiments.Experiment, live int, owners map[string]int, several bool) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		all = append(all, fmt.Sprintf("%d of %s", owners[name], name))
	}
	says := ": they are " + strings.Join(all, ", ")
	if live > e.System.Replicas {
		says += fmt.Sprintf(", and system.replicas is %d", e.System.Replicas)
	}
	if several {
		return says + "; name the one to drill in kubernetes.controller, such as controller: deployment/web, or narrow kubernetes.selector"
	}
	return says + "; a kill could strike one that the experiment does not count: set system.replicas to what is there"
}

// sameName says which pods of several namespaces a lock could not tell apart, where it names its holder by the pod's name; "" = none.
func sameName(e *experiments.Experiment, pods []kube.Pod) string {
	if h := e.Kubernetes.Holder; h != nil && h.Name == "" {
		return ""
	}
	seen := map[string]string{}
	for i := range pods {
		name := pods[i].Name
		if other := seen[kube.Bare(name)]; other != "" {
			return fmt.Sprintf("pods %s and %s call themselves the same, and a lock names its holder so: have it name a label or an annotation (kubernetes.holder)", other, name)
		}
		seen[kube.Bare(name)] = name
	}
	return ""
}

// foreignOwner says why what a fault restarts does not own the drill's pods; "" = it does.
func foreignOwner(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) string {
	for i := range e.Faults {
		owner := e.Faults[i].Traits().Owner
		if owner == "" {
			continue
		}
		w, err := cluster.Workload(ctx, owner)
		if err != nil {
			return fmt.Sprintf("fault %s: %v", e.Faults[i].ID, err)
		}
		for key, value := range podSelector(e) {
			if w.Labels[key] != value {
				return fmt.Sprintf("fault %s: the pods of %s do not have the label %s=%s", e.Faults[i].ID, owner, key, value)
			}
		}
	}
	return ""
}

// strikesSome refuses kills whose labels none of the pods has.
func strikesSome(e *experiments.Experiment, says string, pods []kube.Pod) Guard {
	for i := range e.Faults {
		aim := e.Faults[i].Aim()
		if aim.Pods == "" || slices.ContainsFunc(pods, func(p kube.Pod) bool { return aim.Fits(p.Labels) }) {
			continue
		}
		return Guard{Refuses: true, Says: fmt.Sprintf("%s: none of them has the labels of fault %s, %s; the first has %s", says, e.Faults[i].ID,
			aim.Pods, fault.Labels(pods[0].Labels))}
	}
	return Guard{Says: says}
}

// ownPod is the name of the pod that this process runs in; "" = in none. A runner must not strike itself, nor count itself as a replica.
func ownPod() string {
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return ""
	}
	name, _ := os.Hostname() // a pod's is its name, unless it says otherwise
	return name
}
