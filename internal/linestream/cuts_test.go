package linestream

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// scissors is a proxy whose connections are cut again and again, at random moments: between a request and its effect, and between the
// effect and its reply.
type scissors struct {
	addr string

	mu    sync.Mutex
	conns map[net.Conn]bool
	deaf  bool // replies are thrown away
	shut  bool // nobody gets through any more
	cuts  int
	work  sync.WaitGroup
}

func startScissors(t *testing.T, to string) *scissors {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := &scissors{addr: l.Addr().String(), conns: map[net.Conn]bool{}}
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.work.Go(func() { s.pass(c, to) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.cut()
		s.work.Wait()
	})
	return s
}

func (s *scissors) pass(c net.Conn, to string) {
	d, err := net.Dial("tcp", to)
	if err != nil {
		_ = c.Close()
		return
	}
	s.mu.Lock()
	s.conns[c], s.conns[d] = true, true
	shut := s.shut
	s.mu.Unlock()
	if shut {
		s.cut()
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(d, c)
		_ = d.Close()
	})
	both.Go(func() {
		_, _ = io.Copy(muffled{s, c}, d)
		_ = c.Close()
	})
	both.Wait()
	s.mu.Lock()
	delete(s.conns, c)
	delete(s.conns, d)
	s.mu.Unlock()
}

// muffled drops what is written while the scissors are deaf.
type muffled struct {
	s *scissors
	net.Conn
}

func (m muffled) Write(b []byte) (int, error) {
	m.s.mu.Lock()
	deaf := m.s.deaf
	m.s.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

func (s *scissors) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.deaf = false
	s.cuts++
}

func (s *scissors) muffle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = true
}

// rage cuts every few milliseconds until stop is closed.
func (s *scissors) rage(random *rand.Rand, stop <-chan struct{}) {
	for {
		pause := time.Duration(5+random.IntN(40)) * time.Millisecond
		select {
		case <-time.After(pause):
		case <-stop:
			return
		}
		if random.IntN(2) == 0 {
			s.muffle()
			select {
			case <-time.After(time.Duration(random.IntN(10)) * time.Millisecond):
			case <-stop:
				s.cut()
				return
			}
		}
		s.cut()
	}
}

// Thousands of lines go both ways while the connections of both ends are cut, also after an effect and before its reply. Each arrives
// once and in order, and the pod's log says the same.
func TestNoLineIsLostOrDoubledOverCuts(t *testing.T) {
	const writers, each, commands = 8, 300, 2400
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	addr := redistest.Start(t)
	podSide, hubSide := startScissors(t, addr), startScissors(t, addr)
	pod, log := join(t, podSide.addr, quick())
	hub, heard := openHub(t, hubSide.addr, quick())
	heard.await(t, "hello", func() bool { return len(heard.hellos) == 1 })

	stop := make(chan struct{})
	var raging, all sync.WaitGroup
	for i, s := range []*scissors{podSide, hubSide} {
		raging.Go(func() { s.rage(rand.New(rand.NewPCG(seed, uint64(i))), stop) })
	}
	for w := range writers {
		all.Go(func() {
			for n := range each {
				write(t, pod, fmt.Sprintf("%d says %d", w, n))
			}
		})
	}
	all.Go(func() {
		for n := range commands {
			if err := hub.Send(pod.Life(), fmt.Appendf(nil, "do %d", n)); err != nil {
				t.Errorf("send %d: %v", n, err)
				return
			}
			if n%10 == 0 { // let them meet many cuts
				select {
				case <-time.After(2 * time.Millisecond):
				case <-t.Context().Done():
				}
			}
		}
	})
	all.Go(func() {
		lines := bufio.NewScanner(pod)
		for n := range commands {
			if want := fmt.Sprintf("do %d", n); !lines.Scan() || lines.Text() != want {
				t.Errorf("command %q, want %q", lines.Text(), want)
				return
			}
		}
	})
	all.Wait()
	heard.await(t, "last line", func() bool { return len(heard.lines) >= writers*each || len(heard.ends) > 0 })
	close(stop)
	raging.Wait()
	t.Logf("%d and %d cuts", podSide.cuts, hubSide.cuts)
	if podSide.cuts < 4 || hubSide.cuts < 4 {
		t.Error("hardly a cut: nothing was tested")
	}
	if err := pod.Close(""); err != nil {
		t.Error(err)
	}
	heard.await(t, "end", func() bool { return len(heard.ends) == 1 && heard.ends[0].Err == nil })
	checkLines(t, heard.lines, log.String(), writers, each)
}

// checkLines holds what was heard against the log and against what each writer wrote.
func checkLines(t *testing.T, lines []Line, log string, writers, each int) {
	t.Helper()
	if len(lines) != writers*each {
		t.Fatalf("%d lines, want %d", len(lines), writers*each)
	}
	printed := strings.Split(strings.TrimSuffix(log, "\n"), "\n")[1:]
	next, last := make([]int, writers), make([]int64, writers)
	for i, l := range lines {
		var kept int64
		number, said, _ := strings.Cut(printed[i], " ")
		if _, err := fmt.Sscanf(number, fmt.Sprintf("%d/%%d", l.N), &kept); err != nil || l.N != int64(i+1) || said != string(l.Text) {
			t.Fatalf("line %d is %d %q, the log has %q", i+1, l.N, l.Text, printed[i])
		}
		var w, n int
		if _, err := fmt.Sscanf(string(l.Text), "%d says %d", &w, &n); err != nil || n != next[w] {
			t.Fatalf("line %d is %q, want number %d of its writer", i+1, l.Text, next[w])
		}
		if kept < last[w] || kept >= l.N { // a writer goes on when its line is acknowledged
			t.Fatalf("the log has %q: the writer's last was %d", printed[i], last[w])
		}
		next[w], last[w] = next[w]+1, l.N
	}
}
