package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// witnessNamespaces begin so: their containers are replicas of the witness.
const witnessNamespaces = "witness-"

var witnessLabels = map[string]string{"app": "witness"}

// witnessPort is of the metrics: each pod has an address of its own.
const witnessPort = "9188"

// witnessInPods are drills of the witness in pods: by which source holders are known, where effects are read, and what happens.
var witnessInPods = []struct {
	holder    string   // system.holder
	file      string   // which drill it is
	args      []string // of each replica
	change    []string // of the file
	lock, row string   // that fails; "" = it passes
	plan      []string // what plan says
}{
	{
		holder: `metric: {series: lock_held, labels: {key: "{key}"}, url: "http://{ip}:` + witnessPort + `/metrics"}`, file: "kills",
		plan: []string{"metric: witness-", "reconciler key cordum:reconciler:default:"},
	},
	{
		holder: "client: {}", file: "clients", args: []string{"--log-effects", "json"},
		change: []string{`stream: "cordum:jobs:log"`, "log: replicas", "holder_of: job,", "holder_of: job, phase: after_grant,"}, // MONITOR takes a while of a short job
		plan:   []string{"client: witness-", "Effects, the last ones", "from the logs of replicas", "job job-"},
	},
	{
		holder: `log: {pattern: 'lock acquired key=(?P<key>\S+) token=(?P<token>\S+)'}`, file: "kills", args: []string{"--log-effects", "text", "--bug", "no-guard"},
		change: []string{`stream: "cordum:jobs:log"`, "log: replicas\n      pattern: " +
			`'effect job_id=(?P<job_id>\S+) status=(?P<status>\S+) op_id=(?P<op_id>\S+) worker=(?P<worker>\S+) token=(?P<token>\S+) lock_key=(?P<lock_key>\S+)'`},
		lock: "job", row: "duplicate_terminal_states",
		plan: []string{"log: witness-", "job job-"},
	},
	{
		holder: `value: {pattern: "^(?P<holder>[^/]+)/"}`, file: "kills", args: []string{"--token-prefix", "$(POD)/", "--bug", "idle-leader"},
		// Leaders idle once the other's victim is replaced, however long that takes; this kill keeps the run going until that has shown.
		change: []string{"{id: kill-worker, ", "{id: kill-worker, at: 15s, "},
		lock:   "reconciler", row: "tick_gap.max",
		plan: []string{"value: witness-", "reconciler key cordum:reconciler:default:"},
	},
}

// witnessPods drills the witness in pods: whom each kill strikes is found by each source, effects are read from a stream and from logs,
// and with a bug on the promise that it breaks is the one that fails.
func witnessPods(t *testing.T, newSite func(*testing.T, string) *site) {
	witnesstest.Python(t)
	for _, c := range witnessInPods {
		source, _, _ := strings.Cut(c.holder, ":")
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, witnessNamespaces+source)
			t.Cleanup(func() { s.tellLives(t) })
			runWitness(t, s.Client, s.namespace, s.locks, corev1.PodSpec{Containers: []corev1.Container{{Image: "none", Args: c.args}}})
			yaml := witnessYAML(t, c.file, s.namespace, s.locks, c.holder, c.change...)
			planned := strings.Join(strings.Fields(s.plan(t, yaml)), " ")
			for _, want := range append(c.plan, "Holders, as their sources say now", "job key cordum:scheduler:job:") {
				if !strings.Contains(planned, want) {
					t.Errorf("the plan does not say %q:\n%s", want, planned)
				}
			}
			if c.row == "" {
				passesInPods(t, s, s.drill(t, yaml, verdict.ExitPass))
			} else if o := s.drill(t, yaml, verdict.ExitSLOFailed); !failed(&o.j, c.lock, c.row) {
				t.Errorf("%s of %s does not fail:\n%s", c.row, c.lock, allRows(&o.j))
			}
		})
	}
}

// tellLives shows the ends of the containers' logs of a test that failed.
func (s *site) tellLives(t *testing.T) {
	for _, l := range s.Lives() {
		if t.Failed() && l.Namespace == s.namespace {
			t.Logf("%s, %s to %s:\n%s", l.Pod, l.Started.Format(time.TimeOnly), l.Ended.Format(time.TimeOnly), l.Log[max(0, len(l.Log)-1000):])
		}
	}
}

// passesInPods checks that the kills struck whoever held, and that another took over.
func passesInPods(t *testing.T, s *site, o drillOut) {
	t.Helper()
	died := 0
	for _, f := range o.j.Faults { // a shot may be void, and is made again
		if f.Confirmed && f.Death != nil && f.Death.End != nil {
			died++
		}
	}
	if died == 0 || len(o.j.Takeovers) == 0 {
		t.Errorf("faults %+v, takeovers %+v\n%s", o.j.Faults, o.j.Takeovers, o.text)
	}
	if left := s.objects(t); strings.Contains(strings.Join(left, " "), "lockdrill") {
		t.Errorf("left: %q", left)
	}
}

var ofProcesses = regexp.MustCompile(`(?s)  processes:.*?\n  locks:`)

// witnessYAML is a drill of the witness with pods in place of processes, and one kill of each lock: of a job's by a command, since a pod
// that is deleted is told first, and the witness gives the locks of its jobs back.
func witnessYAML(t *testing.T, file, namespace, redis, holder string, change ...string) string {
	t.Helper()
	text := string(read(t, filepath.Join(witnesstest.Folder(), file+".lockdrill.yaml")))
	text = ofProcesses.ReplaceAllLiteralString(text, "  holder:\n    - "+holder+"\n  locks:")
	text = strings.NewReplacer(
		"name: witness-"+file, "name: pods",
		"system:\n", "kubernetes: {namespace: "+namespace+", selector: {app: witness}}\nsystem:\n",
		"repeat: {count: 3}, kill: {holder_of: job}", "kill: {holder_of: job, form: crash, exec: [kill, \"-9\", \"1\"]}",
		"repeat: {count: 2}, kill: {holder_of: reconciler, phase: after_grant}", "kill: {holder_of: reconciler, phase: after_grant, form: force_delete}",
		"min_jobs: 20", "min_jobs: 8",
		"max_gap: 500ms", "max_gap: 2s", "takeover: {max: 3s}", "takeover: {max: 10s}", // a busy machine is no finding
		"127.0.0.1:6390", redis,
	).Replace(text)
	return edit(t, text, change...)
}

// runWitness makes three replicas of the witness as a Deployment, whose jobs are offered from outside, and returns when all have begun. Of
// spec's container, args are what the replicas do beyond that.
func runWitness(t *testing.T, client kubernetes.Interface, namespace, redis string, spec corev1.PodSpec) {
	t.Helper()
	replicas, labels := int32(witnesstest.Replicas), witnessLabels
	k := &spec.Containers[0]
	for name, path := range map[string]string{"POD": "metadata.name", "POD_IP": "status.podIP"} {
		k.Env = append(k.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}})
	}
	k.Name = "c"
	k.Args = append([]string{filepath.Join(witnesstest.Folder(), "scheduler.py"), "--name", "$(POD)", "--host", "$(POD_IP)", "--port", witnessPort,
		"--redis", redis, "--scale", witnessScale, "--replicas", fmt.Sprint(replicas)}, k.Args...)
	_, err := client.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "witness"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}},
	}, metav1.CreateOptions{})
	must(t, err)
	witnesstest.Offer(t, redis, "--scale", witnessScale)
	until(t, "three replicas of the witness that work", func() bool {
		return asked(t, redis, `EVAL "return tonumber(redis.call('get','cordum:starts') or 0) >= 3" 0`) == ":1" && asked(t, redis, "EXISTS cordum:jobs:log cordum:ticks:reconciler") == ":2"
	})
}
