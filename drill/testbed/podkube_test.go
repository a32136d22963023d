package testbed

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores"
)

func of(kind history.Kind, incarnation string) func(history.Event) bool {
	return func(e history.Event) bool {
		return e.Kind == kind && e.Replica != nil && e.Replica.Incarnation == incarnation
	}
}

func goneOf(uid string) func(history.Event) bool {
	return func(e history.Event) bool {
		return e.Kind == history.ObjectKind && e.Object.UID == uid && e.Object.Gone
	}
}

func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll, limit := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

const forceGrace = 1800 * time.Millisecond

func TestKubePods(t *testing.T) {
	at := redistest.Start(t)
	env := kubetest.Start(t, kubetest.Options{Controllers: true, NodeOptions: kubetest.NodeOptions{
		ReadyAt: deaf, RestartAfter: 100 * time.Millisecond, ForceGrace: forceGrace,
		Run: kubetest.Command(os.Args[0], role+"=pod", "LOCKS_AT="+at),
	}})
	ns := env.Namespace("drill", nil)
	c, err := kube.Open(kube.Options{Kubeconfig: env.Kubeconfig, Namespace: ns})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a drill", func(t *testing.T) { drillPods(t, env, c, at) })
	t.Run("observed pods", func(t *testing.T) { observePods(t, env, c) })
	t.Run("a killed runner", func(t *testing.T) { killedApplier(t, env, c) })
}

func drillPods(t *testing.T, env *kubetest.Env, c *kube.Cluster, at string) {
	ctx := t.Context()
	_, err := env.Client.CoreV1().ConfigMaps(c.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lockdrill-fleet1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stand := PodStandOptions{Cluster: c, Run: "run-1", Folder: "/f", Manifests: workers("fleet1")}
	if _, err := ApplyPods(ctx, stand); err == nil || !strings.Contains(err.Error(), "configmap lockdrill-fleet1 is in namespace drill already") {
		t.Fatalf("a stranger's object: %v", err)
	}
	if _, err := env.Client.CoordinationV1().Leases(c.Namespace).Get(ctx, turnName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("something was touched before the refusal: %v", err)
	}
	path := filepath.Join(t.TempDir(), undo.File)
	if stand.Journal, err = undo.Create(path, undo.Header{Run: "run-1"}); err != nil {
		t.Fatal(err)
	}
	stand.Manifests = workers("fleet2")
	s, err := ApplyPods(ctx, stand)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(ctx)) }) // a test that fails gives the namespace up
	held := new(stores.HeldError)
	other := PodStandOptions{Cluster: c, Run: "run-2", Manifests: workers("fleet3")}
	if _, err := ApplyPods(ctx, other); !errors.As(err, &held) || held.Run != "run-1" || held.Folder != "/f" {
		t.Fatalf("a second run: %v", err)
	}

	origin := time.Now()
	clock := func() int64 { return int64(time.Since(origin)) }
	log, o := newPodLog(clock, c, map[string]string{kube.RunLabel: "run-1"})
	f := NewPodFleet(PodFleetOptions{Pods: o, Redis: &redis.Options{Addr: at}, Fleet: "fleet2"})
	defer f.Stop(context.WithoutCancel(ctx))
	start := func(name, inc string) history.Replica {
		t.Helper()
		r, _, err := f.Start(ctx, protocol.Configure{Name: name, Incarnation: inc})
		if err != nil || r.Incarnation != "" {
			t.Fatalf("start %s: %+v, %v", inc, r, err)
		}
		return *log.await(t, "start of "+inc, of(history.ReplicaStart, inc)).Replica
	}
	offer := func(inc, job string) history.Event {
		t.Helper()
		if err := f.Send(inc, protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: "l", Job: job, Key: "k"}}); err != nil {
			t.Fatal(err)
		}
		return log.await(t, "answer of "+inc, func(e history.Event) bool { return e.Kind == history.JobAck && e.Job.ID == job })
	}
	slots := map[string]history.Replica{}
	for _, n := range []string{"r1", "r2", "r3"} {
		slots[n] = start(n, n+".1")
	}
	for n, r := range slots {
		if e := log.await(t, "ready", of(history.ReplicaReady, n+".1")); r.Pod == nil || r.Pod.UID == "" || e.Clock != history.ClockBounds || e.Replica.Metrics != "" {
			t.Errorf("%s: start %+v, ready %+v", n, r, e)
		}
	}
	from := clock()
	if e := offer("r1.1", "j1"); e.Source != "r1.1" || e.Clock != history.ClockBounds || e.From < from-int64(100*time.Millisecond) || e.To > clock() || e.From > e.To {
		t.Errorf("claim %+v, asked at %d", e, from)
	}

	// A crash: the container restarts, the pod stays.
	if err := f.Send("r1.1", protocol.Command{Cmd: protocol.CmdCrash}); err != nil {
		t.Fatal(err)
	}
	exit := log.await(t, "exit of r1.1", of(history.ReplicaExit, "r1.1"))
	checkEnd(t, env, origin, exit, 0)
	if r := exit.Replica; r.Lines != 2 || r.Bad != 0 || r.Unheard != 0 || r.By == history.ByStatus && r.Exit != "exit status 137" {
		t.Errorf("exit after a crash: %+v", r)
	}
	if err := f.Send("r1.1", protocol.Command{Cmd: protocol.CmdStop}); !errors.Is(err, ErrDead) {
		t.Errorf("a command for a dead one: %v", err)
	}
	if r := start("r1", "r1.2"); r.Pod.UID != slots["r1"].Pod.UID || r.Pod.Restarts != 1 {
		t.Errorf("the next life: %+v, want a restart in %+v", r.Pod, slots["r1"].Pod)
	}

	// Cut logs and a force delete of one that is deaf to SIGTERM. A replica starts by its hello, which may come before its log is followed.
	followed := []string{"r1.2", "r2.1", "r3.1"}
	within(t, "the logs are followed", func() bool { return log.each(followed, func(inc string) bool { return len(log.lines[inc]) > 0 }) })
	env.CutLogs()
	within(t, "the logs are followed again", func() bool { return log.each(followed, func(inc string) bool { return log.cuts[inc] > 0 }) })
	victim, zero := slots["r2"].Pod, int64(0)
	called, release := clock(), env.HoldKills()
	defer release()
	if err := c.DeletePod(ctx, victim.Name, victim.UID, &zero); err != nil {
		t.Fatal(err)
	}
	gone := log.await(t, "end of the object", goneOf(victim.UID))
	if gone.Object.Incarnation != "r2.1" {
		t.Errorf("the object that is gone: %+v", gone.Object)
	}
	after := offer("r2.1", "after its object") // it lives on
	start("r2", "r2.2")
	if log.count(of(history.ReplicaExit, "r2.1")) > 0 {
		t.Error("the end of an object was taken for that of a process")
	}
	release()
	exit = log.await(t, "exit of r2.1", of(history.ReplicaExit, "r2.1"))
	checkEnd(t, env, origin, exit, 0)
	if exit.Replica.By != history.ByLogStream || exit.To < gone.To || exit.From < after.From || exit.To-called < int64(forceGrace) {
		t.Errorf("called at %d, object gone %v, answered %v, exit %v: %+v", called, gone.Span, after.Span, exit.Span, exit.Replica)
	}
	next := log.await(t, "ready", of(history.ReplicaReady, "r2.2"))
	t.Logf("call %.3fs, object gone by %.3fs, process %v, replacement ready %v", float64(called)/1e9, float64(gone.To)/1e9, exit.Span, next.Span)

	// The log of one whose object is gone is cut: that looks like its end, and later signs of life refute it. Nobody sees its end.
	release = env.HoldKills()
	defer release()
	if err := c.DeletePod(ctx, slots["r3"].Pod.Name, slots["r3"].Pod.UID, &zero); err != nil {
		t.Fatal(err)
	}
	log.await(t, "end of the object", goneOf(slots["r3"].Pod.UID))
	env.CutLogs()
	start("r3", "r3.2")

	if err := f.Stop(ctx); err != nil {
		t.Error(err)
	}
	if log.count(of(history.ReplicaExit, "r3.1")) > 0 {
		t.Error("a log that was cut was taken for the end of a process")
	}
	release()
	for _, inc := range []string{"r1.2", "r2.2", "r3.2"} {
		e := log.await(t, "exit of "+inc, of(history.ReplicaExit, inc))
		if e.Replica.Exit != "exit status 0" && e.Replica.By != history.BySuccessor {
			t.Errorf("exit of %s: %+v", inc, e.Replica)
		}
	}
	log.mu.Lock()
	for inc, lines := range log.lines {
		if strings.Count(strings.Join(lines, "\n"), "a line that is no event") != 1 {
			t.Errorf("log of %s: %q", inc, lines)
		}
	}
	if len(log.lines) != 6 {
		t.Errorf("lines of %d replicas", len(log.lines))
	}
	log.mu.Unlock()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if left := objectsOf(t, env, c, "fleet2"); left != "" {
		t.Errorf("left after Close: %s", left)
	}
	if _, err := env.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, "lockdrill-fleet1", metav1.GetOptions{}); err != nil {
		t.Errorf("the stranger's object: %v", err)
	}
	if err := errors.Join(s.Close(ctx), stand.Journal.Close()); err != nil {
		t.Error(err)
	}
}

// A StatefulSet's pod of the same name is another replica, whatever its predecessor's process does.
func observePods(t *testing.T, env *kubetest.Env, c *kube.Cluster) {
	labels := map[string]string{"app": "theirs"}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	sets := env.Client.AppsV1().StatefulSets(c.Namespace)
	_, err := sets.Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: "theirs",
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "none", Env: []corev1.EnvVar{{Name: "FLEET", Value: "theirs"}, field("LOCKDRILL_POD", "metadata.name"), field("LOCKDRILL_POD_UID", "metadata.uid")},
		}}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	origin := time.Now()
	log, o := newPodLog(func() int64 { return int64(time.Since(origin)) }, c, labels)
	f := NewObservedFleet(ObservedOptions{Pods: o})
	defer f.Stop(t.Context())
	victim := log.await(t, "ready", of(history.ReplicaStart, "r1.1")).Replica.Pod
	log.await(t, "ready", of(history.ReplicaReady, "r1.1"))
	log.await(t, "ready", of(history.ReplicaReady, "r2.1"))
	if victim.Name != "theirs-0" || f.HolderOf("theirs-0_1234") != "r1.1" {
		t.Errorf("victim %+v, holder %q", victim, f.HolderOf("theirs-0_1234"))
	}
	zero, release := int64(0), env.HoldKills()
	defer release()
	if err := c.DeletePod(t.Context(), victim.Name, victim.UID, &zero); err != nil {
		t.Fatal(err)
	}
	gone := log.await(t, "end of the object", goneOf(victim.UID))
	next := log.await(t, "start of r1.2", of(history.ReplicaStart, "r1.2"))
	if p := next.Replica.Pod; p.Name != victim.Name || p.UID == victim.UID || f.HolderOf("theirs-0_1234") != "r1.2" {
		t.Errorf("successor %+v of %+v", p, victim)
	}
	if log.count(of(history.ReplicaExit, "r1.1")) > 0 {
		t.Error("the end of an object was taken for that of a process")
	}
	release()
	exit := log.await(t, "exit of r1.1", of(history.ReplicaExit, "r1.1"))
	checkEnd(t, env, origin, exit, 0)
	if exit.Replica.By != history.ByLogStream || exit.To < gone.To {
		t.Errorf("object gone %v, exit %v by %s", gone.Span, exit.Span, exit.Replica.By)
	}
	if err := sets.Delete(t.Context(), "theirs", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// checkEnd compares an exit with what really happened to that life of the pod.
func checkEnd(t *testing.T, env *kubetest.Env, origin time.Time, exit history.Event, life int) {
	t.Helper()
	for _, r := range env.Lives() {
		if r.UID != exit.Replica.Pod.UID {
			continue
		}
		if life--; life >= 0 {
			continue
		}
		ended := int64(r.Ended.Sub(origin))
		// The end was noted a moment after it.
		if r.Ended.IsZero() || exit.To < ended-int64(20*time.Millisecond) || exit.From > ended || exit.To-exit.From > int64(5*time.Second) {
			t.Errorf("exit %v by %s, and the process ended at %.6fs", exit.Span, exit.Replica.By, float64(ended)/1e9)
		}
		return
	}
	t.Errorf("no such life: %+v", exit.Replica.Pod)
}

// objectsOf names what is there of a run of workers, and of its turn.
func objectsOf(t *testing.T, env *kubetest.Env, c *kube.Cluster, fleet string) string {
	t.Helper()
	var left []string
	pods, err := env.Client.CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + fleet})
	for i := range pods.Items {
		left = append(left, pods.Items[i].Name)
	}
	for what, get := range map[string]func() error{
		"deployment": func() error {
			_, err := env.Client.AppsV1().Deployments(c.Namespace).Get(t.Context(), "lockdrill-"+fleet, metav1.GetOptions{})
			return err
		},
		"configmap": func() error {
			_, err := env.Client.CoreV1().ConfigMaps(c.Namespace).Get(t.Context(), "lockdrill-"+fleet, metav1.GetOptions{})
			return err
		},
		"turn": func() error {
			_, err := env.Client.CoordinationV1().Leases(c.Namespace).Get(t.Context(), turnName, metav1.GetOptions{})
			return err
		},
	} {
		if err := get(); err == nil {
			left = append(left, what)
		} else if !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	if err != nil {
		t.Error(err)
	}
	return strings.Join(left, ", ")
}

// A runner that is killed with -9 leaves its journal; whoever reads it removes exactly what is the run's.
func killedApplier(t *testing.T, env *kubetest.Env, c *kube.Cluster) {
	path := filepath.Join(t.TempDir(), undo.File)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=applier", "KUBECONFIG="+env.Kubeconfig, "NAMESPACE="+c.Namespace, "JOURNAL="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "applied\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	within(t, "there are pods", func() bool { return strings.Contains(objectsOf(t, env, c, "killed"), "lockdrill-killed-") })
	// In the meantime somebody has replaced one of the objects by one of their own.
	maps := env.Client.CoreV1().ConfigMaps(c.Namespace)
	if err := maps.Delete(t.Context(), "lockdrill-killed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stranger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lockdrill-killed", Labels: map[string]string{kube.RunLabel: "another"}}}
	if _, err := maps.Create(t.Context(), stranger, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Whoever reads it reaches the server at another address, as from another machine.
	way := env.Listener(env.Kubeconfig)
	end := func(ctx context.Context, r undo.Record) error {
		there := *r.Cluster
		there.Kubeconfig, r.Cluster = way.Kubeconfig, &there
		return EndPods(ctx, r, false)
	}
	found, err := undo.Open(filepath.Dir(path), false)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	report, err := found.Recover(t.Context(), map[string]undo.Reverter{undo.StandPods: end}, "recover")
	if err != nil || len(report.Left()) > 0 || len(report.Outcomes) != 1 {
		t.Fatalf("recover: %+v, %v", report, err)
	}
	if left := objectsOf(t, env, c, "killed"); left != "configmap" {
		t.Errorf("left: %s, want the stranger's configmap", left)
	}
	if err := EndPods(t.Context(), report.Outcomes[0].Record, false); err != nil { // nothing is left to do
		t.Error(err)
	}
	another := *report.Outcomes[0].Record.Cluster
	another.Kubeconfig, another.UID = way.Kubeconfig, "another"
	if err := EndPods(t.Context(), undo.Record{Kind: undo.StandPods, Cluster: &another}, false); err == nil || !strings.Contains(err.Error(), "is another (UID") {
		t.Errorf("at another cluster: %v", err)
	}
}
