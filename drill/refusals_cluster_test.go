package drill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// apiServer answers what the guards and the plan ask of a cluster, and notes whoever would change something. It is no cluster: drills
// run in a real one (make test-kube).
type apiServer struct {
	environment string
	gone        bool   // there is no namespace
	denied      string // resource and subresource that the caller has no permission for, "pods/log"
	pods        []string
	owners      map[string]string // StatefulSets of pods
	run         string            // that has the namespace; "" = none

	mu      sync.Mutex
	changed []string
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type m = map[string]any
	var answer any
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		body, _ := io.ReadAll(r.Body)
		review := &authv1.SelfSubjectAccessReview{}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		about := review.Spec.ResourceAttributes
		what := strings.TrimSuffix(about.Resource+"/"+about.Subresource, "/")
		answer = m{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": m{"allowed": what != a.denied && about.Namespace == "locks"}}
	case r.Method != http.MethodGet:
		a.mu.Lock()
		a.changed = append(a.changed, r.Method+" "+path)
		a.mu.Unlock()
		http.Error(w, "no", http.StatusForbidden)
		return
	case path == "/api/v1/namespaces/locks" && !a.gone:
		answer = m{"apiVersion": "v1", "kind": "Namespace", "metadata": m{"name": "locks", "uid": "uid-of-locks", "annotations": m{"lockdrill.dev/environment": a.environment}}}
	case path == "/api/v1/namespaces/locks/pods":
		items := []any{}
		for i, name := range a.pods {
			owner := []m{}
			if a.owners[name] != "" {
				owner = append(owner, m{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": a.owners[name], "uid": "o", "controller": true})
			}
			items = append(items, m{"metadata": m{"name": name, "uid": fmt.Sprintf("uid-%d", i), "labels": m{"app": "web"}, "ownerReferences": owner},
				"spec": m{"nodeName": "node-1", "containers": []m{{"name": "web"}}}, "status": m{"phase": "Running", "conditions": []m{{"type": "Ready", "status": "True"}}}})
		}
		answer = m{"apiVersion": "v1", "kind": "PodList", "items": items}
	case strings.HasSuffix(path, "/leases/lockdrill-run") && a.run != "":
		now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
		answer = m{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": m{"name": "lockdrill-run"},
			"spec": m{"holderIdentity": a.run, "leaseDurationSeconds": 60, "acquireTime": now, "renewTime": now}}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// as serves it, and is who says yes to it: by a kubeconfig with the contexts "test" and "other". nil: nobody answers.
func (a *apiServer) as(t *testing.T) Consent {
	t.Helper()
	url := "http://127.0.0.1:1"
	if a != nil {
		server := httptest.NewServer(a)
		url = server.URL
		t.Cleanup(func() {
			server.Close()
			if len(a.changed) > 0 {
				t.Errorf("something was changed: %q", a.changed)
			}
		})
	}
	return Consent{Environment: "staging", Confirm: []string{"guarded"}, Cluster: Cluster{Kubeconfig: testkit.Kubeconfig(t, t.TempDir(), url)}}
}

// podSections are those of workers in pods that are there.
func podSections(t *testing.T) string {
	return fmt.Sprintf("environment: staging\nredis: {mode: external, url: 'redis://%s'}\nledger: {url: 'redis://%s'}\nkubernetes: {selector: {app: web}}\n", redistest.Start(t), redistest.Start(t))
}

func killOf(labels string) string {
	return "faults: [{id: oldest, kill: {pods: {" + labels + "}, form: force_delete}}]\n"
}

// Each guard that a cluster does not meet refuses the run and its plan, says why, and changes nothing.
func TestAClusterRefuses(t *testing.T) {
	t.Parallel()
	sections := podSections(t)
	three := []string{"web-a", "web-b", "web-c"}
	staging := func(pods ...string) *apiServer { return &apiServer{environment: "staging", pods: pods} }
	owned := func(owners ...string) *apiServer {
		return &apiServer{environment: "staging", pods: three, owners: map[string]string{"web-a": owners[0], "web-b": owners[1], "web-c": owners[2]}}
	}
	in := func(kubernetes string) string {
		return strings.Replace(sections, "kubernetes: {", "kubernetes: {"+kubernetes+", ", 1)
	}
	applied := strings.Replace(sections, "selector: {app: web}", "pods: apply, image: w", 1)
	for _, c := range []struct {
		api      *apiServer
		sections string // "" = the usual ones
		consent  func(c *Consent)
		notYet   bool
		says     []string
	}{
		{api: staging(three[:2]...)},
		{api: staging(three[:2]...), consent: func(c *Consent) { c.Confirm = nil }, notYet: true, says: []string{"confirm", "kubernetes test/locks", "--confirm guarded"}},
		{api: &apiServer{environment: "production"}, says: []string{"environment", `namespace locks says it is "production"`, `--environment says "staging"`}},
		{api: &apiServer{environment: "production"}, consent: func(c *Consent) { c.Environment = "" }, says: []string{`for "staging"`, `namespace locks is "production"`, "lockdrill.dev/environment"}},
		{api: &apiServer{}, says: []string{"namespace locks does not say what it is", "kubectl annotate namespace locks lockdrill.dev/environment=staging", "--environment does not replace"}},
		{api: &apiServer{environment: "staging", denied: "pods/log"}, says: []string{"permissions", "kubernetes test/locks", "lockdrill export rbac", "- apiGroups: [\"\"]\n  resources: [\"pods/log\"]\n  verbs: [\"get\"]"}},
		// The namespace of the flag wins: there, this user has no permission at all.
		{api: staging(), consent: func(c *Consent) { c.Cluster.Namespace = "elsewhere" }, says: []string{"kubernetes test/elsewhere", `resources: ["namespaces"]`, `resourceNames: ["elsewhere"]`, `resources: ["pods"]`}},
		// A flag does not lead out of the namespaces that the file allows, and nothing is asked of the cluster then.
		{sections: sections + "limits: {namespaces: [locks]}\n", consent: func(c *Consent) { c.Cluster.Namespace = "elsewhere" }, says: []string{"namespace: elsewhere is not among limits.namespaces (locks)"}},
		{says: []string{"permissions", "kubernetes test/locks could not be asked", "connection refused"}},
		{api: &apiServer{environment: "staging", gone: true}, says: []string{"environment", "kubernetes test/locks: there is no such namespace"}},
		{api: staging("web-a"), says: []string{"pods", "1 pod with app=web, 1 of them ready", "system.replicas is 2"}},
		{api: staging(three...), says: []string{"pods", "3 pods with app=web", "they are 3 of no controller, and system.replicas is 2", "set system.replicas"}},
		{api: owned("web", "web", "old-web"), says: []string{"they are 1 of statefulset/old-web, 2 of statefulset/web", "name the one to drill in kubernetes.controller"}},
		{api: owned("web", "web", "old-web"), sections: in("controller: statefulset/web")},
		{api: owned("web", "web", "old-web"), sections: in("container: web, controller: statefulset/web")},
		{api: owned("web", "web", "old-web"), sections: in("controller: statefulset/old-web"), says: []string{"pods", "system.replicas is 2"}},
		// Such a drill would wait for its steady state in vain, or be void a minute later.
		{api: staging(three[:2]...), sections: in("container: wbe"), says: []string{"pods", "0 of them ready; pod web-b has no container wbe, only web: system.replicas is 2"}},
		{api: staging(three[:2]...), sections: sections + killOf("app: wbe"), says: []string{"pods", "fault oldest, app=wbe; the first has app=web"}},
		{api: staging(), sections: applied + killOf("app: lockdrill"), says: []string{"pods", "fault oldest, app=lockdrill; the first has app.kubernetes.io/name=lockdrill-worker"}},
		{api: staging(), sections: applied + killOf("app.kubernetes.io/name: lockdrill-worker")},
	} {
		consent := c.api.as(t)
		if c.consent != nil {
			c.consent(&consent)
		}
		if c.sections == "" {
			c.sections = sections
		}
		refusal{c.sections, consent, c.notYet, c.says}.holds(t)
	}
}

// A label that is put on everything, by a kustomization for one, is on the runner's pod as well.
func TestARunnerAmongItsPodsIsRefused(t *testing.T) {
	host, err := os.Hostname()
	testkit.Must(t, err)
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	api := &apiServer{environment: "staging", pods: []string{"web-a", "web-b", host}}
	refusal{podSections(t), api.as(t), false, []string{"pod " + host + ", in which this runs, has app=web as well"}}.holds(t)
}

// Two contexts may lead to one namespace, and one name to two: the journal of a killed run refuses by the namespace itself.
func TestANamespaceIsKnownByItsUID(t *testing.T) {
	t.Chdir(t.TempDir())
	sections, consent := podSections(t), (&apiServer{environment: "staging", pods: []string{"web-a", "web-b"}}).as(t)
	for target, refused := range map[string]bool{"kubernetes namespace locks, UID uid-of-locks": true, "kubernetes test/locks": false} {
		_ = os.RemoveAll("runs")
		_ = testkit.LeftBy(t, "runs/killed", undo.Header{Run: "killed", Targets: []string{target}}, undo.Record{Kind: undo.StandPods, Cluster: &undo.Cluster{Namespace: "locks", Run: "killed"}}).Close() // it is not undone
		for _, context := range []string{"test", "other"} {
			consent.Cluster.Context, consent.Cluster.Namespace = context, "locks"
			plan, err := Plan(t.Context(), guarded(t, sections), consent, func(string) {})
			if err != nil || slices.ContainsFunc(plan.Guards, stops) != refused {
				t.Errorf("%s by context %s: %v, %+v", target, context, err, plan)
			}
		}
	}
}

func TestAPlanShowsThePods(t *testing.T) {
	t.Parallel()
	api := &apiServer{environment: "staging", pods: []string{"web-a", "web-b"}}
	sections, consent := podSections(t), api.as(t)
	plan, err := Plan(t.Context(), guarded(t, sections), consent, func(string) {})
	if err != nil || len(plan.Pods) != 2 || plan.Pods[1].Name != "web-b" || plan.Pods[1].UID != "uid-1" || plan.Pods[1].Node != "node-1" {
		t.Fatalf("%+v, %v", plan, err)
	}
	if text, err := json.Marshal(plan); err != nil || strings.Contains(string(text), "t0p-secret") {
		t.Errorf("the plan shows the token, or nothing: %v", err)
	}
	api.run = "20261121T120000.000Z-other"
	refusedBy := func() string {
		plan, err := Plan(t.Context(), guarded(t, sections), consent, func(string) {})
		testkit.Must(t, err)
		return fmt.Sprint(plan.Guards)
	}
	if says := refusedBy(); !strings.Contains(says, "kubernetes test/locks is held by run "+api.run) {
		t.Errorf("a namespace that is another run's: %s", says)
	}
}

// Flags that lead to no cluster are an error of usage, in a run as in its plan.
func TestFlagsOfTheCluster(t *testing.T) {
	t.Parallel()
	pods, consent := podSections(t), (*apiServer)(nil).as(t)
	for _, c := range []struct {
		sections string
		cluster  Cluster
		says     string
	}{
		{pods, Cluster{Kubeconfig: consent.Cluster.Kubeconfig, Context: "nope"}, `no context "nope"; there are: other, test`},
		{pods, Cluster{Kubeconfig: "missing"}, "missing"},
		{"", Cluster{Namespace: "locks"}, "--namespace is for experiments in a cluster: this one has no kubernetes section"},
	} {
		consent.Cluster = c.cluster
		no := new(Error)
		if err := Authorize(t.Context(), guarded(t, c.sections), consent); !errors.As(err, &no) || no.Status != verdict.ExitUsage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.cluster, err, c.says)
		}
		if _, err := Plan(t.Context(), guarded(t, c.sections), consent, func(string) {}); !errors.As(err, &no) || no.Status != verdict.ExitUsage {
			t.Errorf("%+v: the plan: %v", c.cluster, err)
		}
	}
}
