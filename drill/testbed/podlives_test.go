package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// script is a cluster that shows what it is told to.
type script struct {
	mu      sync.Mutex
	pods    map[string]kube.Pod // by name
	logs    map[string]*io.PipeWriter
	opened  map[string]int // streams, by pod
	starts  []kube.LogStart
	noLogs  bool
	down    error  // of questions for a pod
	past    string // what a log has, with stamps
	lasting error
	on      func(kube.Change)
	heard   func(error)
	watched chan struct{}
}

func newScript() *script {
	return &script{pods: map[string]kube.Pod{}, logs: map[string]*io.PipeWriter{}, opened: map[string]int{}, watched: make(chan struct{})}
}

func (s *script) WatchPods(ctx context.Context, _ map[string]string, _ string, on func(kube.Change), heard func(error)) {
	s.on, s.heard = on, heard
	close(s.watched)
	<-ctx.Done()
}

func (s *script) Pod(_ context.Context, name, _ string) (kube.Pod, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pods[name]
	return p, ok, s.down
}

func (s *script) FollowStamped(ctx context.Context, name, _ string, from kube.LogStart) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = append(s.starts, from)
	if s.noLogs {
		return nil, errors.New("no log")
	}
	if _, ok := s.pods[name]; !ok {
		return nil, kube.ErrGone
	}
	r, w := io.Pipe()
	s.logs[name] = w
	s.opened[name]++
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	return r, nil
}

func (s *script) LastStamped(_ context.Context, _, _ string, n int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lasting != nil {
		return nil, s.lasting
	}
	lines := slices.Collect(strings.Lines(s.past))
	return []byte(strings.Join(lines[max(0, len(lines)-n):], "")), nil
}

// has makes the log of all pods these lines.
func (s *script) has(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past = strings.Join(lines, "\n") + "\n"
}

// withhold says whether logs are not to be had from now on.
func (s *script) withhold(no bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noLogs = no
}

// show is what the watch and the questions show from now on.
func (s *script) show(p kube.Pod) {
	s.mu.Lock()
	s.pods[p.Name] = p
	s.mu.Unlock()
	s.on(kube.Change{Pod: p})
}

func (s *script) remove(p kube.Pod) {
	s.mu.Lock()
	if s.pods[p.Name].UID == p.UID {
		delete(s.pods, p.Name)
	}
	s.mu.Unlock()
	s.on(kube.Change{Pod: p, Gone: true})
}

// endLog ends the stream that is open; nil is a clean end.
func (s *script) endLog(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.logs[name].CloseWithError(err)
}

func (s *script) write(name, line string) {
	s.mu.Lock()
	w := s.logs[name]
	s.mu.Unlock()
	_, _ = io.WriteString(w, line+"\n")
}

// running is a pod whose container's life runs.
func running(name, uid, id string, restarts int32) kube.Pod {
	return kube.Pod{Name: name, UID: uid, Phase: "Running", Ready: true, Container: kube.Container{ID: id, Running: true, Restarts: restarts}}
}

// told is what a fleet of a script has told, in short words.
type told struct {
	mu   sync.Mutex
	text []string
}

func (t *told) event(e history.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := e.Check(); err != nil {
		t.text = append(t.text, "bad event: "+err.Error())
	}
	switch {
	case e.Kind == history.ReplicaExit:
		t.text = append(t.text, strings.TrimSpace(fmt.Sprintf("exit %s by %s: %s", e.Replica.Incarnation, e.Replica.By, e.Replica.Exit)))
	case e.Replica != nil:
		_, what, _ := strings.Cut(string(e.Kind), ".")
		t.text = append(t.text, what+" "+e.Replica.Incarnation)
	case e.Object != nil && e.Object.Gone:
		t.text = append(t.text, "gone "+e.Object.UID+" of "+e.Object.Incarnation)
	case e.Object != nil && e.Object.Waiting != "":
		t.text = append(t.text, e.Object.Name+" waits: "+e.Object.Waiting)
	case e.Job != nil:
		t.text = append(t.text, fmt.Sprintf("ack %s [%d,%d]", e.Job.ID, e.From, e.To))
	}
}

// take is what was told since the last take.
func (t *told) take() string {
	synctest.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	all := strings.Join(t.text, "; ")
	t.text = nil
	return all
}

func (t *told) expect(tt *testing.T, want string) {
	tt.Helper()
	if got := t.take(); got != want {
		tt.Errorf("told %q\nwant %q", got, want)
	}
}

// bubbleClock counts from the beginning of the test's bubble.
func bubbleClock() func() int64 {
	origin := time.Now()
	return func() int64 { return int64(time.Since(origin)) }
}

func observe(t *testing.T, how *experiments.HolderNames) (*ObservedFleet, *script, *told) {
	s, said := newScript(), &told{}
	f := newObservedFleet(ObservedOptions{Holder: how, Pods: PodsOptions{Clock: bubbleClock(), OnEvent: said.event}})
	f.lives.from = s
	f.lives.start()
	<-s.watched
	t.Cleanup(func() { _ = f.Stop(context.Background()) })
	return f, s, said
}

func TestEndsOfLives(t *testing.T) {
	cut := errors.New("connection reset")
	exited := func(p kube.Pod, code int32) kube.Pod {
		p.Ready, p.Container.Running, p.Container.Terminated, p.Container.ExitCode = false, false, true, code
		return p
	}
	one := running("w-0", "u1", "c1", 0)
	for _, c := range []struct {
		name string
		do   func(*script)
		want string
	}{
		{"terminated", func(s *script) { s.show(exited(one, 137)) }, "exit r1.1 by status: exit status 137"},
		{"terminated, and once only", func(s *script) { s.show(exited(one, 1)); s.endLog("w-0", nil); s.remove(exited(one, 1)) },
			"exit r1.1 by status: exit status 1; gone u1 of r1.1"},
		{"restarted", func(s *script) {
			next := running("w-0", "u1", "c2", 1)
			next.Container.LastID, next.Container.LastExit = "c1", 2
			s.show(next)
		}, "exit r1.1 by status: exit status 2; start r1.2; ready r1.2"},
		{"restarted, and nothing is said of the life before", func(s *script) { s.show(running("w-0", "u1", "c2", 1)) },
			"exit r1.1 by status: gone; start r1.2; ready r1.2"},
		{"waiting to be restarted", func(s *script) {
			p := one
			p.Ready, p.Container.Running, p.Container.LastID, p.Container.LastExit = false, false, "c1", 3
			s.show(p)
		}, "exit r1.1 by status: exit status 3"},
		{"not located", func(s *script) { // ContainerStatusUnknown: terminated without an id
			p := one
			p.Ready, p.Container.Running, p.Phase = false, false, "Failed"
			s.show(p)
		}, ""},
		{"the object is gone", func(s *script) { s.remove(one) }, "gone u1 of r1.1"},
		{"another of that name", func(s *script) { s.remove(one); s.show(running("w-0", "u2", "c9", 0)) }, "gone u1 of r1.1; start r1.2; ready r1.2"},
		{"the object is gone, then the log ends", func(s *script) { s.remove(one); s.endLog("w-0", nil) }, "gone u1 of r1.1; exit r1.1 by log_stream: gone"},
		{"the object is gone, then the log is cut", func(s *script) { s.remove(one); s.endLog("w-0", cut) }, "gone u1 of r1.1"},
		{"the name is another's, then the log ends", func(s *script) {
			s.remove(one)
			s.show(running("w-0", "u2", "c9", 0))
			synctest.Wait()
			s.endLog("w-0", nil) // the successor's, it was opened last
		}, "gone u1 of r1.1; start r1.2; ready r1.2"},
		{"the name is another's, then its log ends", func(s *script) {
			s.remove(one)
			s.mu.Lock()
			s.pods["w-0"] = running("w-0", "u2", "c9", 0)
			s.mu.Unlock()
			s.endLog("w-0", nil)
		}, "gone u1 of r1.1; exit r1.1 by log_stream: gone"},
		{"the log ends, and the life runs", func(s *script) { s.endLog("w-0", nil) }, ""},
		{"the log ends before the status says so", func(s *script) {
			s.mu.Lock()
			s.pods["w-0"] = exited(one, 9)
			s.mu.Unlock()
			s.endLog("w-0", nil)
		}, "exit r1.1 by status: exit status 9"},
		{"the log ends and cannot be opened again, and then the object is gone", func(s *script) {
			s.endLog("w-0", nil)
			synctest.Wait()
			s.withhold(true) // the way to the node may be cut
			time.Sleep(logAgain)
			s.remove(one)
			time.Sleep(logAgain)
		}, "gone u1 of r1.1"},
		{"the object is gone, then all logs of the node end", func(s *script) {
			s.show(running("w-1", "u2", "c2", 0))
			synctest.Wait()
			s.remove(one)
			s.endLog("w-0", nil)
			s.endLog("w-1", nil)
		}, "start r2.1; ready r2.1; gone u1 of r1.1"},
		{"seen again after a watch that broke", func(s *script) { s.heard(errors.New("broken")); s.show(one); s.heard(nil) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s, said := observe(t, nil)
				s.show(one)
				s.heard(nil)
				said.expect(t, "start r1.1; ready r1.1")
				time.Sleep(time.Second) // a bubble's time
				c.do(s)
				time.Sleep(signQuiet) // likewise
				said.expect(t, c.want)
				if err := f.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Pods of another controller that come to have the labels are none of the drill's: nothing could pick one.
func TestPodsOfAnotherControllerAreNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, said := observe(t, nil)
		owner := "deployment/web"
		f.lives.o.Owners = map[string]string{"": owner}
		ours, other := running("w-0", "u1", "c1", 0), running("x-0", "u2", "c2", 0)
		ours.Owner, other.Owner = owner, "statefulset/x"
		s.show(other)
		s.show(ours)
		s.heard(nil)
		said.expect(t, "start r1.1; ready r1.1")
	})
}

// What a pod waits for is told as it changes.
func TestPodsThatWaitAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, said := observe(t, nil)
		p := kube.Pod{Name: "w-0", UID: "u1", Phase: "Pending", Waiting: "w: ErrImagePull (image x)"}
		s.show(p)
		s.show(p)
		p.Waiting = "w: ImagePullBackOff (image x)"
		s.show(p)
		said.expect(t, "w-0 waits: w: ErrImagePull (image x); w-0 waits: w: ImagePullBackOff (image x)")
	})
}

// What a probe has seen later than the end of a log refutes it, and what it has seen before bounds the end.
func TestSignsOfObservedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, said := observe(t, nil)
		for _, n := range []string{"a", "b"} {
			p := running(n, n, n, 0)
			p.Node = n
			s.show(p)
			synctest.Wait()
			s.remove(p)
		}
		said.take()
		time.Sleep(time.Second) // a bubble's time
		f.Sign("r1.1", int64(time.Second)/2)
		s.endLog("a", nil)
		s.endLog("b", nil)
		f.Sign("r1.2", int64(time.Second)+1)
		time.Sleep(2 * signQuiet) // likewise
		said.expect(t, "exit r1.1 by log_stream: gone")
		if end := f.lives.lives[0].end; end.Span != (history.Span{From: 5e8, To: 1e9}) {
			t.Errorf("end %v", end.Span)
		}

		// Without any, it is open from the list before the one in which the life was first seen.
		s.heard(errors.New("the watch broke"))
		if got := f.Unseen(); got != "the watch broke" {
			t.Errorf("while the watch is broken: %q", got)
		}
		begun := f.lives.o.Clock()
		s.heard(nil)
		if got := f.Unseen(); got != "" {
			t.Errorf("while the watch stands: %q", got)
		}
		p := running("c", "c", "c", 0)
		s.show(p)
		synctest.Wait()
		time.Sleep(time.Second) // likewise
		p.Container.Running, p.Container.Terminated = false, true
		s.show(p)
		if end := f.lives.lives[2].end; begun == 0 || end == nil || end.Span != (history.Span{From: begun, To: begun + 1e9}) {
			t.Errorf("end %+v, first seen at %d", end, begun)
		}
	})
}

// The status still says that it runs when its log ends, and the object goes before the log could be opened again: it was over when its log
// ended, and all of that was read.
func TestAnObjectThatGoesBeforeItsStatusSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, said := observe(t, nil)
		f.lives.o.OnCut = func(whose string, gap history.Span) { t.Errorf("%s was not followed in %v", whose, gap) }
		one := running("w-0", "u1", "c1", 0)
		s.heard(nil)
		s.show(one)
		synctest.Wait()
		time.Sleep(time.Second) // a bubble's time
		s.endLog("w-0", nil)
		time.Sleep(30 * time.Millisecond) // likewise
		s.remove(one)
		time.Sleep(2 * signQuiet) // likewise
		said.expect(t, "start r1.1; ready r1.1; gone u1 of r1.1; exit r1.1 by log_stream: gone")
		if end := f.lives.lives[0].end; end.To != 1e9 {
			t.Errorf("its end is %v, want that of its log", end.Span)
		}
	})
}

func TestSlotsOfObservedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, said := observe(t, nil)
		a, b, c := running("a", "ua", "ca", 0), running("b", "ub", "cb", 0), running("c", "uc", "cc", 0)
		b.Ready = false
		s.show(a)
		synctest.Wait()
		s.show(b)
		s.show(kube.Pod{Name: "d", UID: "ud", Phase: "Pending"}) // has no life yet
		said.expect(t, "start r1.1; ready r1.1; start r2.1")
		synctest.Wait()
		s.show(c) // before one of the others is gone: a slot more
		synctest.Wait()
		s.remove(a)
		b.Ready = true
		s.show(b)
		s.show(running("d", "ud", "cd", 0))
		said.expect(t, "start r3.1; ready r3.1; gone ua of r1.1; ready r2.1; start r1.2; ready r1.2")
		for named, want := range map[string]string{"b_0c8f": "r2.1", "b": "r2.1", "bb_1": "", "b-1_0": "", "d_x": "r1.2", "a_x": "r1.1", "": ""} {
			if got := f.HolderOf(named); got != want {
				t.Errorf("holder %q is %q, want %q", named, got, want)
			}
		}
		var lives []string
		f.lives.mu.Lock()
		for _, l := range f.lives.lives {
			if l.end == nil {
				lives = append(lives, fmt.Sprint(l.incarnation, l.pod.gone))
			}
		}
		f.lives.mu.Unlock()
		if got := strings.Join(lives, " "); got != "r1.1true r2.1false r3.1false r1.2false" {
			t.Errorf("lives: %s", got)
		}
		s.endLog("a", nil)
		time.Sleep(2 * signQuiet) // a bubble's time
		said.expect(t, "exit r1.1 by log_stream: gone")
	})
}

// Where a loose pattern fits two pods, the holder is the one with the longer name, whichever was seen last.
func TestHoldersOfLooseNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _ := observe(t, &experiments.HolderNames{Name: "{pod}-*"})
		s.show(running("web-1", "u1", "c1", 0))
		s.show(running("web", "u2", "c2", 0))
		for named, want := range map[string]string{"web-1-x": "r1.1", "web-2": "r2.1", "web": ""} {
			if got := f.HolderOf(named); got != want {
				t.Errorf("holder %q is %q, want %q", named, got, want)
			}
		}
	})
}
