package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// apiServer answers what the guards and the plan ask of a cluster, and notes whoever would change something. It is no cluster: drills
// run in a real one (make test-kube).
type apiServer struct {
	mu          sync.Mutex
	environment string
	gone        bool   // there is no namespace
	denied      string // resource and subresource that the caller has no permission for, "pods/log"
	pods        []string
	owners      map[string]string // StatefulSets of pods
	run         string            // that has the namespace; "" = none
	changed     []string
}

// from changes what it answers from now on.
func (a *apiServer) from(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
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
		answer = map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"status": map[string]any{"allowed": what != a.denied && about.Namespace == "locks"}}
	case r.Method != http.MethodGet:
		a.changed = append(a.changed, r.Method+" "+path)
		http.Error(w, "no", http.StatusForbidden)
		return
	case path == "/api/v1/namespaces/locks" && !a.gone:
		answer = map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "locks", "uid": "uid-of-locks",
			"annotations": map[string]string{"lockdrill.dev/environment": a.environment}}}
	case path == "/api/v1/namespaces/locks/pods":
		items := []any{}
		for i, name := range a.pods {
			owner := []map[string]any{}
			if a.owners[name] != "" {
				owner = append(owner, map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": a.owners[name], "uid": "o", "controller": true})
			}
			items = append(items, map[string]any{"metadata": map[string]any{"name": name, "uid": fmt.Sprintf("uid-%d", i), "labels": map[string]string{"app": "web"}, "ownerReferences": owner},
				"spec":   map[string]any{"nodeName": "node-1", "containers": []any{map[string]string{"name": "web"}}},
				"status": map[string]any{"phase": "Running", "conditions": []any{map[string]string{"type": "Ready", "status": "True"}}}})
		}
		answer = map[string]any{"apiVersion": "v1", "kind": "PodList", "items": items}
	case strings.HasSuffix(path, "/leases/lockdrill-run") && a.run != "":
		now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
		answer = map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]string{"name": "lockdrill-run"},
			"spec": map[string]any{"holderIdentity": a.run, "leaseDurationSeconds": 60, "acquireTime": now, "renewTime": now}}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// start serves it, and writes its kubeconfig into dir, with the context "test" and the namespace locks.
func (a *apiServer) start(t *testing.T, dir string) {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	kubeconfig(t, dir, server.URL)
	t.Cleanup(func() {
		if len(a.changed) > 0 {
			t.Errorf("something was changed: %q", a.changed)
		}
	})
}

func kubeconfig(t *testing.T, dir, url string) {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: test, context: {cluster: c, user: u, namespace: locks}}, {name: other, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t0p-secret}}]
current-context: test
`, url)
	write(t, filepath.Join(dir, "kubeconfig"), []byte(text))
}

// podSections are those of guarded.yaml for workers in pods that are there.
func podSections(t *testing.T) string {
	return fmt.Sprintf("environment: staging\nredis: {mode: external, url: \"redis://%s\"}\nledger: {url: \"redis://%s\"}\nkubernetes: {selector: {app: web}}\n",
		redistest.Start(t), redistest.Start(t))
}

var podFlags = []string{"--kubeconfig", "kubeconfig", "--environment", "staging", "--confirm", "guarded"}

func TestPodsNeedANameToo(t *testing.T) {
	t.Parallel()
	dir := guarded(t, podSections(t))
	(&apiServer{environment: "staging", pods: []string{"web-a", "web-b"}}).start(t, dir)
	notYet(t, dir, []string{"confirm", "kubernetes test/locks", "--confirm guarded"}, "--kubeconfig", "kubeconfig")
}

// slowKill is the fault of the guarded drill, and killOf one in its place that strikes pods by their labels.
const slowKill = "{id: slow, at: 1h, kill: {holder_of: loop}}"

func killOf(labels string) string {
	return "{id: oldest, kill: {pods: {" + labels + "}, form: force_delete}}"
}

// Each guard that a cluster does not meet refuses the run and its plan, says why, and changes nothing.
func TestAClusterRefuses(t *testing.T) {
	t.Parallel()
	sections := podSections(t)
	const rule = "- apiGroups: [\"\"]\n  resources: [\"pods/log\"]\n  verbs: [\"get\"]\n"
	more := func(flags ...string) []string { return append(slices.Clone(podFlags), flags...) }
	three := []string{"web-a", "web-b", "web-c"}
	for name, c := range map[string]struct {
		api    *apiServer // nil: nobody answers
		change []string   // of the file
		flags  []string   // nil: podFlags
		want   []string
	}{
		"another environment by the flag": {api: &apiServer{environment: "production"}, want: []string{"environment", `namespace locks says it is "production"`, `--environment says "staging"`}},
		"another environment": {api: &apiServer{environment: "production"}, flags: []string{"--kubeconfig", "kubeconfig", "--confirm", "guarded"},
			want: []string{"environment", `for "staging"`, `namespace locks is "production"`, "lockdrill.dev/environment"}},
		"no environment": {api: &apiServer{}, want: []string{"namespace locks does not say what it is", "kubectl annotate namespace locks lockdrill.dev/environment=staging", "--environment does not replace"}},
		"a permission":   {api: &apiServer{environment: "staging", denied: "pods/log"}, want: []string{"permissions", "kubernetes test/locks", "lockdrill export rbac", rule}},
		// The namespace of the flag wins: there, this user has no permission at all.
		"no permission": {api: &apiServer{environment: "staging"}, flags: more("-n", "elsewhere"),
			want: []string{"kubernetes test/elsewhere", `resources: ["namespaces"]`, `resourceNames: ["elsewhere"]`, `resources: ["pods"]`}},
		// A flag does not lead out of the namespaces that the file allows, and nothing is asked of the cluster then.
		"out of the namespaces":      {change: []string{"limits: {", "limits: {namespaces: [locks], "}, flags: more("--namespace", "elsewhere"), want: []string{"namespace: elsewhere is not among limits.namespaces (locks)"}},
		"nobody answers":             {want: []string{"permissions", "kubernetes test/locks could not be asked", "connection refused"}},
		"a namespace that is gone":   {api: &apiServer{environment: "staging", gone: true}, want: []string{"environment", "kubernetes test/locks: there is no such namespace"}},
		"too few pods":               {api: &apiServer{environment: "staging", pods: three[:1]}, want: []string{"pods", "1 pod with app=web, 1 of them ready", "system.replicas is 2"}},
		"more pods than are counted": {api: &apiServer{environment: "staging", pods: three}, want: []string{"pods", "3 pods with app=web", "they are 3 of no controller, and system.replicas is 2", "set system.replicas"}},
		"pods of two controllers": {api: &apiServer{environment: "staging", pods: three, owners: map[string]string{"web-a": "web", "web-b": "web", "web-c": "old-web"}},
			want: []string{"they are 1 of statefulset/old-web, 2 of statefulset/web", "name the one to drill in kubernetes.controller"}},
		// Such a drill would wait for its steady state in vain.
		"a container that no pod has": {api: &apiServer{environment: "staging", pods: three[:2]}, change: []string{"kubernetes: {", "kubernetes: {container: wbe, "}, want: []string{"pods", "0 of them ready; pod web-b has no container wbe, only web: system.replicas is 2"}},
		// It would only be void, a minute later.
		"a kill of pods that nobody is": {api: &apiServer{environment: "staging", pods: three[:2]}, change: []string{slowKill, killOf("app: wbe")},
			want: []string{"pods", "fault oldest, app=wbe; the first has app=web"}},
		"a kill of pods that the run will not make": {api: &apiServer{environment: "staging"}, change: []string{slowKill, killOf("app: lockdrill"), "selector: {app: web}", "pods: apply, image: w"},
			want: []string{"pods", "fault oldest, app=lockdrill; the first has app.kubernetes.io/name=lockdrill-worker"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := guarded(t, sections)
			write(t, filepath.Join(dir, "guarded.yaml"), []byte(edit(t, string(read(t, filepath.Join(dir, "guarded.yaml"))), c.change...)))
			if c.api == nil {
				kubeconfig(t, dir, "http://127.0.0.1:1")
			} else {
				c.api.start(t, dir)
			}
			if c.flags == nil {
				c.flags = podFlags
			}
			refused(t, dir, c.want, c.flags...)
			if c.api == nil || c.api.denied == "" {
				return
			}
			planned := tryIn(t, dir, append([]string{"plan", "guarded.yaml"}, podFlags...)...)
			if indented := "    " + strings.ReplaceAll(strings.TrimSpace(rule), "\n", "\n    "); !strings.Contains(planned.stdout, indented) {
				t.Errorf("the plan has no rule to paste:\n%s", planned.stdout)
			}
		})
	}
}

// A kill strikes nobody whom the experiment does not count: a controller and a container choose among the pods, and labels among those that
// the run makes.
func TestPodsAreChosenByControllerAndContainer(t *testing.T) {
	t.Parallel()
	dir := guarded(t, podSections(t))
	(&apiServer{environment: "staging", pods: []string{"web-a", "web-b", "web-c"}, owners: map[string]string{"web-a": "web", "web-b": "web", "web-c": "old-web"}}).start(t, dir)
	text := string(read(t, filepath.Join(dir, "guarded.yaml")))
	for choice, want := range map[string]int{"controller: statefulset/web": verdict.ExitPass, "container: web, controller: statefulset/web": verdict.ExitPass,
		"controller: statefulset/old-web": verdict.ExitRefused, "controller: web": verdict.ExitUsage} {
		write(t, filepath.Join(dir, "guarded.yaml"), []byte(strings.Replace(text, "selector: {app: web}", choice+", selector: {app: web}", 1)))
		got := tryIn(t, dir, append([]string{"plan", "guarded.yaml"}, podFlags...)...)
		if got.code != want || strings.Contains(got.stdout, "uid-2") != (choice == "controller: statefulset/old-web") {
			t.Errorf("%s: %+v", choice, got)
		}
	}
	made := edit(t, text, slowKill, killOf("app.kubernetes.io/name: lockdrill-worker"), "selector: {app: web}", "pods: apply, image: w")
	write(t, filepath.Join(dir, "guarded.yaml"), []byte(made))
	if got := tryIn(t, dir, append([]string{"plan", "guarded.yaml"}, podFlags...)...); got.code != verdict.ExitPass {
		t.Errorf("a kill of pods that the run makes: %+v", got)
	}
}

// Two contexts may lead to one namespace, and one name to two: the journal of a killed run refuses by the namespace itself.
func TestANamespaceIsKnownByItsUID(t *testing.T) {
	t.Parallel()
	dir := guarded(t, podSections(t))
	(&apiServer{environment: "staging", pods: []string{"web-a", "web-b"}}).start(t, dir)
	left := filepath.Join(dir, "runs", "killed")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]int{"kubernetes namespace locks, UID uid-of-locks": verdict.ExitRefused, "kubernetes test/locks": verdict.ExitPass} {
		_ = os.Remove(filepath.Join(left, undo.File))
		j, err := undo.Create(filepath.Join(left, undo.File), undo.Header{Run: "killed", Targets: []string{target}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Intend(undo.Record{Kind: undo.StandPods, Cluster: &undo.Cluster{Namespace: "locks", Run: "killed"}}); err != nil {
			t.Fatal(err)
		}
		_ = j.Close() // an open record keeps it open
		for _, context := range []string{"test", "other"} {
			got := tryIn(t, dir, append([]string{"plan", "guarded.yaml", "--context", context, "-n", "locks"}, podFlags...)...)
			if got.code != want {
				t.Errorf("%s by context %s: %+v", target, context, got)
			}
		}
	}
}

// A label that is put on everything, by a kustomization for one, is on the runner's pod as well.
func TestARunnerAmongItsPodsIsRefused(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir := guarded(t, podSections(t))
	(&apiServer{environment: "staging", pods: []string{"web-a", "web-b", host}}).start(t, dir)
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	refused(t, dir, []string{"pod " + host + ", in which this runs, has app=web as well"}, podFlags...)
}

func TestAPlanShowsThePods(t *testing.T) {
	t.Parallel()
	dir := guarded(t, podSections(t))
	api := &apiServer{environment: "staging", pods: []string{"web-a", "web-b"}}
	api.start(t, dir)
	got := tryIn(t, dir, append([]string{"plan", "guarded.yaml"}, podFlags...)...)
	if got.code != verdict.ExitPass {
		t.Fatalf("%+v", got)
	}
	for _, want := range []string{"Pods, as they stand now", "web-a  uid-0  Running, ready  node-1", "web-b  uid-1", "permissions", "namespace locks", "its keys are not there yet"} {
		if !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("the plan does not say %q:\n%s", want, got.stdout)
		}
	}
	got = tryIn(t, dir, append([]string{"plan", "guarded.yaml", "-f", "json"}, podFlags...)...)
	var plan struct {
		Pods []struct{ Name, UID, Node, Phase string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &plan); err != nil || len(plan.Pods) != 2 || plan.Pods[1].UID != "uid-1" || plan.Pods[1].Node != "node-1" {
		t.Errorf("%+v, %v\n%s", plan, err, got.stdout)
	}
	if strings.Contains(got.stdout+got.stderr, "t0p-secret") {
		t.Error("the plan shows the token")
	}
	api.from(func() { api.run = "20261121T120000.000Z-other" })
	got = tryIn(t, dir, append([]string{"plan", "guarded.yaml"}, podFlags...)...)
	if got.code != verdict.ExitRefused || !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), "kubernetes test/locks is held by run "+api.run) {
		t.Errorf("a namespace that is another run's: %+v", got)
	}
}

func TestFlagsOfTheCluster(t *testing.T) {
	t.Parallel()
	dir := guarded(t, podSections(t))
	kubeconfig(t, dir, "http://127.0.0.1:1")
	own := guarded(t, embeddedRedis)
	for _, command := range []string{"run", "plan"} {
		got := tryIn(t, dir, command, "guarded.yaml", "--kubeconfig", "kubeconfig", "--context", "nope")
		if got.code != verdict.ExitUsage || !strings.Contains(got.stderr, `no context "nope"; there are: other, test`) || got.stdout != "" {
			t.Errorf("%s in a context that is not there: %+v", command, got)
		}
		if got = tryIn(t, dir, command, "guarded.yaml", "--kubeconfig", "missing"); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "missing") {
			t.Errorf("%s with a kubeconfig that is not there: %+v", command, got)
		}
		got = tryIn(t, own, command, "guarded.yaml", "--namespace", "locks")
		if got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "--namespace") || !strings.Contains(got.stderr, "no kubernetes section") {
			t.Errorf("%s of processes with --namespace: %+v", command, got)
		}
	}
	none := []string{"KUBECONFIG=" + filepath.Join(dir, "none"), "HOME=" + dir}
	if got := tryWith(t, dir, none, "plan", "guarded.yaml"); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "say --kubeconfig FILE") {
		t.Errorf("without a kubeconfig: %+v", got)
	}
	onlyFile(t, dir, "guarded.yaml", "kubeconfig")
}
