package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// podsDrill has workers in pods that the run applies.
const podsDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: pods
environment: staging
redis: {mode: external, url: "redis://%s"}
ledger: {url: "redis://%s"}
kubernetes: {namespace: %s, pods: apply, image: "lockdrill:test", grace: 3s}
system:
  mode: embedded
  replicas: 3
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 1s
        renew_every: 300ms
        class: standard
        op_timeout: 100ms
        stop_budget: 50ms
        release: {mode: none}
        acquire: {mode: try, timeout: 100ms}
        loop: {poll: 100ms, mode: renewed, tick: 20ms}
steady_state: {for: 6s, timeout: 60s} # longer than it takes to prolong the turn in the namespace, which a Role has to permit
faults:
  - {id: kill, at: 0s, repeat: {count: 2, every: settled}, kill: {holder_of: loop, form: crash}}
probes:
  lock_keys: {every: 5ms, max_gap: 2s}
  ledger: {every: 5ms, max_gap: 2s}
limits: {max_kills: 4, max_run: 3m}
slos:
  - {lock: loop, takeover: {max: 5s}}
`

// deaf is the namespace whose containers do not hear SIGTERM, observed the one whose pods are somebody's own.
const (
	deafNamespace     = "deaf"
	observedNamespace = "observed"
	handedNamespace   = "handed" // likewise
	keyedNamespace    = "keyed"
	execNamespace     = "crashed"
	cutNamespace      = "cut"
)

// cluster is a real API server whose fake node runs this lockdrill's own workers as containers; in the observed namespace, electors.
func startCluster(t *testing.T) *kubetest.Env {
	t.Helper()
	atLength(t, "no drill through the binary")
	redistest.Need(t)
	var e *kubetest.Env
	python, candidates := witnesstest.Python(t), needElector(t)
	worker, deaf := kubetest.Command(built), kubetest.Command(built, "LOCKDRILL_IGNORE_TERM=1")
	e = kubetest.Start(t, kubetest.Options{Controllers: true, Audit: true, NodeOptions: kubetest.NodeOptions{
		Run: func(ctx context.Context, l *kubetest.Life) int {
			switch ns := l.Pod.Namespace; {
			case ns == deafNamespace:
				return deaf(ctx, l)
			case strings.HasPrefix(ns, witnessNamespaces):
				return kubetest.Command(python, "PYTHONDONTWRITEBYTECODE=1")(ctx, l)
			case slices.Contains([]string{observedNamespace, handedNamespace, keyedNamespace, execNamespace, cutNamespace, evictedNamespace, drainedNamespace, pairNamespace, besideNamespace, rolledNamespace, objectNamespace, honestNamespace, confusedNamespace}, ns):
				return kubetest.Command(candidates, "KUBECONFIG="+e.Kubeconfig)(ctx, l)
			}
			return worker(ctx, l)
		},
		Exec: killInContainer,
	}})
	return e
}

// site is a namespace of its own that says that it is staging, and two Redis of somebody's.
type site struct {
	*kubetest.Env
	namespace, kubeconfig string
	locks, ledger         string                // addresses
	since                 int64                 // where the audit log was when the Role was applied
	onNode                func(*corev1.PodSpec) // what electors need on a real node
}

func newSite(t *testing.T, e *kubetest.Env, namespace string) *site {
	t.Helper()
	e.Namespace(namespace, map[string]string{kube.EnvironmentAnnotation: "staging"})
	return &site{Env: e, namespace: namespace, kubeconfig: e.Kubeconfig, locks: redistest.Start(t, "--protected-mode", "no"), ledger: redistest.Start(t)}
}

func (s *site) yaml() string { return fmt.Sprintf(podsDrill, s.locks, s.ledger, s.namespace) }

func (s *site) flags(more ...string) []string {
	return append([]string{"--kubeconfig", s.kubeconfig, "--environment", "staging", "--confirm", "pods"}, more...)
}

// objects are all that a run might leave in the namespace but its summary; what a namespace has by itself is not among them.
func (s *site) objects(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var names []string
	for kind, group := range map[string]string{"deployment": "apis/apps/v1", "statefulset": "apis/apps/v1", "replicaset": "apis/apps/v1", "pod": "api/v1", "configmap": "api/v1",
		"serviceaccount": "api/v1", "service": "api/v1", "secret": "api/v1", "lease": "apis/coordination.k8s.io/v1"} {
		data, err := s.Client.Discovery().RESTClient().Get().AbsPath("/" + group + "/namespaces/" + s.namespace + "/" + kind + "s").DoRaw(ctx)
		must(t, err)
		var list metav1.PartialObjectMetadataList
		must(t, json.Unmarshal(data, &list))
		for _, o := range list.Items {
			if o.Name != "default" && o.Name != "kube-root-ca.crt" && o.Name != deploy.SummaryName("pods") {
				names = append(names, kind+" "+o.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// clean checks that nothing of a run is left: no object but those that were there before, and no key that stays.
func (s *site) clean(t *testing.T, before ...string) {
	t.Helper()
	if after := s.objects(t); !slices.Equal(after, before) {
		t.Errorf("before: %q, afterwards: %q", before, after)
	}
	for _, addr := range []string{s.locks, s.ledger} {
		c := redis.NewClient(&redis.Options{Addr: addr})
		defer c.Close()
		keys, err := c.Keys(context.Background(), "*").Result()
		must(t, err)
		for _, key := range keys {
			if left, err := c.PTTL(context.Background(), key).Result(); err != nil || left == -1 || !strings.HasPrefix(key, "lockdrill:fleet:") {
				t.Errorf("key %s is left, for %s, %v", key, left, err)
			}
		}
	}
}

// runFlags are those of a run: by the shipped Role it leaves its summary, as the exported Jobs do.
func (s *site) runFlags(more ...string) []string {
	if s.since > 0 {
		more = append(more, "--summary-configmap", deploy.SummaryName("pods"))
	}
	return s.flags(more...)
}

// drill runs the experiment and checks its status.
func (s *site) drill(t *testing.T, yaml string, want int, flags ...string) drillOut {
	t.Helper()
	o := runDrill(t, yaml, nil, s.runFlags(flags...)...)
	o.ends(t, want)
	if t.Failed() {
		keep(t, o.dir)
	}
	return o
}

// TestKubeDrills are drills of pods in one cluster, several at once: each has a namespace. Those that need the node for themselves come first.
func TestKubeDrills(t *testing.T) {
	t.Parallel()
	e := startCluster(t)
	t.Run("force_delete of what ignores SIGTERM", func(t *testing.T) { forceDeleted(t, newSite(t, e, deafNamespace)) })
	t.Run("drained", func(t *testing.T) { drained(t, newSite(t, e, drainedNamespace)) })
	for _, c := range []struct {
		name, namespace string
		try             func(*testing.T, *site)
	}{
		{"observed", observedNamespace, observedDrill},
		{"observed hand-over", handedNamespace, handedOver},
		{"evicted", evictedNamespace, evicted},
		{"observed in two namespaces", pairNamespace, besideOthers},
		{"observed key", keyedNamespace, keyedSystem},
		{"observed cut", cutNamespace, cutOff},
		{"observed by its logs", honestNamespace, oneLeads},
		{"observed by the logs of many who lead", confusedNamespace, manyLead},
		{"observed crash", execNamespace, crashedByCommand},
		{"objects", objectNamespace, madeObjects},
		{"rolled out", rolledNamespace, rolledOut},
		{"rolled out in order", "ordered", rolledInOrder},
		{"stateful", "stateful", statefulWorkers},
		{"used", "used", usedWorkers},
		{"role", "role", killedByTheRole},
		{"interrupted", "interrupted", interrupted},
		{"killed", "killed", killedRunner},
		{"killed while it applies", "killed-applying", killedApplying},
		{"quota", "quota", noRoom},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.try(t, newSite(t, e, c.namespace))
		})
	}
	t.Run("witness", func(t *testing.T) {
		witnessPods(t, func(t *testing.T, namespace string) *site { return newSite(t, e, namespace) })
	})
}

// forceDeleted shows the trap: the object of a pod that ignores SIGTERM is gone at once, and its process lives on for the two seconds
// that a kubelet gives it, beside its replacement, and keeps its lock.
func forceDeleted(t *testing.T, s *site) {
	release := s.HoldKills() // until it has been seen beside its replacement, however long that takes to come
	defer release()
	yaml := edit(t, s.yaml(), "form: crash", "form: force_delete", "repeat: {count: 2, every: settled}", "repeat: {count: 1}")
	o := runDrill(t, yaml, func(int) {
		path := historyOf(t)
		until(t, "two lives of one replica, and a sign of the first", func() bool { return besideItsNext(path()) })
		release()
	}, s.flags()...)
	o.ends(t, verdict.ExitPass)
	if len(o.j.Faults) != 1 || o.j.Faults[0].Death == nil {
		t.Fatalf("faults: %+v", o.j.Faults)
	}
	d := o.j.Faults[0].Death
	if d.Object == nil || d.Object.To == nil || d.End == nil || d.End.To == nil || d.Means != "api" {
		t.Fatalf("death: %+v", d)
	}
	gone, alive, dead := *d.Object.To-d.Call.From, d.Sign-d.Call.From, *d.End.To-d.Call.From
	if alive < gone || dead < 1.9 {
		t.Errorf("after the call, the object was gone within %.2fs, the last sign of life came after %.2fs, and the process was dead after %.2fs: want these apart", gone, alive, dead)
	}
	h := historyIn(t, o.dir)
	victim, _, _ := strings.Cut(o.j.Faults[0].Victim, ".")
	replaced := false
	for _, e := range h.Events {
		if e.Kind == "replica.start" && e.Replica.Name == victim && e.Replica.Incarnation != o.j.Faults[0].Victim {
			replaced = replaced || float64(e.To)/1e9 < d.Sign
		}
	}
	if !replaced {
		t.Error("the replacement did not start while the old process lived")
	}
	report := string(read(t, filepath.Join(o.dir, "report.md")))
	says(t, report, "grace 0", "object gone", "last sign of life", "process ended")
	s.clean(t)
}

// besideItsNext reports whether a history has a life that said something after the next one of its replica was started.
func besideItsNext(path string) bool {
	data, _ := os.ReadFile(path)
	old := ""
	for line := range bytes.Lines(data) {
		var e history.Event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		if name, life, _ := strings.Cut(e.Source, "."); old != "" && name == old && life == "1" {
			return true
		}
		if e.Kind == history.ReplicaStart && strings.HasSuffix(e.Replica.Incarnation, ".2") {
			old = e.Replica.Name
		}
	}
	return false
}

// bystander makes a Deployment of somebody's, waits for its pod, and returns all its objects.
func (s *site) bystander(t *testing.T) []string {
	t.Helper()
	one, labels := int32(1), map[string]string{"app": "bystander"}
	_, err := s.Client.AppsV1().Deployments(s.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "bystander", Labels: map[string]string{kube.RunLabel: "another"}},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none", Args: []string{"help"}}}},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	until(t, "the bystander's pod", func() bool {
		return slices.ContainsFunc(s.objects(t), func(o string) bool { return strings.HasPrefix(o, "pod ") })
	})
	return s.objects(t)
}

// keep copies the folder of a run that a person wants to look at.
func keep(t *testing.T, dir string) {
	t.Helper()
	to := os.Getenv("LOCKDRILL_TEST_KEEP")
	if to == "" {
		return
	}
	to = filepath.Join(to, strings.ReplaceAll(t.Name(), "/", "_")+time.Now().Format("-150405"))
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Log(err)
	}
}

// plan is what plan says of the experiment.
func (s *site) plan(t *testing.T, yaml string) string {
	t.Helper()
	dir := folder(t, "pods.yaml", yaml)
	got := tryIn(t, dir, append([]string{"plan", "pods.yaml"}, s.flags()...)...)
	got.ends(t, verdict.ExitPass)
	return got.stdout
}
