package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/servertest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

const patience = 20 * time.Second

// witness keeps what a fleet reports, and wakes those who wait for something in it.
type witness struct {
	mu     sync.Mutex
	events []history.Event
	exits  []Exit
	news   chan struct{}
}

func newFleet(t *testing.T, how, dir string) (*Fleet, *witness) {
	t.Helper()
	w := &witness{news: make(chan struct{}, 1)}
	origin := monotime.Now()
	f := NewFleet(FleetOptions{
		Command: []string{os.Args[0]}, Env: []string{role + "=" + how}, Dir: dir, Origin: origin,
		Clock:    func() int64 { return monotime.Now() - origin },
		OnEvents: func(events []history.Event) { w.add(func() { w.events = append(w.events, events...) }) },
		OnExit:   func(e Exit) { w.add(func() { w.exits = append(w.exits, e) }) },
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := f.Stop(ctx); err != nil {
			t.Errorf("Stop at the end: %v", err)
		}
	})
	return f, w
}

func (w *witness) add(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *witness) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		w.mu.Lock()
		done := ok()
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-w.news:
		case <-limit:
			t.Fatalf("no %s within %s: %d events, exits %+v", what, patience, len(w.events), w.exits)
		}
	}
}

func start(t *testing.T, f *Fleet, incarnation string) history.Replica {
	t.Helper()
	name, _, _ := strings.Cut(incarnation, ".")
	r, span, err := f.Start(t.Context(), protocol.Configure{Name: name, Incarnation: incarnation})
	if err != nil {
		t.Fatalf("Start(%s): %v", incarnation, err)
	}
	if span.From > span.To || r.PID == 0 {
		t.Errorf("Start(%s) = %+v, %v: want a bracket and a process id", incarnation, r, span)
	}
	return r
}

func TestFleetStartsTalksAndStops(t *testing.T) {
	f, w := newFleet(t, "obey", t.TempDir())
	for i := range 3 {
		start(t, f, fmt.Sprintf("r%d.1", i))
	}
	for i := range 3 {
		for j := range 10 {
			o := protocol.Offer{Lock: "l", Key: "k", Job: fmt.Sprint(j)}
			if err := f.Send(fmt.Sprintf("r%d.1", i), protocol.Command{Cmd: protocol.CmdOffer, Offer: &o}); err != nil {
				t.Fatalf("Send: %v", err)
			}
		}
	}
	w.await(t, "33 events", func() bool { return len(w.events) == 33 })
	next := map[string]int{}
	for _, e := range w.events {
		if e.Clock != history.ClockShared || e.From < 0 || e.To > f.o.Clock() {
			t.Errorf("event %+v: want the shared clock and a stamp within the run", e)
		}
		if e.Kind == history.ReplicaReady {
			if e.Replica.Incarnation != e.Source || e.Replica.PID == 0 {
				t.Errorf("ready of %s names %+v", e.Source, e.Replica)
			}
			continue
		}
		if e.Job.ID != fmt.Sprint(next[e.Source]) {
			t.Errorf("%s: got job %s, want %d: out of order", e.Source, e.Job.ID, next[e.Source])
		}
		next[e.Source]++
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 2 {
		if err := f.Stop(ctx); err != nil {
			t.Fatalf("Stop: %v", err)
		}
	}
	if len(w.exits) != 3 {
		t.Fatalf("got %d exits, want 3", len(w.exits))
	}
	for _, e := range w.exits {
		if e.State != "exit status 0" || e.Signaled || e.Lines != 11 || e.Bad != 0 {
			t.Errorf("exit %+v, want status 0 after 11 lines", e)
		}
		if servertest.Alive(e.PID) {
			t.Errorf("process %d of %s is alive after Stop", e.PID, e.Incarnation)
		}
	}
	if err := f.Send("r0.1", protocol.Command{Cmd: protocol.CmdStop}); !errors.Is(err, ErrDead) {
		t.Errorf("Send after the end = %v, want ErrDead", err)
	}
	if _, _, err := f.Start(t.Context(), protocol.Configure{Incarnation: "r9.1"}); err == nil {
		t.Error("Start after Stop succeeded")
	}
}

func TestFleetRefusesAnIncarnationTwice(t *testing.T) {
	f, _ := newFleet(t, "obey", "")
	start(t, f, "r1.1")
	if _, _, err := f.Start(t.Context(), protocol.Configure{Incarnation: "r1.1"}); err == nil {
		t.Error("a second life with the same name was started")
	}
	if _, err := f.Signal("r2.1", syscall.SIGKILL); err == nil {
		t.Error("Signal to an unknown replica succeeded")
	}
}

// A killed replica's last words are all that a kill leaves: every line that reached the pipe comes before the exit.
func TestFleetDeliversEveryLineOfAKilledReplica(t *testing.T) {
	f, w := newFleet(t, "flood", "")
	for life := range 5 {
		incarnation := fmt.Sprintf("r1.%d", life)
		r := start(t, f, incarnation)
		seen := func() int {
			n := 0
			for _, e := range w.events {
				if e.Source == incarnation && e.Kind == history.JobAck {
					n++
				}
			}
			return n
		}
		w.await(t, "flood of acks", func() bool { return seen() > 500 })
		span, err := f.Signal(incarnation, syscall.SIGKILL)
		if err != nil {
			t.Fatalf("Signal: %v", err)
		}
		w.await(t, "exit", func() bool { return len(w.exits) == life+1 })
		w.mu.Lock()
		x, acks := w.exits[life], seen()
		var last history.Event
		for i, e := 0, 0; e < len(w.events); e++ {
			if w.events[e].Source == incarnation && w.events[e].Kind == history.JobAck {
				if last = w.events[e]; last.Job.ID != strconv.Itoa(i) {
					t.Fatalf("%s: got ack %s, want %d: a line is missing", incarnation, last.Job.ID, i)
				}
				i++
			}
		}
		w.mu.Unlock()
		if x.Incarnation != incarnation || x.PID != r.PID || !x.Signaled || x.Signal != syscall.SIGKILL || x.State != "signal: killed" {
			t.Errorf("exit %+v, want a death by SIGKILL", x)
		}
		if x.Lines != acks+1 || x.Bad > 1 { // a line may be cut by the kill
			t.Errorf("exit says %d lines and %d bad ones (%q), got %d events", x.Lines, x.Bad, x.BadLines, acks+1)
		}
		if x.Span.From < span.From || x.Span.To < span.To || x.Span.From < last.To {
			t.Errorf("exit %v must begin at the kill %v and after the last stamp %d, and end after both", x.Span, span, last.To)
		}
		if _, err := f.Signal(incarnation, syscall.SIGKILL); !errors.Is(err, ErrDead) {
			t.Errorf("a second Signal = %v, want ErrDead", err)
		}
	}
}

func TestFleetKeepsBadLinesApart(t *testing.T) {
	dir := t.TempDir()
	f, w := newFleet(t, "garbage", dir)
	start(t, f, "r1.1")
	w.await(t, "exit", func() bool { return len(w.exits) == 1 })
	x := w.exits[0]
	if x.State != "exit status 7" || x.Lines != 2 || x.Bad != 36 || len(x.BadLines) != badLinesKept {
		t.Errorf("exit %+v (%d lines kept), want status 7, 2 events, 36 bad lines", x, len(x.BadLines))
	}
	if len(w.events) != 2 || w.events[1].Job.ID != "good" {
		t.Errorf("events %+v, want ready and the good ack", w.events)
	}
	said, err := os.ReadFile(filepath.Join(dir, "r1.1.stderr"))
	if err != nil || string(said) != "something went wrong\n" {
		t.Errorf("standard error kept: %q, %v", said, err)
	}
}

// A line that was too long to be kept is not quoted as an empty one.
func TestBadLineQuotesWhatWasKept(t *testing.T) {
	err := errors.New("wrong")
	for want, line := range map[string][]byte{"wrong": nil, `wrong: ""`: {}, `wrong: "a"`: []byte("a"), `wrong: "` + strings.Repeat("b", badLineKept) + `"`: []byte(strings.Repeat("b", badLineKept+1))} {
		if got := badLine(line, err); got != want {
			t.Errorf("%q of %.5q, want %q", got, line, want)
		}
	}
}

func TestFleetIsNotBlockedByADeafReplica(t *testing.T) {
	f, w := newFleet(t, "deaf", "")
	start(t, f, "r1.1")
	o := protocol.Offer{Lock: "l", Key: "k", Job: strings.Repeat("j", 1000)}
	var err error
	for range queueLimit + 1000 { // the pipe takes some
		if err = f.Send("r1.1", protocol.Command{Cmd: protocol.CmdOffer, Offer: &o}); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrBacklog) {
		t.Errorf("Send to a deaf replica = %v, want ErrBacklog", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if len(w.exits) != 1 || w.exits[0].Signal != syscall.SIGKILL {
		t.Errorf("exits %+v, want a death by SIGKILL", w.exits)
	}
}

func TestFleetStopsAStoppedReplica(t *testing.T) {
	f, w := newFleet(t, "obey", "")
	start(t, f, "r1.1")
	w.await(t, "ready", func() bool { return len(w.events) == 1 })
	if _, err := f.Signal("r1.1", syscall.SIGSTOP); err != nil {
		t.Fatalf("Signal: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.Stop(ctx); err != nil || len(w.exits) != 1 {
		t.Fatalf("Stop of a suspended replica: %v, exits %+v", err, w.exits)
	}
}

func TestFleetEndsWhatAReplicaHasStarted(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("process groups are ended on Linux only")
	}
	f, w := newFleet(t, "parent", "")
	start(t, f, "r1.1")
	w.await(t, "grandchild", func() bool { return len(w.events) == 2 })
	pid, _ := strconv.Atoi(w.events[1].Job.ID)
	if !servertest.Alive(pid) {
		t.Fatalf("grandchild %d does not live", pid)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	servertest.AwaitDeath(t, patience, pid)
}

// readerWaits is the stack of a goroutine that waits for what a replica says.
var readerWaits = regexp.MustCompile(`\[IO wait\]:\n(.+\n)+?.+\(\*child\)\.hear\(`)

// What a replica has started may hold its standard output open after its death, where nobody can end it with the replica's group.
func TestFleetTellsOfADeathThoughThePipeStaysOpen(t *testing.T) {
	f, w := newFleet(t, "runaway", "")
	start(t, f, "r1.1")
	w.await(t, "grandchild", func() bool { return len(w.events) == 2 })
	pid, _ := strconv.Atoi(w.events[1].Job.ID)
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range poll.Every(ctx, time.Millisecond) { // until its reader waits
		all := make([]byte, 1<<20)
		if readerWaits.Match(all[:runtime.Stack(all, true)]) {
			break
		}
	}
	if _, err := f.Signal("r1.1", syscall.SIGKILL); err != nil {
		t.Fatalf("Signal: %v", err)
	}
	w.await(t, "exit", func() bool { return len(w.exits) == 1 })
	if !servertest.Alive(pid) {
		t.Errorf("grandchild %d is dead: nothing held the pipe", pid)
	}
}

func TestFleetReportsACommandThatCannotStart(t *testing.T) {
	f := NewFleet(FleetOptions{Command: []string{filepath.Join(t.TempDir(), "missing")}, Clock: monotime.Now, Dir: t.TempDir()})
	if _, _, err := f.Start(t.Context(), protocol.Configure{Incarnation: "r1.1"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start of a missing command = %v, want not exist", err)
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

// kill -9 of the runner: the kernel ends its children, even those that ignore their standard input.
func TestNothingOutlivesAKilledRunner(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("children die with their parent on Linux only")
	}
	redistest.Need(t)
	runner := exec.Command(os.Args[0])
	runner.Env = append(os.Environ(), role+"=runner", "LOCKDRILL_BED_TEST_DIR="+t.TempDir())
	runner.Stderr = os.Stderr
	in, err := runner.StdinPipe()
	testkit.Must(t, err)
	defer in.Close()
	out, err := runner.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, runner.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Errorf("runner says nothing: %v", err)
	}
	var pids []int
	for _, word := range strings.Fields(line) {
		pid, _ := strconv.Atoi(word)
		if !servertest.Alive(pid) {
			t.Errorf("process %d is dead before its runner", pid)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 5 {
		t.Errorf("runner names %q, want 5 processes", line)
	}
	testkit.Must(t, runner.Process.Kill())
	_ = runner.Wait()
	for _, pid := range pids {
		servertest.AwaitDeath(t, patience, pid)
	}
}
