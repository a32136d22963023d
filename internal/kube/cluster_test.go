package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

const (
	namespace = "drill"
	patience  = 30 * time.Second
)

// stand is a real API server with a fake node, and a cluster of ours on it by a way that can be cut.
type stand struct {
	*kubetest.Env
	*Cluster
	way *kubetest.Listener
	t   *testing.T
}

func newStand(t *testing.T, o kubetest.NodeOptions) *stand {
	t.Helper()
	e := kubetest.Start(t, kubetest.Options{NodeOptions: o})
	e.Namespace(namespace, nil)
	way := e.Listener(e.Kubeconfig)
	c, err := Open(Options{Kubeconfig: way.Kubeconfig, Namespace: namespace})
	testkit.Must(t, err)
	return &stand{Env: e, Cluster: c, way: way, t: t}
}

// run makes a pod, waits until it runs and returns it.
func (s *stand) run(name string) Pod {
	s.t.Helper()
	_, err := s.Env.Client.CoreV1().Pods(namespace).Create(s.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "w"}},
		Spec:       corev1.PodSpec{NodeName: kubetest.Node, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.await(name, func(p Pod) bool { return p.Container.Running })
}

// await polls until the pod is as it should be.
func (s *stand) await(name string, holds func(Pod) bool) Pod {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		pods, err := s.Pods(ctx, map[string]string{"app": "w"}, "")
		if err != nil {
			s.t.Fatal(err)
		}
		if i := slices.IndexFunc(pods, func(p Pod) bool { return p.Name == name && holds(p) }); i >= 0 {
			return pods[i]
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			s.t.Fatalf("pod %s is not so within %v: %+v", name, patience, pods)
		}
	}
}

// told is what a watch has said so far.
type told struct {
	t    *testing.T
	news chan string
}

// next skips what comes until the one that is wanted; other changes of status may come between.
func (w *told) next(want string) {
	w.t.Helper()
	var seen []string
	late := time.After(patience)
	for {
		select {
		case got := <-w.news:
			if got == want {
				return
			}
			seen = append(seen, got)
		case <-late:
			w.t.Fatalf("the watch never said %q, but %q", want, seen)
		}
	}
}

func (s *stand) watch() *told {
	w := &told{t: s.t, news: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.WatchPods(ctx, map[string]string{"app": "w"}, "", func(c Change) {
			w.news <- fmt.Sprintf("%s gone=%v running=%v", c.Pod.UID, c.Gone, c.Pod.Container.Running)
		}, func(err error) {
			w.news <- fmt.Sprint("whole: ", err == nil)
		})
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

func TestKubeWatch(t *testing.T) {
	s := newStand(t, kubetest.NodeOptions{})
	first := s.run("first")
	w := s.watch()
	w.next(first.UID + " gone=false running=true")
	w.next("whole: true")
	second := s.run("second")
	w.next(second.UID + " gone=false running=true")

	s.way.Cut(false)
	w.next("whole: false")
	w.next("whole: true")

	// What happens behind a broken watch is told when it stands again: a pod that went, and another of its name.
	s.way.Shut()
	w.next("whole: false")
	direct, err := Open(Options{Kubeconfig: s.Kubeconfig, Namespace: namespace})
	testkit.Must(t, err)
	none := int64(0)
	testkit.Must(t, direct.DeletePod(t.Context(), "first", first.UID, &none))
	through := s.Cluster
	s.Cluster = direct
	successor := s.run("first")
	s.Cluster = through
	s.way.Open()
	w.next(first.UID + " gone=true running=true")
	w.next(successor.UID + " gone=false running=true")
	w.next("whole: true")

	s.Crash(namespace, "second")
	if p := s.await("second", func(p Pod) bool { return p.Container.Restarts == 1 && p.Container.Running }); p.UID != second.UID || p.Container.LastID != second.Container.ID || p.Container.ID == p.Container.LastID {
		t.Errorf("after a crash: %+v", p)
	}
}

func TestKubeCluster(t *testing.T) {
	s := newStand(t, kubetest.NodeOptions{
		Run: func(ctx context.Context, l *kubetest.Life) int {
			fmt.Fprintln(l.Log, "hello")
			if l.Pod.Name == "deaf" {
				return kubetest.IgnoreTerm(ctx, l)
			}
			return kubetest.Wait(ctx, l)
		},
		Exec: func(ctx context.Context, l *kubetest.Life, command []string, _ io.Reader, out, errs io.Writer) int {
			if command[0] == "kill" {
				l.Kill()
				<-ctx.Done()
			}
			fmt.Fprint(out, strings.Join(command, "+"))
			fmt.Fprint(errs, "!")
			return len(command)
		},
	})
	t.Run("delete", s.testDelete)
	t.Run("log", s.testFollowLog)
	t.Run("exec", s.testExec)
	t.Run("lease", s.testLease)
}

func (s *stand) testDelete(t *testing.T) {
	p := s.run("deaf")
	none := int64(0)
	if err := s.DeletePod(t.Context(), "deaf", "11111111-2222-3333-4444-555555555555", &none); !errors.Is(err, ErrAnother) {
		t.Errorf("a pod that is another: %v", err)
	}
	if err := s.DeletePod(t.Context(), "nobody", p.UID, &none); !errors.Is(err, ErrGone) {
		t.Errorf("a pod that is not there: %v", err)
	}
	testkit.Must(t, s.DeletePod(t.Context(), "deaf", p.UID, nil))
	if q := s.await("deaf", func(p Pod) bool { return p.Ending }); q.Grace != 30*time.Second || !q.Container.Running {
		t.Errorf("a pod that hears no SIGTERM, at its end: %+v", q)
	}
	defer s.HoldKills()()
	if err := s.DeletePod(t.Context(), "deaf", p.UID, &none); err != nil { // force, upon a graceful end that takes too long
		t.Fatal(err)
	}
	if err := s.DeletePod(t.Context(), "deaf", p.UID, &none); !errors.Is(err, ErrGone) {
		t.Errorf("a pod that was deleted: %v", err)
	}
	if r := s.Lives(); len(r) != 1 || !r[0].Ended.IsZero() {
		t.Errorf("its process is not there any more: %+v", r)
	}
}

func (s *stand) testFollowLog(t *testing.T) {
	follow := func(t *testing.T) *bufio.Reader {
		t.Helper()
		r, err := s.FollowLog(t.Context(), "w", "c")
		testkit.Must(t, err)
		t.Cleanup(func() { _ = r.Close() })
		b := bufio.NewReader(r)
		if line, err := b.ReadString('\n'); err != nil || line != "hello\n" {
			t.Fatalf("%q, %v", line, err)
		}
		return b
	}
	s.run("w")
	t.Run("the life ends", func(t *testing.T) {
		b := follow(t)
		s.Crash(namespace, "w")
		if rest, err := io.ReadAll(b); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v; want an end", rest, err)
		}
		s.await("w", func(p Pod) bool { return p.Container.Restarts == 1 && p.Container.Running })
	})
	for _, gently := range []bool{false, true} {
		t.Run(fmt.Sprintf("the way is cut, gently: %v", gently), func(t *testing.T) {
			b := follow(t)
			s.way.Cut(gently)
			if rest, err := io.ReadAll(b); err == nil {
				t.Errorf("%q and a clean end; want an error", rest)
			}
		})
	}
	t.Run("the API server loses the node", func(t *testing.T) {
		b := follow(t)
		s.CutLogs()
		if rest, err := io.ReadAll(b); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v: the API server can be told from the end of a life by now; let FollowLog say so", rest, err)
		}
	})
	if r := s.Lives(); !r[len(r)-1].Ended.IsZero() {
		t.Errorf("a life ended that nobody ended: %+v", r)
	}
}

func (s *stand) testExec(t *testing.T) {
	p := s.run("x")
	exit, said, err := s.Exec(t.Context(), "x", "", []string{"a b", "c"})
	if err != nil || exit != 2 || !strings.Contains(said, "a b+c") || !strings.Contains(said, "!") {
		t.Errorf("exit %d, %q, %v", exit, said, err)
	}
	if exit, _, err := s.Exec(t.Context(), "x", "", []string{"kill"}); err == nil && exit != 137 {
		t.Errorf("a command that ends its own container: exit %d", exit)
	}
	s.await("x", func(q Pod) bool { return q.Container.Restarts == 1 && q.Container.LastID == p.Container.ID })
	if _, _, err := s.Exec(t.Context(), "nobody", "", []string{"a"}); !errors.Is(err, ErrNotRun) {
		t.Errorf("a command in a pod that is not there: %v", err)
	}
}

func (s *stand) testLease(t *testing.T) {
	if _, ok, err := s.Lease(t.Context(), "leader"); ok || err != nil {
		t.Errorf("a lease that is not there: %v, %v", ok, err)
	}
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC))
	o, err := s.Env.Client.CoordinationV1().Leases(namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("pod-1_x"), LeaseDurationSeconds: new(int32(15)), LeaseTransitions: new(int32(3)), AcquireTime: &at, RenewTime: &at},
	}, metav1.CreateOptions{})
	testkit.Must(t, err)
	l, ok, err := s.Lease(t.Context(), "leader")
	want := Lease{Key: "leader", Name: "leader", UID: string(o.UID), ResourceVersion: o.ResourceVersion, Holder: "pod-1_x", Transitions: 3, Duration: 15 * time.Second, Acquired: l.Acquired, Renewed: l.Renewed}
	if err != nil || !ok || l != want || !l.Acquired.Equal(at.Time) || !l.Renewed.Equal(at.Time) {
		t.Errorf("%+v, %v, %v, want %+v", l, ok, err, want)
	}
}
