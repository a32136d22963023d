package linestream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// die is what SIGKILL does to a pod: nothing more is written, and nothing taken back.
func (p *Pod) die() {
	p.end(nil)
	p.work.Wait()
	_ = p.redis.Close()
}

// kill is what SIGKILL does to a runner, long ago: it says and removes nothing, and what it said of itself has run out.
func kill(t *testing.T, hub *Hub, addr string) {
	t.Helper()
	hub.stop()
	hub.work.Wait()
	command(t, addr, "DEL", hub.names.runner())
}

// readAll reads commands until their end.
func readAll(p *Pod) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, p)
		done <- err
	}()
	return done
}

func within(t *testing.T, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("%s: not within %s", what, patience)
		return nil
	}
}

func command(t *testing.T, addr string, args ...any) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer c.Close()
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// awaitKeys polls until ok accepts the server's keys.
func awaitKeys(t *testing.T, addr, what string, ok func(keys []string) bool) {
	t.Helper()
	limit := time.Now().Add(patience)
	for poll := time.Tick(10 * time.Millisecond); ; <-poll {
		keys := keysLeft(t, addr)
		if ok(keys) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s: not within %s; left: %q", what, patience, keys)
		}
	}
}

func none(keys []string) bool { return len(keys) == 0 }

// started is a pod that has been sent one command, and its hub.
func started(t *testing.T, addr string, pace pace) (*Pod, *Hub, *ear) {
	t.Helper()
	pod, _ := join(t, addr, pace)
	pace.runner = defaults().runner // a hub that is late once is not dead
	hub, heard := openHub(t, addr, pace)
	greeted(t, heard, pod)
	testkit.Must(t, hub.Send(pod.Life(), []byte("do it")))
	if line, err := bufio.NewReaderSize(pod, 16).ReadString('\n'); err != nil || line != "do it\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	return pod, hub, heard
}

func greeted(t *testing.T, heard *ear, pod *Pod) {
	t.Helper()
	heard.await(t, "hello of "+pod.Life(), func() bool {
		for _, x := range heard.hellos {
			if x.Life == pod.Life() {
				return true
			}
		}
		return false
	})
}

func TestARestartedServerThatKeptItsDataLosesNothing(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t, "--appendonly", "yes", "--enable-debug-command", "yes")
	pod, hub, heard := started(t, addr, quick())
	const before, after = 50, 50
	for n := range before {
		write(t, pod, fmt.Sprintf("0 says %d", n))
	}
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1})
	_ = c.Do(t.Context(), "DEBUG", "RESTART").Err() // the connection is lost
	_ = c.Close()
	for n := range after {
		write(t, pod, fmt.Sprintf("0 says %d", before+n))
		testkit.Must(t, hub.Send(pod.Life(), fmt.Appendf(nil, "again %d", n)))
	}
	lines := bufio.NewReader(pod)
	for n := range after {
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("again %d\n", n) {
			t.Fatalf("read %q, %v", line, err)
		}
	}
	heard.await(t, "last line", func() bool { return len(heard.lines) == before+after || len(heard.ends) > 0 })
	for i, l := range heard.lines {
		if want := fmt.Sprintf("0 says %d", i); string(l.Text) != want {
			t.Errorf("line %d is %q, want %q", i, l.Text, want)
		}
	}
}

func TestALossOfTheStoresDataIsNoticedByBothEnds(t *testing.T) {
	for name, loss := range map[string][]any{"flushed": {"FLUSHALL"}, "restarted without its data": {"DEBUG", "RESTART"}} {
		t.Run(name, func(t *testing.T) {
			addr := redistest.Start(t, "--enable-debug-command", "yes")
			pod, _, heard := started(t, addr, quick())
			write(t, pod, "before")
			heard.await(t, "line", func() bool { return len(heard.lines) == 1 })
			c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1})
			_ = c.Do(t.Context(), loss...).Err()
			_ = c.Close()
			if err := within(t, "the pod's end", readAll(pod)); !errors.Is(err, ErrLost) {
				t.Errorf("pod: %v, want ErrLost", err)
			}
			if _, err := pod.Write([]byte("after\n")); !errors.Is(err, ErrLost) {
				t.Errorf("write: %v, want ErrLost", err)
			}
			heard.await(t, "end", func() bool { return len(heard.ends) == 1 })
			if err := heard.ends[0].Err; !errors.Is(err, ErrLost) {
				t.Errorf("hub: %v, want ErrLost", err)
			}
			again, _ := join(t, addr, quick())
			greeted(t, heard, again)
		})
	}
}

// A store that comes back as it was some time ago has lost lines, though the streams are there.
func TestAHoleInAStreamIsNoticed(t *testing.T) {
	t.Run("events", func(t *testing.T) {
		addr := redistest.Start(t)
		pod, _, heard := started(t, addr, quick())
		command(t, addr, "XADD", namesForTest(t).out(pod.Life()), "7-0", lineField, "from later", stampField, "1")
		heard.await(t, "end", func() bool { return len(heard.ends) == 1 })
		if err := heard.ends[0].Err; !errors.Is(err, ErrLost) {
			t.Errorf("hub: %v, want ErrLost", err)
		}
	})
	t.Run("commands", func(t *testing.T) {
		addr := redistest.Start(t)
		pod, _, heard := started(t, addr, quick())
		command(t, addr, "XADD", namesForTest(t).in(pod.Life()), "7-0", lineField, "from later")
		if err := within(t, "the pod's end", readAll(pod)); !errors.Is(err, ErrLost) {
			t.Errorf("pod: %v, want ErrLost", err)
		}
		heard.await(t, "end", func() bool { return len(heard.ends) == 1 })
		if err := heard.ends[0].Err; err == nil {
			t.Error("hub: the life ended in order")
		}
	})
}

func namesForTest(t *testing.T) names {
	t.Helper()
	f, err := namesOf("f")
	testkit.Must(t, err)
	return f
}

func TestADeadPodsKeysRunOut(t *testing.T) {
	t.Parallel()
	addr, p := redistest.Start(t), quick()
	p.presence = 1500 * time.Millisecond
	pod, _ := join(t, addr, p)
	pod.die()
	awaitKeys(t, addr, "a pod that nobody met", none)

	pod, hub, heard := started(t, addr, p)
	pod.die()
	heard.await(t, "end", func() bool { return len(heard.ends) == 1 })
	if err := heard.ends[0].Err; !errors.Is(err, ErrGone) {
		t.Errorf("end %v, want ErrGone", err)
	}
	if err := hub.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := keysLeft(t, addr); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestForgottenLivesEndAndLeaveNothing(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	pod, hub, heard := started(t, addr, quick())
	hub.Forget(pod.Life())
	if err := within(t, "the pod's end", readAll(pod)); !errors.Is(err, ErrLost) {
		t.Errorf("read: %v, want ErrLost", err)
	}
	awaitKeys(t, addr, "its keys", func(keys []string) bool { return len(keys) <= 2 }) // runner, hellos
	if err := hub.Send(pod.Life(), []byte("x")); !errors.Is(err, ErrUnknown) {
		t.Errorf("send: %v, want ErrUnknown", err)
	}
	if len(heard.ends) > 0 || len(hub.Lives()) > 0 {
		t.Errorf("ends %v, lives %v", heard.ends, hub.Lives())
	}
}

func TestAPodSaysWhyItEnds(t *testing.T) {
	addr := redistest.Start(t)
	pod, _, heard := started(t, addr, quick())
	if err := pod.Close("no ledger"); err != nil {
		t.Error(err)
	}
	heard.await(t, "end", func() bool { return len(heard.ends) == 1 })
	if err := heard.ends[0].Err; err == nil || !strings.Contains(err.Error(), "no ledger") {
		t.Errorf("end %v", err)
	}
}

// A dead runner's replicas stop working; the next run sees a life that waits, and sends away one that is in the other's drill.
func TestTheNextRunFindsTheFleet(t *testing.T) {
	t.Parallel()
	addr, p := redistest.Start(t), quick()
	busy, first, _ := started(t, addr, p)
	idle, _ := join(t, addr, p)
	kill(t, first, addr)

	_, heard := openHub(t, addr, p)
	greeted(t, heard, idle)
	if err := within(t, "the end of the other drill's life", readAll(busy)); err != nil {
		t.Errorf("read: %v, want the end of file", err)
	}
	write(t, busy, "released")
	if err := busy.Close(""); err != nil {
		t.Error(err)
	}
	again, _ := join(t, addr, p)
	greeted(t, heard, again)
	if len(heard.hellos) != 2 || len(heard.lines) > 0 {
		t.Errorf("hellos %v, lines %v: want nothing of the other drill's life", heard.hellos, heard.lines)
	}
}

// A life that has waited so long that its hello is no longer in the fleet's stream says it again.
func TestAHelloIsSaidAgainWhenItIsGone(t *testing.T) {
	addr := redistest.Start(t)
	pod, _ := join(t, addr, quick())
	command(t, addr, "XTRIM", namesForTest(t).hellos(), "MAXLEN", 0)
	_, heard := openHub(t, addr, quick())
	greeted(t, heard, pod)
}

func TestADeadRunnersReplicasStop(t *testing.T) {
	t.Parallel()
	addr, p := redistest.Start(t), quick()
	p.runner = 200 * time.Millisecond
	busy, hub, _ := started(t, addr, p)
	idle, _ := join(t, addr, p)
	kill(t, hub, addr)
	if err := within(t, "the end", readAll(busy)); err != nil {
		t.Errorf("read: %v, want the end of file", err)
	}
	write(t, busy, "released") // there is still someone to write to
	if idle.ended() {
		t.Error("a life that was in no drill has ended")
	}
}

func TestASecondRunWaitsForTheFleet(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	pod, _ := join(t, addr, quick())
	first, heard := openHub(t, addr, quick())
	greeted(t, heard, pod)
	second, other := openHub(t, addr, quick())
	limit := time.Now().Add(patience)
	for poll := time.Tick(5 * time.Millisecond); !errors.Is(second.Trouble(), ErrTaken); <-poll {
		if time.Now().After(limit) {
			t.Fatalf("trouble: %v, want ErrTaken", second.Trouble())
		}
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	greeted(t, other, pod)
	if err := second.Trouble(); err != nil {
		t.Errorf("trouble: %v", err)
	}
	if len(second.Lives()) != 1 {
		t.Errorf("lives %v: one that has had no line is left to the next run", second.Lives())
	}
}

func TestSettleWaitsForWhatADeadPodHadWritten(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	pod, hub, heard := started(t, addr, quick())
	for n := range 2 * maxBatch {
		pod.mu.Lock()
		pod.queue(pod.last.line(), lineField, fmt.Sprint(n), 1)
		pod.mu.Unlock()
	}
	write(t, pod, "the last")
	pod.die()
	testkit.Must(t, hub.Settle(t.Context(), pod.Life()))
	heard.mu.Lock()
	defer heard.mu.Unlock()
	if n := len(heard.lines); n != 2*maxBatch+1 || string(heard.lines[n-1].Text) != "the last" {
		t.Errorf("%d lines", n)
	}
}

// A pod that cannot reach the store for as long as its presence lasts ends: nobody can know of it any more.
func TestAPodThatIsCutOffEnds(t *testing.T) {
	t.Parallel()
	addr, p := redistest.Start(t), quick()
	s := startScissors(t, addr)
	p.presence = time.Second
	pod, _ := join(t, s.addr, p)
	s.mu.Lock()
	s.shut = true
	s.mu.Unlock()
	s.cut()
	if err := within(t, "the pod's end", readAll(pod)); !errors.Is(err, ErrCut) {
		t.Errorf("read: %v, want ErrCut", err)
	}
}

func TestWordsThatAreNoLines(t *testing.T) {
	addr := redistest.Start(t)
	pod, _ := join(t, addr, quick())
	for _, text := range []string{"", "half", "two\nlines\n"} {
		if n, err := pod.Write([]byte(text)); err == nil || n != 0 {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	for _, fleet := range []string{"", "a:b", "a b", "*"} {
		if _, err := Join(context.Background(), JoinOptions{Redis: &redis.Options{Addr: addr}, Fleet: fleet, Log: io.Discard}); err == nil {
			t.Errorf("fleet %q is taken", fleet)
		}
	}
}
