package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// resources are the API's words for the kinds that export prints.
var resources = map[string]string{
	"ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps", "Deployment": "deployments", "StatefulSet": "statefulsets", "Role": "roles", "RoleBinding": "rolebindings",
	"Job": "jobs", "CronJob": "cronjobs", "PersistentVolumeClaim": "persistentvolumeclaims", "Service": "services", "NetworkPolicy": "networkpolicies",
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
}

// A real API server takes every manifest, with every field checked; and where a namespace enforces the pod security standard
// "restricted", it takes every pod that they would make.
func TestKubeManifests(t *testing.T) {
	env, dir := kubetest.Start(t, kubetest.Options{NoNode: true}), podDir(t)
	enforced := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	env.Namespace("staging", nil)
	if _, err := env.Client.CoreV1().Namespaces().Patch(t.Context(), "staging", types.MergePatchType, enforced, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lockdrill-game-day", deploy.DefaultServer, deploy.DefaultWatch, deploy.RunnerName("game-day")} {
		env.KubeconfigForServiceAccount("staging", name) // a pod's account must be there
	}
	if !apierrors.IsForbidden(admitPod(t, env, "staging", corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})) {
		t.Error("a pod that is not restricted is taken: nothing is enforced here")
	}
	seen := map[string]bool{}
	write(t, filepath.Join(dir, "nodes.yaml"), []byte(edit(t, fmt.Sprintf(electedDrill, "staging"), "kill: {holder_of: leader, form: force_delete}", "for: 5s, node: {do: drain, holder_of: leader}")))
	write(t, filepath.Join(dir, "stateful.yaml"), []byte(edit(t, podDrillYAML(t), "kubernetes: {", "kubernetes: {workers: statefulset, ")))
	write(t, filepath.Join(dir, "patched.yaml"), []byte(edit(t, podDrillYAML(t), "kubernetes: {", `kubernetes: {events: true, pod: {annotations: {a.example/b: "false"}, imagePullSecrets: [{name: registry}],
  nodeSelector: {pool: drills}, tolerations: [{key: drills, operator: Exists, effect: NoSchedule}], priorityClassName: system-cluster-critical, resources: {requests: {cpu: 1}, limits: {memory: 1Gi}},
  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {a: b}}}}]}}}, `)))
	for _, args := range []string{
		"deployment patched.yaml", "rbac patched.yaml", "job patched.yaml --pushgateway http://push:9091 --metrics-file drills.prom", "cronjob patched.yaml --schedule @daily",
		"deployment stateful.yaml", "rbac stateful.yaml", "rbac nodes.yaml", "job drill.yaml --recover",
		"deployment drill.yaml", "rbac drill.yaml", "job drill.yaml --release v1.4.2 --on-inconclusive=pass", "job drill.yaml --ephemeral", "job drill.yaml --claim reports",
		"cronjob drill.yaml --schedule @daily --time-zone Europe/Berlin", "toxiproxy --image registry.example/toxiproxy:2.12.0 --namespace staging",
		"job drill.yaml --upload http://lockdrill-server:8420", "server --image registry.example/lockdrill:1.0.0 --namespace staging",
		"watch --image registry.example/lockdrill:1.0.0 --redis redis://redis:6379 --keys sched:*", "watch --image registry.example/lockdrill:1.0.0 -n staging --lease leader",
		"kustomize",
	} {
		docs := map[string][]byte{}
		if args == "kustomize" {
			docs["NetworkPolicy"] = networkManifest(t, filepath.Join(dir, "drill.yaml"))
		} else {
			docs = exported(t, dir, strings.Fields(args)...)
		}
		for kind, doc := range docs {
			seen[kind] = true
			if err := applied(t.Context(), env, "staging", doc, metav1.DryRunAll); err != nil {
				t.Errorf("export %s: %s: %v", args, kind, err)
			}
			if template := templateOf(t, doc); template != nil {
				if err := admitPod(t, env, "staging", *template); err != nil {
					t.Errorf("export %s: the pods of the %s: %v", args, kind, err)
				}
			}
		}
	}
	if len(seen) != len(resources) {
		t.Errorf("only %v were tried", seen)
	}
}

// What is exported as a schedule, the API server takes; what it cannot read is not exported.
func TestKubeSchedules(t *testing.T) {
	env, dir := kubetest.Start(t, kubetest.Options{NoNode: true}), podDir(t)
	env.Namespace("staging", nil)
	doc := exported(t, dir, "cronjob", "drill.yaml", "--schedule", "1 2 3 4 5")["CronJob"]
	for _, text := range []string{
		"0 3 * * 1-5", "*/10 8-18 * * MON-FRI", "@daily", "@midnight", "0 3 1 JAN,JUL *", "5/20 0-22/2 1,15 */3 sun", "59 23 31 12 *", "0 3 31 2 1", "0  3 * * *", "1-5/70 3 * * *", "0 3 * jan-mar/2 mon,3",
		"60 3 * * *", "0 3 * * 7", "0 3 L * *", "0 3 * * 1#2", "30-10 3 * * *", "*/0 3 * * *", "JAN 3 * * *", "1-2-3 3 * * *", "0 3 * * * *", "@5minutes", "@often",
	} {
		api := applied(t.Context(), env, "staging", []byte(strings.Replace(string(doc), "schedule: 1 2 3 4 5", "schedule: '"+text+"'", 1)), metav1.DryRunAll)
		if ours := deploy.CheckCron(text); (ours == nil) != (api == nil) {
			t.Errorf("%q: we say %v, the API server %v", text, ours, api)
		}
	}
}

func networkManifest(t *testing.T, path string) []byte {
	t.Helper()
	e, err := experiments.Load(path)
	must(t, err)
	o, err := deploy.NetworkFor(e)
	must(t, err)
	docs, err := deploy.Network(o)
	must(t, err)
	return docs[0]
}

// applied applies an object with every field checked.
func applied(ctx context.Context, env *kubetest.Env, namespace string, doc []byte, dry ...string) error {
	client, err := dynamic.NewForConfig(env.Config)
	if err != nil {
		return err
	}
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(doc, &o.Object); err != nil {
		return err
	}
	kind := o.GroupVersionKind()
	resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resources[kind.Kind]}
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	in := dynamic.ResourceInterface(client.Resource(resource))
	if !strings.HasPrefix(kind.Kind, "Cluster") {
		in = client.Resource(resource).Namespace(namespace)
	}
	_, err = in.Patch(ctx, o.GetName(), types.ApplyPatchType, text,
		metav1.PatchOptions{FieldManager: "test", DryRun: dry, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// admitPod lets the API server check a pod as a controller would make it.
func admitPod(t *testing.T, env *kubetest.Env, namespace string, template corev1.PodTemplateSpec) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName = "try-"
	_, err := env.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func templateOf(t *testing.T, doc []byte) *corev1.PodTemplateSpec {
	t.Helper()
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(doc, nil, nil)
	must(t, err)
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// awaitRules waits until the API server has heard of the Role.
func awaitRules(t *testing.T, cluster *kube.Cluster, rules []kube.Rule) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		missing, err := cluster.Missing(ctx, rules)
		if err != nil {
			t.Fatalf("%v, missing:\n%s", err, kube.RuleYAML(missing))
		}
		if len(missing) == 0 {
			return
		}
	}
}
