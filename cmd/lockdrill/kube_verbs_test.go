package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// everyFault are all faults that ask something of the API server, of an observed election.
const everyFault = `  - {id: evict, at: 1s, kill: {holder_of: leader, form: evict}}
  - {id: crash, at: 30s, kill: {holder_of: leader, form: crash, exec: [kill, "-9", "1"]}}
  - {id: drain, at: 60s, for: 3s, node: {do: drain, holder_of: leader}}
  - {id: cut, at: 90s, for: 3s, network_policy: {holder_of: leader, reach: ["true"]}}
  - {id: roll, at: 120s, rolling_restart: {rollout: deployment/web}}
  - {id: object, at: 150s, for: 3s, object: {holder_of: leader, manifest: {apiVersion: v1, kind: LimitRange, metadata: {name: small}}, confirm: "{.metadata.uid}"}}
  - {id: wide, at: 180s, for: 3s, object: {manifest: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: "x-${run}"}, value: 1}, confirm: "{.metadata.uid}"}}
`

// verbDrills are experiments whose shipped Roles have every rule that there is between them.
func verbDrills(t *testing.T) map[string]string {
	redis, ledger := redistest.Start(t), redistest.Start(t)
	applied := func(namespace string) string {
		return edit(t, fmt.Sprintf(podsDrill, redis, ledger, namespace), "kubernetes: {", "kubernetes: {events: true, ", "form: crash", "form: graceful")
	}
	guarded, ca, _ := redistest.StartTLS(t) // its certificate is in a ConfigMap
	return map[string]string{
		"applied":  applied("applied"),
		"stateful": edit(t, applied("stateful"), "pods: apply", "pods: apply, workers: statefulset", `"redis://`+redis+`"`, `"rediss://`+guarded+`", ca: `+ca),
		"first":    besideDrill(t, "first", "second"),
		"observed": edit(t, fmt.Sprintf(electedDrill, "observed"), "kubernetes: {", "kubernetes: {events: true, allow: [PriorityClass], ",
			"  - {id: kill, at: 0s, kill: {holder_of: leader, form: force_delete}}\n", "  - {id: kill, at: 0s, kill: {holder_of: leader, form: force_delete}}\n"+everyFault,
			"max_run: 3m", "max_run: 10m", "max_kills: 4", "max_kills: 20"),
	}
}

// Each verb of the shipped Role is taken away in turn: the run is refused and names it, before anything is touched. And the Role gives
// what it says and nothing more, by the API server's own account of it.
func TestKubeEachVerbOfTheRoleIsMissed(t *testing.T) {
	env := kubetest.Start(t, kubetest.Options{NoNode: true})
	drills := verbDrills(t)
	env.Namespace("second", map[string]string{kube.EnvironmentAnnotation: "staging"}) // of the drill of several
	for name, yaml := range drills {
		env.Namespace(name, map[string]string{kube.EnvironmentAnnotation: "staging"})
		s := &site{Env: env, namespace: name, kubeconfig: env.Kubeconfig}
		t.Run(name, func(t *testing.T) {
			s.shippedRole(t, yaml)
			summary := deploy.SummaryName("pods")
			dir := folder(t, "pods.yaml", yaml)
			e, _, err := loadExperiment(filepath.Join(dir, "pods.yaml"))
			must(t, err)
			rules := drill.Rules(e, summary)
			for _, namespace := range append([]string{name}, e.Kubernetes.Namespaces...) {
				anybody, want := canI(t, env.KubeconfigForServiceAccount(namespace, "somebody"), namespace), map[string]bool{}
				for _, r := range rules {
					if cmp.Or(r.Namespace, name) != namespace && !r.Wide {
						continue
					}
					for _, verb := range r.Verbs {
						want[permission(verb, r.APIGroup, strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/"), r.Names)] = true
					}
				}
				got := canI(t, s.kubeconfig, namespace)
				for p := range got {
					if !want[p] && !anybody[p] {
						t.Errorf("the Role gives %s in %s, which no rule asks for", p, namespace)
					}
				}
				for p := range want {
					if !got[p] {
						t.Errorf("the Role does not give %s in %s", p, namespace)
					}
				}
			}
			objects := s.objects(t)
			consent := drill.Consent{Environment: "staging", Confirm: []string{"pods"}, Cluster: drill.Cluster{Kubeconfig: s.kubeconfig}, Summary: summary}
			tried := 0
			s.withoutEachVerb(t, rules, e.Kubernetes.Namespaces, func(missing kube.Rule) {
				tried++
				err := drill.Authorize(t.Context(), e, consent)
				var refused *drill.Error
				if !errors.As(err, &refused) || refused.Status != verdict.ExitRefused {
					t.Errorf("without %s of %s: %v", missing.Verbs[0], missing.Resource, err)
					return
				}
				rule := strings.TrimRight(kube.RuleYAML([]kube.Rule{missing}), "\n")
				if said := err.Error(); !strings.Contains(said, "nothing was touched") || !strings.HasSuffix(said, ":\n"+rule) {
					t.Errorf("without %s of %s it says:\n%s\nwant the rule\n%s", missing.Verbs[0], missing.Resource, said, rule)
				}
			})
			if tried < 15 {
				t.Errorf("only %d verbs were tried", tried)
			}
			t.Logf("%d verbs", tried)
			if after := s.objects(t); !slices.Equal(after, objects) {
				t.Errorf("before: %q, afterwards: %q", objects, after)
			}
			if err := drill.Authorize(t.Context(), e, consent); err != nil && strings.Contains(err.Error(), "permissions") {
				t.Errorf("with the whole Role: %v", err)
			}
		})
	}
}

// permission is one verb of one resource.
func permission(verb, group, resource string, names []string) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", verb, cmp.Or(group, "core"), resource, strings.Join(slices.Sorted(slices.Values(names)), ",")))
}

// canI is what kubectl auth can-i --list says of resources to the user of a kubeconfig.
func canI(t *testing.T, kubeconfig, namespace string) map[string]bool {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authv1.SelfSubjectRulesReview{Spec: authv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil || review.Status.Incomplete {
		t.Fatalf("%+v, %v", review, err)
	}
	all := map[string]bool{}
	for _, r := range review.Status.ResourceRules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					all[permission(verb, group, resource, r.ResourceNames)] = true
				}
			}
		}
	}
	return all
}

// withoutEachVerb takes away one verb after the other, of the Role, of those in namespaces beside and of the ClusterRole, and gives it back. It
// calls while when the API server has heard that it is gone.
func (s *site) withoutEachVerb(t *testing.T, rules []kube.Rule, beside []string, while func(missing kube.Rule)) {
	t.Helper()
	as := s.cluster(t)
	for n, namespace := range append([]string{s.namespace}, beside...) {
		role, err := s.Client.RbacV1().Roles(namespace).Get(t.Context(), deploy.RunnerName("pods"), metav1.GetOptions{})
		must(t, err)
		where := kube.Rule{}
		if n > 0 {
			where.Namespace = namespace
		}
		for i := range role.Rules {
			for _, verb := range role.Rules[i].Verbs {
				s.without(t, as, role.Rules[i], verb, where, while, func(ctx context.Context, left []string) error {
					now := role.DeepCopy()
					if now.Rules[i].Verbs = left; len(left) == 0 {
						now.Rules = slices.Delete(now.Rules, i, i+1)
					}
					now.ResourceVersion = "" // whatever is there
					_, err := s.Client.RbacV1().Roles(namespace).Update(ctx, now, metav1.UpdateOptions{})
					return err
				})
			}
		}
	}
	name := s.namespace + "-" + deploy.RunnerName("pods")
	wide, err := s.Client.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return // there is none
	}
	for i := range wide.Rules {
		for _, verb := range wide.Rules[i].Verbs {
			s.without(t, as, wide.Rules[i], verb, kube.Rule{Wide: true}, while, func(ctx context.Context, left []string) error {
				now := wide.DeepCopy()
				if now.Rules[i].Verbs = left; len(left) == 0 {
					now.Rules = slices.Delete(now.Rules, i, i+1)
				}
				now.ResourceVersion = ""
				_, err := s.Client.RbacV1().ClusterRoles().Update(ctx, now, metav1.UpdateOptions{})
				return err
			})
		}
	}
	awaitRules(t, as, rules)
}

// without takes one verb away by change, and gives it back. missing says where the rule is.
func (s *site) without(t *testing.T, as *kube.Cluster, r rbacv1.PolicyRule, verb string, missing kube.Rule, while func(kube.Rule), change func(context.Context, []string) error) {
	t.Helper()
	missing.Resource, missing.Subresource, _ = strings.Cut(r.Resources[0], "/")
	missing.APIGroup, missing.Verbs, missing.Names = r.APIGroups[0], []string{verb}, r.ResourceNames
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, change(ctx, slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return v == verb })))
	until(t, "the Role without "+permission(verb, missing.APIGroup, r.Resources[0], r.ResourceNames), func() bool {
		gone, err := as.Missing(ctx, []kube.Rule{missing})
		return err == nil && len(gone) == 1
	})
	while(missing)
	must(t, change(ctx, r.Verbs))
	awaitRules(t, as, []kube.Rule{missing})
}
