package e2e

import (
	"strings"
	"testing"

	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// applyAll applies manifests that lockdrill has printed, as an administrator.
func (s *site) applyAll(t *testing.T, manifests string) {
	t.Helper()
	to, err := kube.Open(kube.Options{Kubeconfig: s.Env.Kubeconfig, Namespace: s.namespace})
	must(t, err)
	applyAll(t, to, manifests)
}

// applyAll applies manifests, each in its namespace; there are some.
func applyAll(t *testing.T, to *kube.Cluster, manifests string) {
	t.Helper()
	objects, err := kube.ParseManifests([]byte(manifests))
	must(t, err)
	if len(objects) == 0 {
		t.Fatal("nothing was exported")
	}
	for _, o := range objects {
		to := to
		if in := o.GetNamespace(); in != "" && in != to.Namespace {
			if to, err = kube.Open(kube.Options{Kubeconfig: to.Kubeconfig, Namespace: in}); err != nil {
				t.Fatal(err)
			}
		}
		must(t, to.Apply(t.Context(), o))
	}
}

// killedByTheRole: the run's own workers are killed in all three forms, with Events, by the shipped Role and no more; nothing is left but its summary.
func killedByTheRole(t *testing.T, s *site) {
	yaml := edit(t, s.yaml(), "op_timeout: 100ms", "op_timeout: 200ms", "stop_budget: 50ms", "stop_budget: 100ms", "timeout: 100ms}", "timeout: 200ms}",
		"  - {id: kill, at: 0s, repeat: {count: 2, every: settled}, kill: {holder_of: loop, form: crash}}", `  - {id: crash, at: 0s, kill: {holder_of: loop, phase: random, form: crash}}
  - {id: graceful, at: 2500ms, kill: {holder_of: loop, phase: random, form: graceful}}
  - {id: forced, at: 5s, kill: {holder_of: loop, phase: random, form: force_delete}}`,
		"kubernetes: {", "kubernetes: {events: true, ", "slos:\n", "slos:\n  - {lock: loop, overlap: {level: belief, max: 0s}}\n")
	s.shippedRole(t, yaml)
	before := s.objects(t)
	// What a busy machine costs is a trial, never a permission.
	o := runDrill(t, yaml, nil, s.runFlags()...)
	if o.code != verdict.ExitPass && o.code != verdict.ExitInconclusive {
		t.Fatalf("exit %d\n%s", o.code, o.text)
	}
	if f := o.j.Faults[0]; f.Confirmed && (f.Death == nil || f.Death.Means != "worker" || f.Death.Object != nil || f.Death.End == nil) { // of the crash
		t.Errorf("death %+v", f.Death)
	}
	says(t, o.text, "3 replicas as pods", "3 workers of this run's own in pods of kubernetes kubetest/role", "crashed r")
	if _, err := s.Client.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), deploy.SummaryName("pods"), metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	s.clean(t, before...)
	s.eventsOf(t, "LockdrillBegins", "LockdrillStruck", "LockdrillEnds")
	s.roleFits(t)
	s.mayNothingElse(t)
}

// eventsOf finds Events of each reason, which say how to stop the run; of a struck pod, about one by its UID.
func (s *site) eventsOf(t *testing.T, reasons ...string) {
	t.Helper()
	list, err := s.Client.CoreV1().Events(s.namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, reason := range reasons {
		found := 0
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, "to stop it, interrupt process") && (e.InvolvedObject.Kind == "Namespace" || e.InvolvedObject.UID != "") {
				found++
			}
		}
		if found == 0 {
			t.Errorf("no event %s among %d", reason, len(list.Items))
		}
	}
}

// mayNothingElse asks the API server for what the Role must not give.
func (s *site) mayNothingElse(t *testing.T) {
	t.Helper()
	for _, a := range []authv1.ResourceAttributes{
		{Namespace: s.namespace, Verb: "get", Resource: "secrets"}, {Namespace: s.namespace, Verb: "create", Resource: "pods"},
		{Namespace: s.namespace, Verb: "create", Resource: "pods", Subresource: "exec"}, {Namespace: s.namespace, Verb: "patch", Group: rbacv1.GroupName, Resource: "roles"},
		{Namespace: s.namespace, Verb: "patch", Resource: "namespaces", Name: s.namespace}, {Namespace: "default", Verb: "list", Resource: "pods"},
		{Namespace: "default", Verb: "get", Resource: "namespaces", Name: "default"}, {Verb: "list", Resource: "nodes"},
		{Namespace: s.namespace, Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "of-a-controller"},
	} {
		review, err := s.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authv1.SubjectAccessReview{
			Spec: authv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + s.namespace + ":" + deploy.RunnerName("pods"), ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		must(t, err)
		if review.Status.Allowed {
			t.Errorf("the Role permits %+v: %s", a, review.Status.Reason)
		}
	}
}
