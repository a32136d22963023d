package deploy_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// What a platform asks of each pod is in every one; what the drill relies on is as it was.
func TestPodsTakeWhatAPlatformAsks(t *testing.T) {
	const patch = `pod: {annotations: {sidecar.istio.io/inject: "false"}, imagePullSecrets: [{name: registry}], nodeSelector: {pool: drills},
  tolerations: [{key: drills, operator: Exists}], priorityClassName: low, resources: {requests: {cpu: 1}, limits: {memory: 1Gi}},
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}},
  securityContext: {runAsUser: null, fsGroup: 7}}`
	plain := gameDay(t)
	e := gameDay(t, "kubernetes: {", "kubernetes: {"+patch+", ")
	day := func(o deploy.JobOptions) ([][]byte, error) {
		o.Schedule = "@daily"
		return deploy.CronJob(o)
	}
	for name, render := range map[string][2]func() ([][]byte, error){
		"workers": {func() ([][]byte, error) { return deploy.Workers(workersOf(t, plain, "f")) }, func() ([][]byte, error) { return deploy.Workers(workersOf(t, e, "f")) }},
		"job":     {func() ([][]byte, error) { return deploy.Job(jobOf(t, plain)) }, func() ([][]byte, error) { return deploy.Job(jobOf(t, e)) }},
		"cronjob": {func() ([][]byte, error) { return day(jobOf(t, plain)) }, func() ([][]byte, error) { return day(jobOf(t, e)) }},
		"toxiproxy": {func() ([][]byte, error) { return deploy.Toxiproxy(deploy.ToxiproxyOptions{Image: "t"}) },
			func() ([][]byte, error) {
				return deploy.Toxiproxy(deploy.ToxiproxyOptions{Image: "t", Pod: e.Kubernetes.Pod})
			}},
		"server": {func() ([][]byte, error) { return deploy.Server(deploy.ServerOptions{Image: "i"}) },
			func() ([][]byte, error) {
				return deploy.Server(deploy.ServerOptions{Image: "i", Pod: e.Kubernetes.Pod})
			}},
	} {
		was, is := templateIn(t, render[0]), templateIn(t, render[1])
		spec := is.Spec
		switch {
		case is.Annotations["sidecar.istio.io/inject"] != "false" || len(is.Annotations) != len(was.Annotations)+1,
			len(spec.ImagePullSecrets) != 1 || spec.NodeSelector["pool"] != "drills" || spec.Tolerations[0].Key != "drills" || spec.PriorityClassName != "low" || spec.Affinity.NodeAffinity == nil,
			spec.SecurityContext.RunAsUser != nil || *spec.SecurityContext.FSGroup != 7 || !*spec.SecurityContext.RunAsNonRoot:
			t.Errorf("%s: %+v", name, is)
		}
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			if c.Resources.Requests.Cpu().Value() != 1 || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().Value() != 1<<30 {
				t.Errorf("%s: container %s has %+v", name, c.Name, c.Resources)
			}
		}
		if len(is.Labels) != len(was.Labels) || spec.ServiceAccountName != was.Spec.ServiceAccountName || !slices.Equal(spec.Containers[0].Args, was.Spec.Containers[0].Args) {
			t.Errorf("%s: what is the drill's own has changed: %+v", name, is)
		}
	}
}

// templateIn is the template of the pods of a manifest, strictly decoded.
func templateIn(t *testing.T, render func() ([][]byte, error)) *corev1.PodTemplateSpec {
	t.Helper()
	docs, err := render()
	testkit.Must(t, err)
	for _, doc := range docs {
		switch o := runtime.Object(strictly(t, doc)).(type) {
		case *appsv1.Deployment:
			return &o.Spec.Template
		case *batchv1.Job:
			return &o.Spec.Template
		case *batchv1.CronJob:
			return &o.Spec.JobTemplate.Spec.Template
		}
	}
	t.Fatal("no manifest has pods")
	return nil
}

func TestPodFieldsThatTheAPIDoesNotKnow(t *testing.T) {
	for patch, want := range map[string]string{
		`{tolerations: [{kee: drills}]}`:             `"[0].kee"`,
		`{nodeSelector: 7}`:                          "kubernetes.pod",
		`{resources: {limit: {memory: 1Gi}}}`:        `kubernetes.pod.resources: unknown field "limit"`,
		`{annotations: {a: [b]}}`:                    "kubernetes.pod.annotations",
		`{securityContext: {runAsUzer: 3}}`:          "runAsUzer",
		`{resources: {limits: {memory: plenty}}}`:    "kubernetes.pod.resources",
		`{imagePullSecrets: [{name: a, secret: b}]}`: `secret`,
	} {
		if err := deploy.CheckPod(gameDay(t, "kubernetes: {", "kubernetes: {pod: "+patch+", ").Kubernetes.Pod); err == nil || !strings.Contains(err.Error(), strings.Trim(want, `"`)) {
			t.Errorf("%s: %v, want %s", patch, err, want)
		}
	}
}

// Every exit status is decided by the Job: an answer fails it at once, also where the cluster took the pod away meanwhile; only an
// abort that the cluster caused is ignored, so that the pod is replaced.
func TestJobDecidesEveryExitStatus(t *testing.T) {
	docs, err := deploy.Job(jobOf(t, gameDay(t)))
	testkit.Must(t, err)
	spec := strictly(t, docs[len(docs)-1]).(*batchv1.Job).Spec
	if *spec.BackoffLimit != 0 || spec.Template.Spec.RestartPolicy != "Never" {
		t.Errorf("%+v", spec)
	}
	decide := func(code int, disrupted bool) batchv1.PodFailurePolicyAction {
		for _, r := range spec.PodFailurePolicy.Rules {
			if r.OnExitCodes != nil && slices.Contains(r.OnExitCodes.Values, int32(code)) || disrupted && len(r.OnPodConditions) > 0 {
				return r.Action
			}
		}
		return batchv1.PodFailurePolicyActionCount // against backoffLimit 0
	}
	for _, m := range verdict.Exits() {
		if m.Code == verdict.ExitPass {
			continue
		}
		disrupted := batchv1.PodFailurePolicyActionFailJob
		if m.Code == verdict.ExitAborted {
			disrupted = batchv1.PodFailurePolicyActionIgnore
		}
		if alone, taken := decide(m.Code, false), decide(m.Code, true); alone != batchv1.PodFailurePolicyActionFailJob || taken != disrupted {
			t.Errorf("%s: %s; in a pod that the cluster took away %s, want %s", m.Name, alone, taken, disrupted)
		}
	}
	if got := decide(137, false); got != batchv1.PodFailurePolicyActionCount {
		t.Errorf("a runner that was killed: %s", got)
	}
}
