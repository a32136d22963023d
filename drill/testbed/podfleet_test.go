package testbed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/linestream"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// hub is the runner's end of lines that a test writes.
type hub struct {
	mu        sync.Mutex
	sent      []string
	forgotten []string
	sign      atomic.Int64
}

func (h *hub) Send(life string, text []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, life+" "+string(text))
	return nil
}
func (h *hub) Sign(string) (int64, bool)            { at := h.sign.Load(); return at, at > 0 }
func (h *hub) Settle(context.Context, string) error { return nil }
func (h *hub) Forget(life string) {
	h.mu.Lock()
	h.forgotten = append(h.forgotten, life)
	h.mu.Unlock()
}
func (h *hub) Close(context.Context) error { return nil }

func lead(t *testing.T) (*PodFleet, *script, *hub, *told) {
	s, h, said := newScript(), &hub{}, &told{}
	f := newPodFleet(PodFleetOptions{Pods: PodsOptions{Clock: bubbleClock(), OnEvent: said.event}})
	f.lives.from, f.line = s, h
	f.lives.start()
	<-s.watched
	t.Cleanup(func() { // what a test leaves alive is not waited for
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = f.Stop(ctx)
	})
	return f, s, h, said
}

func helloOf(life, uid string, at int64) linestream.Hello {
	return linestream.Hello{Life: life, Pod: "w", UID: uid, At: history.At(at)}
}

func ask(t *testing.T, f *PodFleet, inc string) {
	t.Helper()
	if r, _, err := f.Start(t.Context(), protocol.Configure{Name: "r1", Incarnation: inc}); err != nil || r.Incarnation != "" {
		t.Fatalf("start: %+v, %v", r, err)
	}
}

func TestWorkersTakeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, h, said := lead(t)
		ask(t, f, "r1.1")
		f.hello(helloOf("stranger", "nobody", 1)) // from no pod of the drill
		f.hello(helloOf("l1", "u1", 1))           // before the watch shows its pod
		said.expect(t, "")
		ending := running("w", "u1", "c1", 0)
		ending.Ending = true
		s.show(ending)
		said.expect(t, "") // no place for one that is to stay
		s.show(running("x", "u2", "c2", 0))
		f.hello(helloOf("l2", "u2", 1))
		said.expect(t, "start r1.1")
		if len(h.sent) != 1 || !strings.HasPrefix(h.sent[0], `l2 {"v":1,"cmd":"configure"`) {
			t.Errorf("sent %q", h.sent)
		}
		if err := f.Send("r9.9", protocol.Command{Cmd: protocol.CmdStop}); !errors.Is(err, ErrDead) {
			t.Errorf("a command for nobody: %v", err)
		}
	})
}

// In pods of a StatefulSet a replica keeps its pod's name, whoever comes first; a pod beyond the replicas is anybody's.
func TestWorkersOfAStatefulSetKeepTheirOrdinals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _, said := lead(t)
		f.o.Replicas = 2
		pod := func(name, uid, id string) kube.Pod {
			p := running(name, uid, id, 0)
			p.Owner = "statefulset/w"
			return p
		}
		zero, one := pod("w-0", "u0", "c0"), pod("w-1", "u1", "c1")
		s.show(one)
		f.hello(helloOf("l1", "u1", 1))
		ask(t, f, "r1.1")
		said.expect(t, "") // r1 waits for w-0
		if _, _, err := f.Start(t.Context(), protocol.Configure{Name: "r2", Incarnation: "r2.1"}); err != nil {
			t.Fatal(err)
		}
		said.expect(t, "start r2.1")
		s.show(zero)
		f.hello(helloOf("l0", "u0", 1))
		said.expect(t, "start r1.1")
		s.remove(zero)
		said.expect(t, "gone u0 of r1.1")
		s.show(pod("w-7", "u7", "c7"))
		ask(t, f, "r1.2")
		f.hello(helloOf("l7", "u7", 2))
		said.expect(t, "start r1.2")
	})
}

// TestALifeBeforeItsStatus: a worker that says hello before the status shows its life is in none that is another's.
func TestALifeBeforeItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _, _ := lead(t)
		var restarts []int32
		f.o.Pods.OnEvent = func(e history.Event) {
			if e.Kind == history.ReplicaStart {
				restarts = append(restarts, e.Replica.Pod.Restarts)
			}
		}
		s.show(running("w", "u1", "c1", 2))
		synctest.Wait() // its log is followed
		s.write("w", `2026-01-01T00:00:01Z 0 {"life":"l1"}`)
		synctest.Wait()
		f.hello(helloOf("l1", "u1", 1))
		ask(t, f, "r1.1")
		f.hello(helloOf("l2", "u1", 2))
		ask(t, f, "r1.2")
		if fmt.Sprint(restarts) != "[2 3]" {
			t.Errorf("restarts before the lives of both: %v, want [2 3]", restarts)
		}
	})
}

func TestClaimsOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, _, said := lead(t)
		time.Sleep(time.Second) // a bubble's time
		s.show(running("w", "u1", "c1", 0))
		f.hello(helloOf("l1", "u1", 1))
		line := func(n int64, text string, lo, hi int64) {
			f.hear(linestream.Line{Life: "l1", N: n, Text: []byte(text), Shift: linestream.Offset{Lo: lo, Hi: hi, At: 5e9}, Heard: 3e9})
		}
		ack := func(id string, at int64) string {
			return fmt.Sprintf(`{"kind":"job.ack","lock":"l","key":"k","job":{"id":%q},"from":%d,"to":%d}`, id, at, at)
		}
		line(1, ack("unassigned", 5e9), 3e9, 3e9)
		ask(t, f, "r1.1") // at 1 s
		line(2, ack("bounds", 5e9), 3e9-10, 3e9+10)
		line(3, ack("clipped", 5e9), 1e9, 5e9)
		line(4, ack("late", 5e9), 1e9, 1e9)
		line(5, ack("early", 5e9), 4.5e9, 4.5e9)
		line(6, `{"kind":"ledger.entry"}`, 3e9, 3e9)
		line(7, "nonsense", 3e9, 3e9)
		said.expect(t, fmt.Sprintf("start r1.1; ack bounds [%d,%d]; ack clipped [%d,%d]", int64(2e9-10), int64(2e9+10), int64(1e9), int64(3e9)))
		w := f.workers[0]
		if w.lines != 2 || w.wrong != 4 || !strings.Contains(w.first, "stamped") || w.heard != 7 {
			t.Errorf("worker %+v", w)
		}
		call, err := f.claim(w, linestream.Line{Text: []byte(`{"kind":"acquire.return","lock":"l","key":"k","epoch":"e","op":"o","outcome":"fail","from":4900000000,"to":5000000000,` +
			`"call":{"result":"held","holder":"x"}}`), Shift: linestream.Offset{Lo: 3e9 - 10, Hi: 3e9 + 10, At: 5e9}, Heard: 3e9})
		if err != nil || call.From >= 1.9e9 || call.To != 2e9+10 || call.Call.Answered != 2e9-10 {
			t.Errorf("answered from %+v on, in %v: %v", call.Call, call.Span, err)
		}
		s.write("w", "t 1 x") // another program's
		s.write("w", `2026-01-01T00:00:01Z 0 {"life":"l1"}`)
		s.write("w", `2026-01-01T00:00:01Z 12/9 {}`)
		s.write("w", `2026-01-01T00:00:01Z 13/9 {}`) // several at once: the store had neither
		s.write("w", `2026-01-01T00:00:01Z 9 {}`)
		s.write("w", `2026-01-01T00:00:01Z 3/12 {}`) // nothing of this protocol
		synctest.Wait()
		var exit history.Event
		f.lives.o.OnEvent = nil
		f.o.Pods.OnEvent = func(e history.Event) { exit = e }
		f.left(linestream.End{Life: "l1", Err: errors.New("the store has lost lines")})
		f.lives.mu.Lock()
		f.lives.finish(f.workers[0].life, 4e9, history.ByStatus, "exit status 1")
		f.lives.mu.Unlock()
		s.endLog("w", nil)
		time.Sleep(lastLines) // a bubble's time
		synctest.Wait()
		if r := exit.Replica; r == nil || r.Unheard != 2 || r.Lines != 2 || r.Bad != 5 || r.Exit != "exit status 1; its line: the store has lost lines" || exit.Span != (history.Span{From: 1e9, To: 4e9}) {
			t.Errorf("exit %+v %+v", exit.Span, exit.Replica)
		}
	})
}

func TestEndsOfWorkers(t *testing.T) {
	one := running("w", "u1", "c1", 0)
	hello := `2026-01-01T00:00:01Z 0 {"life":"l1"}`
	for _, c := range []struct {
		name   string
		noLogs bool
		do     func(f *PodFleet, s *script, h *hub)
		want   string
	}{
		{"the log ends with the object gone", false, func(f *PodFleet, s *script, h *hub) { s.remove(one); s.endLog("w", nil) },
			"gone u1 of r1.1; exit r1.1 by log_stream: gone"},
		{"and a later sign refutes it", false, func(f *PodFleet, s *script, h *hub) {
			s.remove(one)
			s.endLog("w", nil)
			h.sign.Store(int64(time.Hour))
		}, "gone u1 of r1.1"},
		{"its container has another", false, func(f *PodFleet, s *script, h *hub) { f.hello(helloOf("l2", "u1", 2)) }, "exit r1.1 by successor: gone"},
		{"a pod of that name has another", false, func(f *PodFleet, s *script, h *hub) {
			s.remove(one)
			s.show(running("w", "u2", "c2", 0))
			f.hello(helloOf("l2", "u2", 2))
		}, "gone u1 of r1.1"},
		{"goodbye", false, func(f *PodFleet, s *script, h *hub) { f.left(linestream.End{Life: "l1"}) }, ""},
		{"without logs, by status", true, func(f *PodFleet, s *script, h *hub) { s.show(running("w", "u1", "c2", 1)) }, "exit r1.1 by status: gone"},
		{"without logs, and it is heard later", true, func(f *PodFleet, s *script, h *hub) {
			s.show(running("w", "u1", "c2", 1))
			h.sign.Store(int64(time.Hour))
		}, ""},
		{"without logs, the object is gone", true, func(f *PodFleet, s *script, h *hub) { s.remove(one) }, "gone u1 of r1.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s, h, said := lead(t)
				s.noLogs = c.noLogs
				s.show(one)
				synctest.Wait()
				f.hello(helloOf("l1", "u1", 1))
				if !c.noLogs {
					s.write("w", hello)
				}
				ask(t, f, "r1.1")
				said.expect(t, "start r1.1")
				time.Sleep(time.Second) // a bubble's time
				c.do(f, s, h)
				time.Sleep(signQuiet + lastLines) // likewise
				said.expect(t, c.want)
			})
		})
	}
}

// A log that was cut may go on with the lines of the container's next life: they are not the life's before, nor does its end end the next.
func TestALogThatGoesOnWithTheNextLife(t *testing.T) {
	for _, c := range []struct {
		name  string
		known bool // to the API server, and not to the watch yet
	}{{"as the API server says", true}, {"before the API server knows", false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s, _, said := lead(t)
				var lines []string
				f.lives.o.OnLine = func(inc string, _ follow.Line) { lines = append(lines, inc) }
				next := running("w", "u1", "c2", 1)
				s.show(running("w", "u1", "c1", 0))
				synctest.Wait()
				f.hello(helloOf("l1", "u1", 1))
				s.write("w", `2026-01-01T00:00:01Z 0 {"life":"l1"}`)
				synctest.Wait() // it has been read, before there is a slot
				ask(t, f, "r1.1")
				said.expect(t, "start r1.1")
				s.down = errors.New("connection refused")
				s.endLog("w", errors.New("connection reset"))
				synctest.Wait()
				s.mu.Lock()
				s.down = nil
				if c.known {
					s.pods["w"] = next
				}
				s.mu.Unlock()
				time.Sleep(logAgain + time.Millisecond) // a bubble's time
				synctest.Wait()
				s.write("w", `2026-01-01T00:00:09Z 0 {"life":"l2"}`)
				s.write("w", `2026-01-01T00:00:09Z 7 {}`)
				synctest.Wait()
				if old := f.workers[0].life; old == nil || old.worker != "l1" || old.kept != 0 || len(lines) != 0 {
					t.Errorf("life %+v, lines of %q", old, lines)
				}
				s.show(next)
				f.hello(helloOf("l2", "u1", int64(time.Second)))
				ask(t, f, "r1.2")
				time.Sleep(signQuiet + lastLines) // a bubble's time
				if got := said.take(); got != "start r1.2; exit r1.1 by status: gone" && got != "exit r1.1 by status: gone; start r1.2" {
					t.Errorf("told %q", got)
				}
				if w := f.worker("l2"); w.over != nil {
					t.Errorf("the next life is over: %+v", w.over)
				}
			})
		})
	}
}

// Whoever said hello later is the later, in whatever order that was heard.
func TestHellosOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s, h, said := lead(t)
		s.noLogs = true
		s.show(running("w", "u1", "c1", 0))
		f.hello(helloOf("l2", "u1", 20))
		f.hello(helloOf("l1", "u1", 10))
		ask(t, f, "r1.1")
		said.expect(t, "start r1.1")
		if len(h.sent) != 1 || !strings.HasPrefix(h.sent[0], "l2 ") || f.worker("l2").over != nil || f.worker("l1").over == nil {
			t.Errorf("sent %q, workers %+v %+v", h.sent, f.worker("l1"), f.worker("l2"))
		}
	})
}
