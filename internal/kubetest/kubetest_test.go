package kubetest

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const patience = time.Minute

// within polls until what holds.
func within(t *testing.T, what string, holds func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	poll := time.NewTicker(lookEvery)
	defer poll.Stop()
	for !holds(ctx) {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName: Node, TerminationGracePeriodSeconds: new(int64(30)),
		Containers: []corev1.Container{{Name: "c", Image: "none", Args: []string{"I am $(ME), not $(YOU) or $$(ME)"}, Env: []corev1.EnvVar{
			{Name: "ME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
			{Name: "BOTH", Value: "$(ME)/$(UID)"},
		}}},
	}}
}

func (e *Env) create(t *testing.T, ns string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	p, err := e.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (e *Env) pod(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	p, err := e.Client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// status of the pod's container; nil = none yet.
func (e *Env) container(t *testing.T, ns, name string) *corev1.ContainerStatus {
	t.Helper()
	if p := e.pod(t, ns, name); p != nil && len(p.Status.ContainerStatuses) > 0 {
		return &p.Status.ContainerStatuses[0]
	}
	return nil
}

func (e *Env) running(t *testing.T, ns, name string, restarts int32) {
	t.Helper()
	within(t, name+" runs", func(context.Context) bool {
		c := e.container(t, ns, name)
		return c != nil && c.State.Running != nil && c.RestartCount == restarts
	})
}

func (e *Env) record(t *testing.T, name string, life int) Record {
	t.Helper()
	for _, r := range e.Lives() {
		if r.Pod == name {
			if life == 0 {
				return r
			}
			life--
		}
	}
	t.Fatalf("pod %s has had no such life", name)
	return Record{}
}

// ended waits for the end of the process.
func (e *Env) ended(t *testing.T, name string, life int) Record {
	t.Helper()
	within(t, "the process of "+name+" ends", func(context.Context) bool { return !e.record(t, name, life).Ended.IsZero() })
	return e.record(t, name, life)
}

func TestKubePods(t *testing.T) {
	e := Start(t, Options{NodeOptions: NodeOptions{ForceGrace: 700 * time.Millisecond, Run: func(ctx context.Context, l *Life) int {
		_, _ = io.WriteString(l.Log, l.Args[0]+"\n"+l.Env["BOTH"]+"\n")
		if strings.HasPrefix(l.Env["ME"], "deaf") {
			return IgnoreTerm(ctx, l)
		}
		return Wait(ctx, l)
	}}})
	ns := e.Namespace("drill", map[string]string{"a/b": "c"})
	pods := e.Client.CoreV1().Pods(ns)

	t.Run("log", func(t *testing.T) {
		p := e.create(t, ns, podNamed("log"))
		e.running(t, ns, "log", 0)
		text, err := pods.GetLogs("log", &corev1.PodLogOptions{}).DoRaw(t.Context())
		want := "I am log, not $(YOU) or $(ME)\nlog/" + string(p.UID) + "\n"
		if err != nil || string(text) != want {
			t.Fatalf("log = %q, %v, want %q", text, err, want)
		}
	})

	t.Run("crash", func(t *testing.T) {
		e.create(t, ns, podNamed("crash"))
		e.running(t, ns, "crash", 0)
		first := e.container(t, ns, "crash").ContainerID
		stream, err := pods.GetLogs("crash", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		e.Crash(ns, "crash")
		e.running(t, ns, "crash", 1)
		c := e.container(t, ns, "crash")
		if last := c.LastTerminationState.Terminated; c.ContainerID == first || last == nil || last.ContainerID != first || last.ExitCode != 137 {
			t.Fatalf("after a crash: %+v", c)
		}
		if text, err := io.ReadAll(stream); err != nil || !strings.Contains(string(text), "I am crash") {
			t.Fatalf("the stream of the first life: %q, %v", text, err)
		}
	})

	t.Run("graceful", func(t *testing.T) {
		e.create(t, ns, podNamed("nice"))
		e.running(t, ns, "nice", 0)
		if err := pods.Delete(t.Context(), "nice", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		within(t, "the object goes", func(context.Context) bool { return e.pod(t, ns, "nice") == nil })
		if r := e.record(t, "nice", 0); r.Ended.IsZero() || r.Exit != 0 {
			t.Fatalf("the object is gone before the process: %+v", r)
		}
	})

	// The trap that everything about pods is careful of.
	t.Run("forced and deaf", func(t *testing.T) {
		e.create(t, ns, podNamed("deaf"))
		e.running(t, ns, "deaf", 0)
		stream, err := pods.GetLogs("deaf", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		called := time.Now()
		if err := pods.Delete(t.Context(), "deaf", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
		if e.pod(t, ns, "deaf") != nil {
			t.Fatal("the object stays")
		}
		if _, err := io.ReadAll(stream); err != nil { // goes on without the object
			t.Fatal(err)
		}
		if r := e.ended(t, "deaf", 0); r.Exit != 137 || r.Ended.Sub(called) < 700*time.Millisecond {
			t.Fatalf("the process ended %v after the call: %+v", r.Ended.Sub(called), r)
		}
	})

	t.Run("job", func(t *testing.T) {
		p := podNamed("once")
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		e.create(t, ns, p)
		e.running(t, ns, "once", 0)
		e.Crash(ns, "once")
		within(t, "the pod fails", func(context.Context) bool { return e.pod(t, ns, "once").Status.Phase == corev1.PodFailed })
	})

	t.Run("a nobody", func(t *testing.T) {
		for _, file := range []string{e.KubeconfigFor("nobody"), e.KubeconfigForServiceAccount(ns, "nobody")} {
			config, err := clientcmd.BuildConfigFromFlags("", file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				t.Fatalf("%s: %v, want forbidden", file, err)
			}
		}
	})
}

func TestKubeDeployment(t *testing.T) {
	e := Start(t, Options{Controllers: true, NodeOptions: NodeOptions{Run: Command("/bin/sh", "GREETING=hello"), ReadyAt: "listening"}})
	ns := e.Namespace("drill", nil)
	labels := map[string]string{"app": "w"}
	pod := podNamed("")
	pod.Spec.NodeName = ""
	pod.Spec.Containers[0].Args = []string{"-c", "trap 'echo bye; exit 3' TERM; echo $GREETING from $(ME); echo listening; while :; do sleep 0.05; done"}
	_, err := e.Client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := func(ctx context.Context) bool {
		d, err := e.Client.AppsV1().Deployments(ns).Get(ctx, "w", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 2 && d.Status.Replicas == 2
	}
	within(t, "two pods are ready", ready)
	list, err := e.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=w"})
	if err != nil {
		t.Fatal(err)
	}
	victim := list.Items[0]
	stream, err := e.Client.CoreV1().Pods(ns).GetLogs(victim.Name, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if err := e.Client.CoreV1().Pods(ns).Delete(t.Context(), victim.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(stream); err != nil || string(text) != "hello from "+victim.Name+"\nlistening\nbye\n" {
		t.Fatalf("log %q, %v", text, err)
	}
	if r := e.ended(t, victim.Name, 0); r.Exit != 3 {
		t.Fatalf("%+v", r)
	}
	within(t, "there is a third pod", func(ctx context.Context) bool { return len(e.Lives()) == 3 && ready(ctx) })

	background := metav1.DeletePropagationBackground
	if err := e.Client.AppsV1().Deployments(ns).Delete(t.Context(), "w", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	within(t, "the pods go with their owner", func(ctx context.Context) bool {
		list, err := e.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}
