package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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

const podsGuardName = "pods"

// clusterGuards ask a cluster, before anything is made in it: what the caller may do there, what the namespace says it is, and whether
// its pods are there.
func clusterGuards(ctx context.Context, e *experiments.Experiment, c Consent, cluster *kube.Cluster) []question {
	return []question{
		{"namespace", func() (Guard, error) { return namespaceGuard(e), nil }},
		{"permissions", func() (Guard, error) { return permissionsGuard(ctx, e, cluster), nil }},
		{"environment", func() (Guard, error) { return environmentGuard(ctx, e, c, cluster) }},
		{podsGuardName, func() (Guard, error) { return podsGuard(ctx, e, cluster), nil }},
	}
}

// namespaceGuard holds a flag to the caps of the file.
func namespaceGuard(e *experiments.Experiment) Guard {
	name := e.Kubernetes.Namespace
	if e.Limits.NamespaceAllowed(name) {
		return Guard{Says: name}
	}
	return Guard{Refuses: true, Says: fmt.Sprintf("%s is not among limits.namespaces (%s)", name, strings.Join(e.Limits.Namespaces, ", "))}
}

// permissionsGuard refuses a drill that would be stopped half-way by a permission that it has not.
func permissionsGuard(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) Guard {
	ctx, cancel := context.WithTimeout(ctx, permissionsWithin)
	defer cancel()
	rules := kube.RulesFor(needs(e))
	missing, err := cluster.Missing(ctx, rules)
	if err != nil {
		return Guard{Refuses: true, Says: fmt.Sprintf("%s could not be asked: %v", clusterTarget(e.Kubernetes), err)}
	}
	if len(missing) > 0 {
		return Guard{Refuses: true, Paste: kube.RuleYAML(missing), Says: fmt.Sprintf("%s does not let this user do all that the drill does; "+
			"add to the rules of the user's Role there (lockdrill export rbac prints the whole of it):", clusterTarget(e.Kubernetes))}
	}
	return Guard{Says: fmt.Sprintf("%s, all that the drill needs", figures.Plural(len(rules), "rule"))}
}

// environmentOf is what the namespace says it is.
func environmentOf(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) (string, bool, error) {
	name, said, err := cluster.Environment(ctx)
	if errors.Is(err, kube.ErrGone) {
		return "", false, fmt.Errorf("%s: there is no such namespace", clusterTarget(e.Kubernetes))
	}
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", clusterTarget(e.Kubernetes), err)
	}
	return name, said, nil
}

// podsGuard refuses a drill of pods that are there where there are too few of them (it would wait for its steady state in vain), and a
// kill of pods by labels that none of them has.
func podsGuard(ctx context.Context, e *experiments.Experiment, cluster *kube.Cluster) Guard {
	if e.Kubernetes.Pods == experiments.PodsApply {
		says := fmt.Sprintf("the run makes %s and removes them", figures.Plural(e.System.Replicas, "worker"))
		return strikesSome(e, says, []map[string]string{deploy.AppliedLabels()})
	}
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	pods, err := cluster.Pods(ctx, podSelector(e), e.Kubernetes.Container)
	if err != nil {
		return Guard{Refuses: true, Says: fmt.Sprintf("%s could not be asked: %v", clusterTarget(e.Kubernetes), err)}
	}
	ready, self, without := 0, ownPod(), ""
	var labels []map[string]string
	for i := range pods {
		if pods[i].Name == self {
			return Guard{Refuses: true, Says: fmt.Sprintf("pod %s, in which this runs, has %s as well: give the runner's pod other labels, or a narrower kubernetes.selector",
				self, fault.Labels(podSelector(e)))}
		}
		labels = append(labels, pods[i].Labels)
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
	return strikesSome(e, says, labels)
}

// strikesSome refuses kills whose labels none of the pods has.
func strikesSome(e *experiments.Experiment, says string, pods []map[string]string) Guard {
	for i := range e.Faults {
		aim := e.Faults[i].Aim()
		if aim.Pods == "" || slices.ContainsFunc(pods, aim.Fits) {
			continue
		}
		return Guard{Refuses: true, Says: fmt.Sprintf("%s: none of them has the labels of fault %s, %s; the first has %s", says, e.Faults[i].ID,
			aim.Pods, fault.Labels(pods[0]))}
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
