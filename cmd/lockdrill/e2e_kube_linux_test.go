package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// realCluster is a control plane and one real node, with a namespace that may be drilled.
type realCluster struct {
	env   *kubetest.Env
	kube  *kube.Cluster // the namespace, as its administrator
	ip    string        // of the node: pods reach what listens there
	image string        // of lockdrill, on the node

	toxiproxy string // image of a Toxiproxy's server, on the node
	elector   string // image of internal/elector, on the node
}

// podsWithin is how long pods may take to be as they should, on a machine that is busy.
const podsWithin = 90 * time.Second

// TestE2EKube is what `make e2e-kube` runs, inside the namespaces of a node: one cluster for all of it, since a node costs seconds.
func TestE2EKube(t *testing.T) {
	c := &realCluster{ip: kubetest.NeedRealNode(t), image: os.Getenv("LOCKDRILL_IMAGE"), toxiproxy: os.Getenv("LOCKDRILL_TOXIPROXY"), elector: os.Getenv("LOCKDRILL_ELECTOR")}
	begun := time.Now()
	c.env = kubetest.Start(t, kubetest.Options{Controllers: true, NoNode: true, Host: c.ip, Audit: true})
	t.Logf("%s control plane", since(begun))
	c.env.StartNode(strings.Fields(os.Getenv("LOCKDRILL_ARCHIVES"))...)
	t.Logf("%s node takes pods, images imported", since(begun))
	ns := c.env.Namespace("drills", map[string]string{"lockdrill.dev/environment": "e2e"})
	var err error
	if c.kube, err = kube.Open(kube.Options{Kubeconfig: c.env.Kubeconfig, Namespace: ns}); err != nil {
		t.Fatal(err)
	}
	t.Run("pods of our image reach a Redis", c.podsOfOurImage)
	t.Run("an object that is gone is no death", c.objectGoneIsNoDeath)
	t.Run("a drill of pods that it applies", c.drillOfAppliedPods)
	t.Run("a drill of pods that do not listen", c.drillOfDeafPods)
	t.Run("the witness in containers", c.witnessInContainers)
	t.Run("the leader of an election is cut off", c.leadersAreCutOff)
	t.Run("a run says why its pods do not start", c.secretIsMissing)
	t.Run("a Job drills stores with TLS and passwords", c.jobOfGuardedStores)
	t.Run("a Job pushes its metrics as its NetworkPolicy lets it", c.metricsArePushed)
	t.Run("a run of a CronJob is evicted and drills again", c.cronJobIsEvicted)
	t.Run("a Job recovers what a killed one left", c.killedRunnerIsRecovered)
	t.Run("a server has the run when its pods are gone", c.serverOutlivesPods)
	t.Run("a Job drives a Toxiproxy in a pod", c.toxiproxyInAPod)
	t.Logf("%s over", since(begun))
}

// podsOfOurImage: the image that `make image` makes runs as it is, as nobody, and its log is heard. What runs is the proxy, since
// a worker does nothing without a drill.
func (c *realCluster) podsOfOurImage(t *testing.T) {
	begun, store := time.Now(), c.redis(t)
	pods := c.deploy(t, "proxy", 3, corev1.Container{
		Image: c.image, Args: []string{"proxy", "--listen", "0.0.0.0:6380", "--upstream", store},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(6380)}}},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	})
	t.Logf("%s three pods of %s ready", since(begun), c.image)
	for i, p := range pods {
		client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort(c.address(t, p), "6380"), MaxRetries: -1})
		key := fmt.Sprint("through-", i)
		if err := client.Set(t.Context(), key, p.Name, time.Minute).Err(); err != nil {
			t.Errorf("write to the Redis through pod %s: %v", p.Name, err)
		}
		_ = client.Close()
		if line := <-c.lines(t, p); !strings.Contains(line.text, store) {
			t.Errorf("the log of pod %s begins with %q, want the Redis that it stands before", p.Name, line.text)
		}
	}
	direct := redis.NewClient(&redis.Options{Addr: store})
	defer direct.Close()
	if n, err := direct.DBSize(t.Context()).Result(); n != 3 || err != nil {
		t.Errorf("%d keys were written through three pods, %v", n, err)
	}
}

// objectGoneIsNoDeath is the trap of every pod kill: with grace 0 the object of a process that does not listen to SIGTERM is gone at
// once, its successor runs, and the process lives on. All three instants are seen from outside, by the node's own kernel.
func (c *realCluster) objectGoneIsNoDeath(t *testing.T) {
	victim := c.deploy(t, "deaf", 1, corev1.Container{Image: kubetest.PodImage, Args: []string{"beat", "deaf"}})[0]
	process, err := processOf(victim)
	must(t, err)
	log := c.lines(t, victim)
	<-log // the stream is open
	sights := map[string]time.Time{}
	both, stands := make(chan struct{}), make(chan struct{})
	var first sync.Once
	stop := c.watch(t, map[string]string{"app": "deaf"}, func(ch kube.Change) {
		before := len(sights)
		switch {
		case ch.Pod.UID == victim.UID && !ch.Gone:
			first.Do(func() { close(stands) }) // a watch that comes after the delete never tells of the end
		case ch.Pod.UID == victim.UID && ch.Gone:
			sights["gone"] = time.Now()
		case ch.Pod.UID != victim.UID && ch.Pod.Ready && sights["successor"].IsZero():
			sights["successor"] = time.Now()
		}
		if before == 1 && len(sights) == 2 {
			close(both)
		}
	})
	<-stands
	called := time.Now()
	if err = c.kube.DeletePod(t.Context(), victim.Name, victim.UID, new(int64(0))); err != nil {
		t.Fatal(err)
	}
	dead := <-process
	var last heard
	for line := range log {
		last = line
	}
	select {
	case <-both:
	case <-time.After(podsWithin):
		t.Error("the object's end and a ready successor were not both seen")
	}
	stop()
	after := func(at time.Time) time.Duration { return at.Sub(called).Round(time.Millisecond) }
	t.Logf("after the call: object gone %s, successor ready %s, last line of its log %s (%q), process dead %s",
		after(sights["gone"]), after(sights["successor"]), after(last.at), last.text, after(dead))
	if alone := dead.Sub(sights["gone"]); alone < time.Second {
		t.Errorf("the process was dead %s after its object: this test must show that the one says nothing of the other", alone)
	}
}

// redis starts a server that pods reach, and returns its address as they see it.
func (c *realCluster) redis(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(redistest.Start(t, "--bind", "127.0.0.1", c.ip, "--protected-mode", "no"))
	must(t, err)
	return net.JoinHostPort(c.ip, port)
}

// deploy makes a Deployment of one container, labelled app=NAME, and returns its pods when all are ready. It is gone after the test.
func (c *realCluster) deploy(t *testing.T, name string, replicas int32, k corev1.Container) []kube.Pod {
	t.Helper()
	k.Name, k.ImagePullPolicy = name, corev1.PullNever
	labels := map[string]string{"app": name}
	api := c.env.Client.AppsV1().Deployments(c.kube.Namespace)
	_, err := api.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{k}, TerminationGracePeriodSeconds: new(int64(1)),
			}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { c.remove(t, name, labels) })
	return c.ready(t, labels, int(replicas))
}

// ready returns the pods with these labels when so many are ready.
func (c *realCluster) ready(t *testing.T, labels map[string]string, want int) []kube.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), podsWithin)
	defer cancel()
	ready := map[string]kube.Pod{}
	c.kube.WatchPods(ctx, labels, "", func(ch kube.Change) {
		delete(ready, ch.Pod.UID)
		if ch.Pod.Ready && !ch.Gone {
			ready[ch.Pod.UID] = ch.Pod
		}
		if len(ready) == want {
			cancel()
		}
	}, nil)
	if len(ready) < want {
		t.Fatalf("%d of %d pods %s are ready after %s:\n%s", len(ready), want, fault.Labels(labels), podsWithin, c.troubles(t))
	}
	return slices.Collect(maps.Values(ready))
}

// remove deletes a Deployment, and returns when none of its pods is there.
func (c *realCluster) remove(t *testing.T, name string, labels map[string]string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), podsWithin)
	defer cancel()
	if err := c.env.Client.AppsV1().Deployments(c.kube.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete deployment %s: %v", name, err)
	}
	for poll := time.NewTicker(50 * time.Millisecond); ; {
		pods, err := c.kube.Pods(ctx, labels, "")
		if err == nil && len(pods) == 0 {
			poll.Stop()
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Errorf("%d pods of deployment %s are still there: %v", len(pods), name, err)
			return
		}
	}
}

// troubles is what the cluster's events say of pods.
func (c *realCluster) troubles(t *testing.T) string {
	events, err := c.env.Client.CoreV1().Events(c.kube.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range events.Items {
		fmt.Fprintf(&b, "%s %s: %s\n", e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return b.String()
}

// address is the pod's own.
func (c *realCluster) address(t *testing.T, p kube.Pod) string {
	t.Helper()
	o, err := c.env.Client.CoreV1().Pods(c.kube.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
	if err != nil || o.Status.PodIP == "" {
		t.Fatalf("the address of pod %s: %v", p.Name, err)
	}
	return o.Status.PodIP
}

// heard is a line of a log, and when it came.
type heard struct {
	text string
	at   time.Time
}

// lines follows the log of a pod until it ends, or the test does.
func (c *realCluster) lines(t *testing.T, p kube.Pod) <-chan heard {
	t.Helper()
	r, err := c.kube.FollowLog(t.Context(), p.Name, p.Container.Name)
	must(t, err)
	lines, done := make(chan heard, 1024), make(chan struct{})
	go func() {
		defer close(done)
		defer close(lines)
		for in := bufio.NewScanner(r); in.Scan(); {
			select {
			case lines <- heard{in.Text(), time.Now()}:
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = r.Close()
		<-done
	})
	return lines
}

// processOf is the process of a pod's container, as the kernel knows it: the channel gives the instant of its end.
func processOf(p kube.Pod) (<-chan time.Time, error) {
	pid, err := pidOf(p)
	if err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	ended := make(chan time.Time, 1)
	go awaitEnd(fd, ended)
	return ended, nil
}

// pidOf is the number of the first process of a pod's container.
func pidOf(p kube.Pod) (int, error) {
	_, id, _ := strings.Cut(p.Container.ID, "://")
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil || id == "" {
		return 0, fmt.Errorf("pod %s has container %q: %w", p.Name, id, err)
	}
	first := 0
	for _, path := range groups {
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), id) {
			continue // it is over, or another's
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/cgroup", &pid); err != nil {
			return 0, err
		}
		if first == 0 || pid < first {
			first = pid
		}
	}
	if first == 0 {
		return 0, fmt.Errorf("no process is in a group of container %q of pod %s", id, p.Name)
	}
	return first, nil
}

// processWithin bounds every process of these tests.
const processWithin = 10 * time.Minute

// awaitEnd ends with the process of this descriptor, which is ready to be read then.
func awaitEnd(fd int, ended chan<- time.Time) {
	defer unix.Close(fd)
	defer close(ended)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(processWithin.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case n > 0:
			ended <- time.Now()
		}
		return
	}
}

// watch calls on, one at a time, for the pods with these labels, until it is stopped or the test ends.
func (c *realCluster) watch(t *testing.T, labels map[string]string, on func(kube.Change)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.kube.WatchPods(ctx, labels, "", on, nil)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// since is how long ago that was, for a column.
func since(begun time.Time) string { return fmt.Sprintf("%6.2fs", time.Since(begun).Seconds()) }

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
