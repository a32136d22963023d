package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/spawn"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

const (
	queueLimit   = 4096                   // commands that wait for a replica to read them
	drainLimit   = 250 * time.Millisecond // after its death: what it has started may hold its standard output open
	lineLimit    = 1 << 16                // bytes of one line: an event is a few hundred
	badLinesKept = 20
	badLineKept  = 300 // bytes of one of those

	// breath is between two reads of what a replica says: what comes meanwhile wakes nobody. Without it the runner of a drill with 200 jobs
	// a second took a fifth more of a processor.
	breath = 2 * time.Millisecond
)

// child is one life of a replica. Three goroutines belong to it: one writes commands, one reads what it says, one waits for the process and
// for the others, and closes done as its last act.
type child struct {
	fleet   *Fleet
	cmd     *exec.Cmd
	replica history.Replica
	started history.Span
	self    undo.Process
	cgroup  string // "" = none of its own
	record  int    // in the journal

	stdin, stdout, stderr *os.File
	gone                  chan struct{} // closed: the process is dead
	wrote, heard, done    chan struct{}
	dead                  atomic.Bool

	sending sync.Mutex // guards the closing of queue, and what follows
	queue   chan []byte
	closed  bool
	queued  int             // lines that are in queue, or that write is about to write
	input   syscall.RawConn // of stdin

	mu     sync.Mutex // signalling and collecting exclude one another
	reaped bool
	killed int64 // start of the first SIGKILL; 0 = none

	// The reader's, with the fleet's deliver; once that reads no more, the waiter's.
	pipe syscall.RawConn // of stdout
	buf  []byte
	n    int  // bytes in buf: the beginning of a line that is not whole yet
	long bool // the line that goes on is too long, and dropped
	exit Exit
	last int64 // stamp of the newest event: the replica lived then
}

func (c *child) run() {
	go c.write()
	go c.hear()
	go c.await()
}

// send queues a line; see Fleet.Send.
func (c *child) send(cmd protocol.Command) error {
	line, err := c.fleet.encode(cmd)
	if err != nil {
		return err
	}
	return c.sendLine(line)
}

func (c *child) sendLine(line []byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.closed || c.dead.Load() {
		return ErrDead
	}
	if c.queued == 0 { // nothing stands before it, and nearly always there is room: then nobody else need wake for it
		if line = line[c.tryWrite(line):]; len(line) == 0 {
			return nil
		}
	}
	select {
	case c.queue <- line:
		c.queued++
		return nil
	default:
		return ErrBacklog
	}
}

// tryWrite writes what there is room for in the replica's standard input, and does not wait.
func (c *child) tryWrite(line []byte) (n int) {
	_ = c.input.Write(func(fd uintptr) bool {
		n, _ = unix.Write(int(fd), line) // what fails here fails again in write
		return true
	})
	return max(0, n)
}

// finish tells the replica to stop; the end of the queue closes its standard input, which says the same to one that does
// not know the word.
func (c *child) finish() {
	_ = c.send(protocol.Command{Cmd: protocol.CmdStop}) // dead or deaf: the closing and the kill remain
	c.hangUp()
}

// hangUp closes the replica's standard input behind what is queued.
func (c *child) hangUp() {
	c.sending.Lock()
	defer c.sending.Unlock()
	if !c.closed {
		c.closed = true
		close(c.queue)
	}
}

// write hands queued lines to the process; a write that blocks ends when await closes the pipe.
func (c *child) write() {
	defer close(c.wrote)
	defer c.stdin.Close()
	for {
		select {
		case line, open := <-c.queue:
			if !open {
				return
			}
			taken := 1
			for len(line) < lineLimit && len(c.queue) > 0 { // what has come meanwhile goes with it, as far as it fits: what is taken leaves room in the queue
				line = append(line, <-c.queue...)
				taken++
			}
			if _, err := c.stdin.Write(line); err != nil {
				return
			}
			c.sending.Lock()
			c.queued -= taken
			c.sending.Unlock()
		case <-c.gone:
			return
		}
	}
}

func (c *child) signal(sig syscall.Signal) (history.Span, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped || c.killed != 0 { // a second SIGKILL would reach a corpse that is not collected yet, and look like a kill
		return history.Span{}, ErrDead
	}
	var s history.Span
	s.From = c.fleet.o.Clock()
	err := spawn.SignalGroup(c.cmd, sig)
	s.To = c.fleet.o.Clock()
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		err = ErrDead
	}
	if err == nil && sig == syscall.SIGKILL && c.killed == 0 {
		c.killed = s.From
	}
	return s, err
}

// await collects the process, lets hear read what it had written, and reports the end.
func (c *child) await() {
	defer close(c.done)
	spawn.Reap(&c.mu, c.cmd)
	dead := c.fleet.o.Clock()
	c.mu.Lock()
	c.reaped = true
	killed := c.killed
	c.mu.Unlock()
	c.dead.Store(true)
	close(c.gone)
	_ = c.stdout.SetReadDeadline(time.Now().Add(drainLimit))
	<-c.heard
	if c.n > 0 && killed == 0 { // a killed writer may be cut off in a line
		c.bad(c.buf[:c.n], errors.New("cut off"))
	}
	_ = c.stdin.Close()
	<-c.wrote
	c.closePipes()

	state := c.cmd.ProcessState
	c.exit.Name, c.exit.Incarnation, c.exit.PID = c.replica.Name, c.replica.Incarnation, c.replica.PID
	c.exit.State = state.String()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		c.exit.Signaled, c.exit.Signal = true, ws.Signal()
	}
	alive := max(c.started.From, c.last)
	if c.exit.Signaled && c.exit.Signal == syscall.SIGKILL {
		alive = max(alive, killed)
	}
	c.exit.Span = history.Span{From: min(alive, dead), To: dead}
	c.fleet.deliver.Lock()
	c.fleet.o.OnExit(c.exit)
	c.fleet.deliver.Unlock()
	c.end()
}

// makeCgroup writes down the replica's cgroup and makes it; nil = there is none for it.
func (c *child) makeCgroup(incarnation string) (*os.File, error) {
	c.cgroup = c.fleet.o.Journal.CgroupOf(incarnation)
	if c.cgroup == "" {
		return nil, nil
	}
	if err := c.writeDown(undo.Record{Kind: undo.StandReplica, Cgroup: c.cgroup}); err != nil {
		return nil, err
	}
	dir := undo.MakeCgroup(c.cgroup)
	if dir == nil {
		c.cgroup = ""
	}
	return dir, nil
}

// writeDown writes what the replica's record says now.
func (c *child) writeDown(r undo.Record) (err error) {
	if c.record != 0 {
		return c.fleet.o.Journal.Done(c.record, r)
	}
	c.record, err = c.fleet.o.Journal.Intend(r)
	return err
}

// end ends what a dead replica has started, and verifies that nothing of it is left. What cannot be written down keeps the journal
// open, which says so.
func (c *child) end() {
	if c.record == 0 { // a part that stands without a run
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	err := undo.EndCgroup(ctx, c.cgroup)
	if err == nil && c.self.PID != 0 {
		err = c.self.End(ctx)
	}
	if err != nil {
		_ = c.fleet.o.Journal.Mark(c.record, undo.Dirty, err.Error())
	} else {
		_ = c.fleet.o.Journal.Mark(c.record, undo.Undone, "")
	}
}

// closePipes closes the runner's ends, and drops a file of standard error that stayed empty.
func (c *child) closePipes() {
	_, _ = c.stdin.Close(), c.stdout.Close()
	if c.stderr == nil {
		return
	}
	info, err := c.stderr.Stat()
	_ = c.stderr.Close()
	if err == nil && info.Size() == 0 {
		_ = os.Remove(c.stderr.Name())
	}
}

// hear delivers what the replica says until the pipe is at its end; where something else holds the pipe open after its death, until nothing
// more comes for drainLimit.
func (c *child) hear() {
	defer close(c.heard)
	for more := true; more; time.Sleep(breath) {
		if c.dead.Load() {
			_ = c.stdout.SetReadDeadline(time.Now().Add(drainLimit))
		}
		err := c.pipe.Read(func(fd uintptr) (done bool) { // taken from the pipe and delivered in one: nothing is neither here nor there
			c.fleet.deliver.Lock()
			defer c.fleet.deliver.Unlock()
			n, err := unix.Read(int(fd), c.buf[c.n:])
			for ; err == unix.EINTR; n, err = unix.Read(int(fd), c.buf[c.n:]) {
			}
			if err == unix.EAGAIN {
				return false
			}
			if more = n > 0; more {
				c.lines(n)
				c.fleet.tell()
			}
			return true
		})
		more = more && err == nil
	}
}

// lines makes events of the whole lines of buf, of which more bytes have come, keeps those that are none as bad ones, and moves what is
// left to the beginning.
func (c *child) lines(more int) {
	now := c.fleet.o.Clock()
	rest := c.buf[:c.n+more]
	for {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			break
		}
		if rest = after; c.long {
			c.bad(nil, fmt.Errorf("longer than %d bytes", lineLimit))
			c.long = false
			continue
		}
		into := append(c.fleet.events, history.Event{})
		if err := c.event(line, now, &into[len(into)-1]); err != nil {
			c.bad(line, err)
		} else {
			c.fleet.events = into
		}
	}
	if c.long = c.long || len(rest) == lineLimit; c.long {
		rest = nil
	}
	c.n = copy(c.buf, rest)
}

// event reads into e what a line that came until now says.
func (c *child) event(line []byte, now int64, e *history.Event) error {
	err := claim(c.fleet.parser, line, &c.replica, c.fleet.o.Origin, e)
	switch {
	case err != nil:
		return err
	case e.To > now:
		return fmt.Errorf("stamped %d ns after it was received", e.To-now)
	case e.From < c.started.From:
		return errors.New("stamped before the replica was started")
	}
	c.exit.Lines++
	c.last = max(c.last, e.To)
	return nil
}

func (c *child) bad(line []byte, err error) {
	c.exit.Bad++
	if len(c.exit.BadLines) < badLinesKept {
		c.exit.BadLines = append(c.exit.BadLines, badLine(line, err))
	}
}

// badLine is what is wrong with a line, and its beginning where it was kept.
func badLine(line []byte, err error) string {
	if line == nil {
		return err.Error()
	}
	return fmt.Sprintf("%v: %.*q", err, badLineKept, line)
}
