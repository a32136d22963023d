package linestream

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})          // it tells of each refused dial
	_ = flag.Set("test.parallel", "8") // they mostly wait for a server's time
	os.Exit(m.Run())
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

const patience = 30 * time.Second

// quick is a pace for tests: what takes seconds in a drill takes tens of milliseconds.
func quick() pace {
	p := defaults()
	p.refresh, p.sync, p.block, p.pause, p.resync = 50*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond, 5*time.Millisecond, 200*time.Millisecond
	p.call, p.drain = time.Second, 10*time.Second // last words are waited for: a limit, which nothing comes near to
	return p
}

// log is a pod's log.
type log struct {
	sync.Mutex
	bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(b)
}

func (l *log) String() string {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String()
}

// ear keeps what a hub tells.
type ear struct {
	mu     sync.Mutex
	hellos []Hello
	lines  []Line
	ends   []End
	news   chan struct{}
}

func (e *ear) note(f func()) {
	e.mu.Lock()
	f()
	e.mu.Unlock()
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// openHub opens a hub that is closed with the test.
func openHub(t *testing.T, addr string, pace pace) (*Hub, *ear) {
	t.Helper()
	e := &ear{news: make(chan struct{}, 1)}
	h := Open(Options{
		Redis: &redis.Options{Addr: addr}, Fleet: "f", Clock: monotime.Now, pace: pace,
		OnHello: func(x Hello) { e.note(func() { e.hellos = append(e.hellos, x) }) },
		OnLine:  func(x Line) { e.note(func() { e.lines = append(e.lines, x) }) },
		OnEnd:   func(x End) { e.note(func() { e.ends = append(e.ends, x) }) },
	})
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	return h, e
}

// await waits until ok is true, which is asked whenever the hub has told something.
func (e *ear) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		e.mu.Lock()
		done := ok()
		e.mu.Unlock()
		if done {
			return
		}
		select {
		case <-e.news:
		case <-limit:
			e.mu.Lock()
			defer e.mu.Unlock()
			t.Fatalf("no %s within %s; %d hellos, %d lines, ends %v", what, patience, len(e.hellos), len(e.lines), e.ends)
		}
	}
}

func join(t *testing.T, addr string, pace pace) (*Pod, *log) {
	t.Helper()
	l := new(log)
	p, err := Join(t.Context(), JoinOptions{Redis: &redis.Options{Addr: addr}, Fleet: "f", Pod: "worker-0", UID: "u-1", Log: l, pace: pace})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = p.Close("") })
	return p, l
}

func write(t *testing.T, p *Pod, line string) {
	t.Helper()
	if _, err := p.Write([]byte(line + "\n")); err != nil {
		t.Errorf("write %q: %v", line, err)
	}
}

// keysLeft are all keys of the server.
func keysLeft(t *testing.T, addr string) []string {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer c.Close()
	keys, err := c.Keys(context.Background(), "*").Result()
	testkit.Must(t, err)
	return keys
}

func TestALineGoesEachWay(t *testing.T) {
	addr := redistest.Start(t)
	pod, log := join(t, addr, quick())
	hub, heard := openHub(t, addr, quick())
	heard.await(t, "hello", func() bool { return len(heard.hellos) == 1 })
	hello := heard.hellos[0]
	if hello.Pod != "worker-0" || hello.UID != "u-1" || hello.Life != pod.Life() || len(hub.Lives()) != 1 {
		t.Errorf("hello %+v, lives %+v", hello, hub.Lives())
	}
	testkit.Must(t, hub.Send(pod.Life(), []byte("do it")))
	if line, err := bufio.NewReader(pod).ReadString('\n'); line != "do it\n" || err != nil {
		t.Errorf("read %q, %v", line, err)
	}
	before := monotime.Now()
	write(t, pod, "done")
	after := monotime.Now()
	heard.await(t, "line", func() bool { return len(heard.lines) == 1 })
	line := heard.lines[0]
	if string(line.Text) != "done" || line.N != 1 || line.Life != pod.Life() || line.Heard < before {
		t.Errorf("line %+v", line)
	}
	if lo, hi := line.Shift.When(after); lo > 0 || hi < 0 {
		t.Errorf("offset [%d, %d] of one clock against itself", lo, hi)
	}
	if sign, ok := hub.Sign(pod.Life()); !ok || sign > monotime.Now() || sign < hello.At.From { // it goes on to answer
		t.Errorf("sign %d, %v; now %d", sign, ok, monotime.Now())
	}
	if err := pod.Close(""); err != nil {
		t.Error(err)
	}
	heard.await(t, "end", func() bool { return len(heard.ends) == 1 && heard.ends[0].Err == nil })
	if err := hub.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := keysLeft(t, addr); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if want := "\n1/0 done\n"; !bytes.HasSuffix([]byte(log.String()), []byte(want)) {
		t.Errorf("log %q, want it to end with %q", log, want)
	}
}
