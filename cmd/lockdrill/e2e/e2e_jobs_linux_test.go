package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// hostedDrill is an experiment whose runner is a pod too, by what export prints, and the volume that its results are on.
type hostedDrill struct {
	*realCluster
	name, dir, volume string // of the experiment; folder of pods.yaml; folder of the node
}

// host writes the experiment, makes a volume of the node for its claim, and applies its Role.
func (c *realCluster) host(t *testing.T, name, yaml string) *hostedDrill {
	t.Helper()
	h := &hostedDrill{realCluster: c, name: name, dir: t.TempDir(), volume: t.TempDir()}
	write(t, filepath.Join(h.dir, "pods.yaml"), []byte(edit(t, yaml, "name: pods", "name: "+name)))
	c.volume(t, name, deploy.ObjectName(name)+"-results", h.volume)
	h.apply(t, "rbac", "pods.yaml")
	return h
}

// volume makes a folder of the node the volume of a claim.
func (c *realCluster) volume(t *testing.T, name, claim, dir string) {
	t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	_, err := c.env.Client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: c.kube.Namespace, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{kubetest.RealNode}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
}

// apply applies what export prints, whatever makes pods last, and returns the documents by their kinds.
func (h *hostedDrill) apply(t *testing.T, args ...string) map[string][]byte {
	t.Helper()
	docs := exported(t, h.dir, args...)
	kinds := kindsOf(docs)
	slices.SortStableFunc(kinds, func(a, b string) int { return makesPods(a) - makesPods(b) })
	for _, kind := range kinds {
		if err := applied(t.Context(), h.env, h.kube.Namespace, docs[kind]); err != nil {
			t.Fatalf("export %q: %s: %v", args, kind, err)
		}
	}
	return docs
}

func makesPods(kind string) int {
	if strings.HasSuffix(kind, "Job") || kind == "Deployment" {
		return 1
	}
	return 0
}

// run applies the Job of a release and returns it.
func (h *hostedDrill) run(t *testing.T, args ...string) *batchv1.Job {
	t.Helper()
	job := decoded[batchv1.Job](t, h.apply(t, append([]string{"job", "pods.yaml"}, args...)...)["Job"])
	t.Cleanup(func() { h.forget(t, job) })
	return job
}

// forget removes a Job with its pods.
func (c *realCluster) forget(t *testing.T, job *batchv1.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), podsWithin)
	defer cancel()
	err := c.env.Client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil {
		t.Errorf("delete job %s: %v", job.Name, err)
	}
}

func jobLabels(job *batchv1.Job) map[string]string {
	return map[string]string{batchv1.JobNameLabel: job.Name}
}

// ended is how a Job ended, and how each of its pods did, the oldest first.
type ended struct {
	condition batchv1.JobCondition
	pods      []podEnd
}

// podEnd is what kubectl describe says of the runner's container.
type podEnd struct {
	name, message, log string
	exit               int32
}

func (e ended) codes() []int {
	var codes []int
	for _, p := range e.pods {
		codes = append(codes, int(p.exit))
	}
	return codes
}

// await returns how the Job ended.
func (c *realCluster) await(t *testing.T, job *batchv1.Job) ended {
	t.Helper()
	condition, _ := jobEnd(t, c.env, job)
	e := ended{condition: condition}
	pods := podsOf(t, c.env, job)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, p := range pods {
		end := podEnd{name: p.Name, exit: -1}
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated != nil {
				end.exit, end.message = s.State.Terminated.ExitCode, s.State.Terminated.Message
			}
		}
		log, err := c.env.Client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil {
			t.Error(err)
		}
		end.log = string(log)
		e.pods = append(e.pods, end)
		t.Logf("pod %s of job %s: status %d, %q\n%s", p.Name, job.Name, end.exit, end.message, end.log)
	}
	return e
}

// want holds a Job's end against what docs/kubernetes.md says of these exit statuses.
func (e ended) want(t *testing.T, condition batchv1.JobConditionType, reason string, codes ...int) {
	t.Helper()
	if e.condition.Type != condition || e.condition.Reason != reason || !slices.Equal(e.codes(), codes) {
		t.Errorf("%s: %s (%s), exit statuses %d, want %s: %s, %d", e.condition.Type, e.condition.Reason, e.condition.Message, e.codes(), condition, reason, codes)
	}
	for i, p := range e.pods {
		if i < len(codes) && codes[i] < 128 && p.message != verdict.ExitName(codes[i]) {
			t.Errorf("the termination message of pod %s is %q, want %q", p.name, p.message, verdict.ExitName(codes[i]))
		}
	}
}

// summary holds the ConfigMap of the last run against an exit status.
func (h *hostedDrill) summary(t *testing.T, code int) {
	t.Helper()
	o, err := h.env.Client.CoreV1().ConfigMaps(h.kube.Namespace).Get(t.Context(), deploy.SummaryName(h.name), metav1.GetOptions{})
	must(t, err)
	if o.Data["verdict"] != verdict.ExitName(code) || o.Data["exitCode"] != strconv.Itoa(code) {
		t.Errorf("the summary says %q, %s; want status %d:\n%s", o.Data["verdict"], o.Data["exitCode"], code, o.Data["summary"])
	}
}

// results holds the runs on the volume against exit statuses, the oldest first.
func (h *hostedDrill) results(t *testing.T, codes ...int) {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(h.volume, runsFolder, "2*-"+h.name))
	if err != nil || len(runs) != len(codes) {
		t.Fatalf("runs on the volume: %q, %v; want %d", runs, err, len(codes))
	}
	slices.Sort(runs)
	for i, dir := range runs {
		var v struct{ ExitCode int }
		if err := json.Unmarshal(read(t, filepath.Join(dir, verdictFile)), &v); err != nil || v.ExitCode != codes[i] {
			t.Errorf("%s: status %d, %v; want %d", dir, v.ExitCode, err, codes[i])
		}
	}
}

// jobOfGuardedStores: the release gate as it is shipped, against stores that want TLS, a name and passwords. They come from a Secret, and
// stand nowhere else.
func (c *realCluster) jobOfGuardedStores(t *testing.T) {
	locks, ledger := c.guarded(t, ""), c.guarded(t, "drill")
	yaml := fmt.Sprintf(e2eDrill, locks.addr, ledger.addr, "apply", c.image, `  - {id: crash, at: 0s, kill: {holder_of: loop, phase: random, form: crash}}
  - {id: graceful, at: 4s, kill: {holder_of: loop, phase: random, form: graceful}}`)
	yaml = edit(t, yaml,
		`"redis://`+locks.addr+`"`, `"rediss://`+locks.addr+`", password_env: REDIS_PASSWORD, ca: `+locks.ca,
		`"redis://`+ledger.addr+`"`, `"rediss://`+ledger.addr+`", username_env: LEDGER_USER, password_env: LEDGER_PASSWORD, ca: `+ledger.ca)
	_, err := c.env.Client.CoreV1().Secrets(c.kube.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "stores"},
		StringData: map[string]string{"REDIS_PASSWORD": locks.password, "LEDGER_USER": "drill", "LEDGER_PASSWORD": ledger.password},
	}, metav1.CreateOptions{})
	must(t, err)
	h := c.host(t, "guarded", yaml)
	from := auditedUntil(t, c.env)
	job := h.run(t, "--release", "v1.4.2", "--environment", "e2e", "--secret", "stores")
	c.ready(t, deploy.AppliedLabels(), 3)
	secrets := []string{locks.password, ledger.password}
	for _, s := range []*guardedStore{locks, ledger} {
		s.hides(t, secrets)
	}
	c.hides(t, "while it drills", secrets)
	end := c.await(t, job)
	end.want(t, batchv1.JobComplete, "CompletionsReached", verdict.ExitPass)
	h.summary(t, verdict.ExitPass)
	runner := deploy.RunnerName(h.name)
	usedAsPermitted(t, c.env, from, c.env.KubeconfigForServiceAccount(c.kube.Namespace, runner), runner, c.kube.Namespace)
	c.hides(t, "after the drill", secrets)
	for _, p := range end.pods {
		hides(t, "the log of "+p.name, p.log, secrets)
	}
	h.results(t, verdict.ExitPass)
	h.hideResults(t, secrets)
	for _, s := range []*guardedStore{locks, ledger} {
		if left := keysAt(t, s.options()); len(left) > 0 {
			t.Errorf("keys are left at %s: %s", s.addr, left)
		}
	}
}

// hideResults: nothing on the volume has a secret in it.
func (h *hostedDrill) hideResults(t *testing.T, secrets []string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(h.volume, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files++
			hides(t, path, string(read(t, path)), secrets)
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files are on the volume, %v", files, err)
	}
}

// cronJobIsEvicted: a run made from a CronJob, as `kubectl create job --from` makes it. Its first pod is taken away by the cluster while it
// drills, cleans up and ends with 12: another one drills. What that one says is an answer, and ends the Job. It is pushed, and in the file of
// metrics on the volume.
func (c *realCluster) cronJobIsEvicted(t *testing.T) {
	locks, ledger := c.redis(t), c.redis(t)
	yaml := fmt.Sprintf(e2eDrill, locks, ledger, "apply", c.image, "  - {id: crash, at: 0s, kill: {holder_of: loop, phase: random, form: crash}}")
	h := c.host(t, "scheduled", edit(t, yaml, "takeover: {max: 10s}", "takeover: {max: 1ms}"))
	g, push := c.gateway(t)
	cron := decoded[batchv1.CronJob](t, h.apply(t, "cronjob", "pods.yaml", "--schedule", "@yearly", "--environment", "e2e",
		"--pushgateway", push, "--metrics-file", "drills.prom")["CronJob"])
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: cron.Namespace, Name: cron.Name + "-now", Labels: cron.Spec.JobTemplate.Labels,
			Annotations: map[string]string{"cronjob.kubernetes.io/instantiate": "manual"}},
		Spec: cron.Spec.JobTemplate.Spec,
	}
	if _, err := c.env.Client.BatchV1().Jobs(job.Namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.forget(t, job) })
	pod := c.ready(t, jobLabels(job), 1)[0]
	log := c.lines(t, pod)
	for line := range log {
		if strings.Contains(line, "was granted") {
			break
		}
	}
	err := c.env.Client.PolicyV1().Evictions(job.Namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: job.Namespace}})
	must(t, err)
	for line := range log {
		t.Log(line)
	}
	c.await(t, job).want(t, batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy, verdict.ExitSLOFailed) // the evicted pod is gone
	h.summary(t, verdict.ExitSLOFailed)
	h.results(t, verdict.ExitAborted, verdict.ExitSLOFailed)
	said := verdict.ExitName(verdict.ExitSLOFailed)
	g.wants(t, "lockdrill", h.name, said)
	line := fmt.Sprintf("lockdrill_run_verdict{experiment=%q,verdict=%q} 1\n", h.name, said)
	if text := string(read(t, filepath.Join(h.volume, "drills.prom"))); !strings.Contains(text, line) {
		t.Errorf("the file of metrics has no line %q:\n%s", line, text)
	}
}
