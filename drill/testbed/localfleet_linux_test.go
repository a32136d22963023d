package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/procstat"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// theirs is a shell that starts processes for a test, as somebody's supervisor does: they are no children of this one.
type theirs struct {
	*testing.T
	say io.Writer
	out *bufio.Scanner
}

func startTheirs(t *testing.T) *theirs {
	t.Helper()
	cmd := exec.Command("sh")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	say, err := cmd.StdinPipe()
	testkit.Must(t, err)
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return &theirs{t, say, bufio.NewScanner(out)}
}

// start runs a process that is called so, and returns its number.
func (s *theirs) start(name string) int {
	s.Helper()
	if _, err := fmt.Fprintf(s.say, "sleep 3600.%d%s >/dev/null & echo $!\n", s.mark(), name); err != nil {
		s.Fatal(err)
	}
	if !s.out.Scan() {
		s.Fatal("the shell has ended")
	}
	pid, err := strconv.Atoi(s.out.Text())
	if err != nil {
		s.Fatal(err)
	}
	return pid
}

// mark tells this test's processes from others, also from those of the same test elsewhere on this machine.
func (s *theirs) mark() int { return os.Getpid()*100 + len(s.Name()) }

// fleet watches what the shell has started.
func (s *theirs) fleet(o LocalOptions) (*LocalFleet, chan history.Event) {
	s.Helper()
	events := make(chan history.Event, 1000)
	o.Processes = &experiments.Processes{Match: fmt.Sprintf(`^sleep 3600\.%d(?P<name>\d)$`, s.mark()), Log: "/log/{name}"}
	o.Clock, o.OnEvent = monotime.Now, func(e history.Event) { events <- e }
	f := NewLocalFleet(o)
	s.Cleanup(func() { _ = f.Stop(context.Background()) })
	return f, events
}

// next is the next event of that kind.
func (s *theirs) next(events <-chan history.Event, kind history.Kind) history.Event {
	s.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case e := <-events:
			if e.Kind == kind {
				return e
			}
		case <-limit:
			s.Fatalf("no %s came", kind)
		}
	}
}

func TestSomebodysProcessesHaveNamedAndTimedLives(t *testing.T) {
	s := startTheirs(t)
	first, second := s.start("1"), s.start("2")
	f, events := s.fleet(LocalOptions{Wanted: func(incarnation string) bool { return incarnation == "r1.1" }})
	for i, pid := range []int{first, second} {
		e := s.next(events, history.ReplicaStart)
		if r := e.Replica; r.PID != pid || r.Incarnation != fmt.Sprintf("r%d.1", i+1) || r.Called != fmt.Sprint(i+1) || r.Started == "" {
			t.Errorf("started: %+v", r)
		}
	}
	killed, err := f.Signal("r1.1", syscall.SIGKILL)
	testkit.Must(t, err)
	exit := s.next(events, history.ReplicaExit)
	if r := exit.Replica; r.Incarnation != "r1.1" || r.Exit != "signal: killed" || r.By != history.ByKernel || !r.Wanted || exit.From < killed.From || exit.To < killed.To {
		t.Errorf("ended: %+v %+v, killed at %+v", exit.Span, r, killed)
	}
	if _, err := f.Signal("r1.1", syscall.SIGKILL); !errors.Is(err, ErrDead) {
		t.Errorf("a second kill: %v", err)
	}
	before := monotime.Now()
	again := s.start("1")
	after := monotime.Now()
	e := s.next(events, history.ReplicaStart)
	if r := e.Replica; r.PID != again || r.Incarnation != "r1.2" {
		t.Errorf("started again: %+v", r)
	}
	if e.To < before || e.From > after || e.Width() > int64(10*time.Millisecond) {
		t.Errorf("it was started in [%d, %d], and is said to have been in %+v", before, after, e.Span)
	}
	testkit.Must(t, syscall.Kill(second, syscall.SIGTERM))
	if r := s.next(events, history.ReplicaExit).Replica; r.Incarnation != "r2.1" || r.Exit != "gone" || r.Wanted {
		t.Errorf("ended by itself: %+v", r)
	}
	all := f.Replicas()
	if len(all) != 1 || all[0].Incarnation != "r1.2" || all[0].Log != "/log/1" || all[0].Known["pid"] != fmt.Sprint(again) {
		t.Errorf("those that live: %+v", all)
	}
	if got := f.HolderOf("1:0f3a"); got != "r1.2" {
		t.Errorf("1:0f3a is held by %q", got)
	}
	for _, named := range []string{"2:0f3a", "11", "", "x1"} {
		if got := f.HolderOf(named); got != "" {
			t.Errorf("%q is held by %s", named, got)
		}
	}
}

// Of somebody's service one replica goes on, whoever is asked to end it.
func TestTheLastReplicaIsNotStruckUnasked(t *testing.T) {
	s := startTheirs(t)
	pid := s.start("1")
	f, events := s.fleet(LocalOptions{})
	s.next(events, history.ReplicaStart)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSTOP} {
		var void interface{ Void() history.VoidReason }
		if _, err := f.Signal("r1.1", sig); !errors.As(err, &void) || void.Void() != history.NoTarget {
			t.Errorf("%v: %v", sig, err)
		}
	}
	if _, err := f.Signal("r1.1", syscall.SIGCONT); err != nil {
		t.Errorf("it may go on: %v", err)
	}
	if p, err := procstat.New().Process(pid); err != nil || p.Over {
		t.Fatalf("it is gone: %v", err)
	}
	asked, events := s.fleet(LocalOptions{Last: true})
	s.next(events, history.ReplicaStart)
	if _, err := asked.Signal("r1.1", syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	s.next(events, history.ReplicaExit)
}

// A number is given to another process when its own has ended: what was held before means the old one, and nobody else.
func TestAnotherProcessOfTheSameNumberIsNotHeld(t *testing.T) {
	s := startTheirs(t)
	pid := s.start("1")
	p, err := procstat.New().Process(pid)
	testkit.Must(t, err)
	another := p
	another.Started--
	if h, err := hold(another); err == nil {
		h.close()
		t.Error("a process of that number was held, and it is not the one that was read")
	}
	h, err := hold(p)
	testkit.Must(t, err)
	defer h.close()
	if h.over() {
		t.Error("it is over")
	}
	testkit.Must(t, h.signal(syscall.SIGKILL))
	for deadline := time.Now().Add(20 * time.Second); !awaitEnd([]handle{h}, time.Second)[0]; {
		if time.Now().After(deadline) {
			t.Fatal("its end was not seen")
		}
	}
	if _, err := hold(p); err == nil {
		t.Error("a corpse was held")
	}
}
