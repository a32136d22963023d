package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// roleDrill is the drill of pods that kills workers of the run's own in all three forms, and runs in seconds.
func roleDrill(t *testing.T) string {
	t.Helper()
	return edit(t, fmt.Sprintf(podsDrill, redistest.Start(t), redistest.Start(t), "drills"),
		"lockdrill:test", "registry.example/lockdrill:test",
		"op_timeout: 100ms", "op_timeout: 200ms", "stop_budget: 50ms", "stop_budget: 100ms", "timeout: 100ms}", "timeout: 200ms}",
		"  - {id: kill, at: 0s, repeat: {count: 2, every: settled}, kill: {holder_of: loop, form: crash}}", `  - {id: crash, at: 0s, kill: {holder_of: loop, phase: random, form: crash}}
  - {id: graceful, at: 2500ms, kill: {holder_of: loop, phase: random, form: graceful}}
  - {id: forced, at: 5s, kill: {holder_of: loop, phase: random, form: force_delete}}`,
		"kubernetes: {", "kubernetes: {events: true, ", "slos:\n", "slos:\n  - {lock: loop, overlap: {level: belief, max: 0s}}\n")
}

// podRig is a cluster whose containers are the built lockdrill, a namespace that may be drilled, and two stores.
type podRig struct {
	*kubetest.Env
	admin *kube.Cluster
	dir   string // with pods.yaml
}

func newPodRig(t *testing.T) *podRig {
	t.Helper()
	r := &podRig{dir: t.TempDir()}
	r.Env = kubetest.Start(t, kubetest.Options{
		Controllers: true, NodeOptions: kubetest.NodeOptions{Run: kubetest.Command(built)}, Audit: true,
	})
	r.Namespace("drills", map[string]string{kube.EnvironmentAnnotation: "staging"})
	var err error
	if r.admin, err = kube.Open(kube.Options{Kubeconfig: r.Kubeconfig, Namespace: "drills"}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.dir, "pods.yaml"), []byte(roleDrill(t)))
	return r
}

// applyAll applies manifests that lockdrill has printed.
func applyAll(t *testing.T, to *kube.Cluster, manifests string) {
	t.Helper()
	objects, err := kube.ParseManifests([]byte(manifests))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		to := to
		if in := o.GetNamespace(); in != "" && in != to.Namespace {
			if to, err = kube.Open(kube.Options{Kubeconfig: to.Kubeconfig, Namespace: in}); err != nil {
				t.Fatal(err)
			}
		}
		if err := to.Apply(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// shippedRole applies what export rbac prints, and returns a kubeconfig for the service account in it.
func (r *podRig) shippedRole(t *testing.T) string {
	t.Helper()
	got := tryIn(t, r.dir, "export", "rbac", "pods.yaml")
	if got.code != verdict.ExitPass {
		t.Fatalf("export rbac: %+v", got)
	}
	applyAll(t, r.admin, got.stdout)
	return r.KubeconfigForServiceAccount("drills", deploy.RunnerName("pods"))
}

func TestKubeRunWithTheShippedRole(t *testing.T) {
	t.Parallel()
	r := newPodRig(t)
	file := r.shippedRole(t)
	before := r.remaining(t)
	begun := time.Now()
	got := tryIn(t, r.dir, "run", "pods.yaml", "--kubeconfig", file, "--environment", "staging", "--confirm", "pods",
		"--seed", "1", "--summary-configmap", deploy.SummaryName("pods"))
	t.Logf("%v\n%s%s", time.Since(begun).Round(time.Millisecond), got.stdout, got.stderr)
	// What a busy machine costs is a trial, never a permission.
	if got.code != verdict.ExitPass && got.code != verdict.ExitInconclusive {
		t.Fatalf("status %d", got.code)
	}
	if after := r.remaining(t); !slices.Equal(after, append([]string{"configmaps " + deploy.SummaryName("pods")}, before...)) {
		t.Errorf("before the run: %q, after it: %q", before, after)
	}
	r.eventsOf(t, "LockdrillBegins", "LockdrillStruck", "LockdrillEnds")
	account := deploy.RunnerName("pods")
	usedAsPermitted(t, r.Env, 0, file, account, "drills")
	r.mayNothingElse(t, account)
}

// eventsOf finds Events of each reason, which say how to stop the run; of a struck pod, about one by its UID.
func (r *podRig) eventsOf(t *testing.T, reasons ...string) {
	t.Helper()
	list, err := r.Client.CoreV1().Events("drills").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
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

// remaining is everything in the namespace that a run might leave.
func (r *podRig) remaining(t *testing.T) []string {
	t.Helper()
	var names []string
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, path := range []string{"/api/v1/namespaces/drills/%s pods configmaps secrets services serviceaccounts", "/apis/apps/v1/namespaces/drills/%s deployments replicasets statefulsets",
		"/apis/coordination.k8s.io/v1/namespaces/drills/%s leases", "/apis/networking.k8s.io/v1/namespaces/drills/%s networkpolicies",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/drills/%s roles rolebindings"} {
		words := strings.Fields(path)
		for _, kind := range words[1:] {
			data, err := r.Client.Discovery().RESTClient().Get().AbsPath(fmt.Sprintf(words[0], kind)).DoRaw(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var list metav1.PartialObjectMetadataList
			if err := json.Unmarshal(data, &list); err != nil {
				t.Fatal(err)
			}
			for _, o := range list.Items {
				if o.Name != "kube-root-ca.crt" { // a controller's, sooner or later
					names = append(names, kind+" "+o.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// mayNothingElse asks the API server for what the Role must not give.
func (r *podRig) mayNothingElse(t *testing.T, account string) {
	t.Helper()
	for _, a := range []authv1.ResourceAttributes{
		{Namespace: "drills", Verb: "get", Resource: "secrets"}, {Namespace: "drills", Verb: "create", Resource: "pods"},
		{Namespace: "drills", Verb: "create", Resource: "pods", Subresource: "exec"}, {Namespace: "drills", Verb: "patch", Group: rbacv1.GroupName, Resource: "roles"},
		{Namespace: "drills", Verb: "patch", Resource: "namespaces", Name: "drills"}, {Namespace: "default", Verb: "list", Resource: "pods"},
		{Namespace: "default", Verb: "get", Resource: "namespaces", Name: "default"}, {Verb: "list", Resource: "nodes"},
		{Namespace: "drills", Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "of-a-controller"},
	} {
		review, err := r.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authv1.SubjectAccessReview{
			Spec: authv1.SubjectAccessReviewSpec{User: "system:serviceaccount:drills:" + account, ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed {
			t.Errorf("the Role permits %+v: %s", a, review.Status.Reason)
		}
	}
}
