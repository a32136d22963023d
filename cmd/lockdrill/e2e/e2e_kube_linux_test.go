package e2e

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
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	t.Run("a drill of pods that it applies", c.drillOfAppliedPods)
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

// redis starts a server that pods reach, and returns its address as they see it.
func (c *realCluster) redis(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(redistest.Start(t, "--bind", "127.0.0.1", c.ip, "--protected-mode", "no"))
	must(t, err)
	return net.JoinHostPort(c.ip, port)
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

// lines follows the log of a pod until it ends, or the test does.
func (c *realCluster) lines(t *testing.T, p kube.Pod) <-chan string {
	t.Helper()
	r, err := c.kube.FollowLog(t.Context(), p.Name, p.Container.Name)
	must(t, err)
	lines, done := make(chan string, 1024), make(chan struct{})
	go func() {
		defer close(done)
		defer close(lines)
		for in := bufio.NewScanner(r); in.Scan(); {
			select {
			case lines <- in.Text():
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
