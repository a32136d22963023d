package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/history"
)

// usedWorkers: an exported Deployment of workers serves a drill that kills them, and then one whose faults are of the network, through a
// Toxiproxy of somebody's, and stays as it was.
func usedWorkers(t *testing.T, s *site) {
	yaml := edit(t, s.yaml(), "pods: apply", "pods: use")
	dir := folder(t, "pods.yaml", yaml)
	s.exportedWorkers(t, dir)
	s.planned(t, dir, 3)
	api := theirProxies(t)
	kills := yaml
	yaml = edit(t, yaml, "ledger: {", "proxy: {mode: external, url: \""+api+"\"}\nledger: {",
		"at: 0s, repeat: {count: 2, every: settled}, kill: {holder_of: loop, form: crash}", "at: 0s, for: 2s, latency: {all: true, add: 20ms, stream: both}",
		"takeover: {max: 5s}", "overlap: {level: effect, max: 0}")
	s.shippedRole(t, yaml)
	before := s.objects(t)
	s.drill(t, kills, verdict.ExitPass)
	s.planned(t, dir, 3)
	o := s.drill(t, yaml, verdict.ExitPass)
	s.roleFits(t)
	if !strings.Contains(o.text, "workers that are there, in pods of kubernetes kubetest/"+s.namespace) {
		t.Errorf("it does not say whose pods they are:\n%s", o.text)
	}
	onlyTheirs(t, api)
	s.clean(t, before...)
}

// exportedWorkers applies what export deployment prints of pods.yaml in dir.
func (s *site) exportedWorkers(t *testing.T, dir string) {
	t.Helper()
	s.applyAll(t, tryIn(t, dir, "export", "deployment", "pods.yaml").stdout)
}

// struckTwice runs a drill of two kills that strike whoever they strike: that one of them holds the lock is luck, and no promise fails.
func (s *site) struckTwice(t *testing.T, yaml string) drillOut {
	t.Helper()
	o := runDrill(t, yaml, nil, s.runFlags()...)
	if o.code != verdict.ExitPass && o.code != verdict.ExitInconclusive {
		t.Errorf("exit %d, verdict %q\n%s", o.code, o.j.Verdict, o.text)
	}
	if len(o.j.Faults) != 2 || !o.j.Faults[0].Confirmed || !o.j.Faults[1].Confirmed {
		t.Fatalf("faults %+v\n%s", o.j.Faults, o.text)
	}
	return o
}

// severalControllers: the labels of a drill's pods are also on a pod of somebody's StatefulSet, which is older than them. The drill is
// refused until it names its controller, and then never strikes the other one; nor are there ever more pods than it counts.
func severalControllers(t *testing.T, s *site) {
	labels, one := deploy.WorkerLabels("pods"), int32(1)
	_, err := s.Client.AppsV1().StatefulSets(s.namespace).Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "theirs"},
		Spec: appsv1.StatefulSetSpec{Replicas: &one, ServiceName: "theirs", Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "none", Args: []string{"worker", "--join", "redis://" + s.ledger, "--fleet", "theirs"},
				Env: []corev1.EnvVar{{Name: "LOCKDRILL_POD", Value: "theirs-0"}, {Name: "LOCKDRILL_POD_UID", Value: "theirs"}}}}},
		}}}, metav1.CreateOptions{})
	must(t, err)
	var theirs *corev1.Pod
	until(t, "their pod", func() bool {
		theirs, err = s.Client.CoreV1().Pods(s.namespace).Get(t.Context(), "theirs-0", metav1.GetOptions{})
		return err == nil && len(theirs.Status.ContainerStatuses) > 0 && theirs.Status.ContainerStatuses[0].State.Running != nil
	})
	yaml := edit(t, s.yaml(), "pods: apply", "pods: use", "kill: {holder_of: loop, form: crash}",
		"kill: {pods: {app.kubernetes.io/name: lockdrill-worker}, pick: oldest, form: force_delete}", "takeover: {max: 5s}", "overlap: {level: effect, max: 0}")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pods.yaml"), []byte(yaml))
	s.exportedWorkers(t, dir)
	named := edit(t, yaml, "pods: use", "pods: use, controller: deployment/lockdrill-pods")
	until(t, "a plan with the controller's pods alone", func() bool {
		write(t, filepath.Join(dir, "pods.yaml"), []byte(named))
		got := tryIn(t, dir, append([]string{"plan", "pods.yaml"}, s.flags()...)...)
		return got.code == verdict.ExitPass && strings.Count(got.stdout, "Running, ready") == 3 && !strings.Contains(got.stdout, "theirs-0")
	})
	says(t, s.drill(t, yaml, verdict.ExitRefused).text, "they are 3 of deployment/lockdrill-pods, 1 of statefulset/theirs", "name the one to drill in kubernetes.controller")
	o := s.struckTwice(t, named)
	h := historyIn(t, o.dir)
	for _, e := range h.Events {
		if e.Kind == history.ReplicaStart && e.Replica.Pod.UID == string(theirs.UID) {
			t.Errorf("%s is in their pod", e.Replica.Incarnation)
		}
	}
	now, err := s.Client.CoreV1().Pods(s.namespace).Get(t.Context(), "theirs-0", metav1.GetOptions{})
	if err != nil || now.UID != theirs.UID || now.DeletionTimestamp != nil {
		t.Errorf("their pod: %+v, %v", now, err)
	}
}

// statefulWorkers: the one whose ordinal is 0 is force-deleted twice, and both times the same replica comes back in a new pod of its name; by
// the shipped Role and no more.
func statefulWorkers(t *testing.T, s *site) {
	yaml := edit(t, s.yaml(), "pods: apply", "pods: apply, workers: statefulset",
		"kill: {holder_of: loop, form: crash}", `kill: {pods: {apps.kubernetes.io/pod-index: "0"}, form: force_delete}`,
		"takeover: {max: 5s}", "overlap: {level: effect, max: 0}")
	s.shippedRole(t, yaml)
	before := s.objects(t)
	o := s.struckTwice(t, yaml)
	s.roleFits(t)
	for _, f := range o.j.Faults {
		if !strings.HasPrefix(f.Victim, "r1.") {
			t.Errorf("%s#%d struck %q", f.ID, f.Shot, f.Victim)
		}
	}
	h := historyIn(t, o.dir)
	uids := map[string]bool{} // of r1
	for _, e := range h.Events {
		if e.Kind != history.ReplicaStart {
			continue
		}
		ordinal := e.Replica.Pod.Name[strings.LastIndex(e.Replica.Pod.Name, "-")+1:]
		if n, err := strconv.Atoi(ordinal); err != nil || e.Replica.Name != fmt.Sprintf("r%d", n+1) {
			t.Errorf("%s is in pod %s", e.Replica.Incarnation, e.Replica.Pod.Name)
		}
		if e.Replica.Name == "r1" {
			uids[e.Replica.Pod.UID] = true
		}
	}
	if len(uids) != 3 {
		t.Errorf("%d pods of r1, want 3", len(uids))
	}
	s.clean(t, before...)
}

// interrupted: the first Ctrl-C removes what the run has made.
func interrupted(t *testing.T, s *site) {
	o := runDrill(t, edit(t, s.yaml(), "at: 0s", "at: 1h", "max_run: 3m", "max_run: 2h"), func(pid int) {
		until(t, "three workers", func() bool { return strings.Count(strings.Join(s.objects(t), "\n"), "pod lockdrill-") == 3 })
		must(t, syscall.Kill(pid, syscall.SIGINT))
	}, s.flags()...)
	o.ends(t, verdict.ExitAborted)
	s.clean(t)
}
