package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

const (
	queueLimit   = 4096                   // commands that wait for a replica to read them
	drainLimit   = 250 * time.Millisecond // after its death: what it has started may hold its standard output open
	lineLimit    = 1 << 16                // bytes of one line: an event is a few hundred
	badLinesKept = 20
	badLineKept  = 300 // bytes of one of those
)

// child is one life of a replica. Three goroutines belong to it: one writes commands, one reads events, one waits for the
// process and for the other two, and closes done as its last act.
type child struct {
	fleet   *Fleet
	cmd     *exec.Cmd
	replica history.Replica
	started history.Span
	self    undo.Process
	cgroup  string // "" = none of its own
	record  int    // in the journal

	stdin, stdout, stderr *os.File
	said                  said
	gone                  chan struct{} // closed: the process is dead
	read, wrote, done     chan struct{}
	dead                  atomic.Bool

	sending sync.Mutex // guards the closing of queue
	queue   chan []byte
	closed  bool

	mu     sync.Mutex // signalling and collecting exclude one another
	reaped bool
	killed int64 // start of the first SIGKILL; 0 = none

	exit Exit  // the reader's until read is closed, then the waiter's
	last int64 // stamp of the newest event: the replica lived then
}

func (c *child) run() {
	go c.write()
	go c.receive()
	go c.await()
}

// send queues a line; see Fleet.Send.
func (c *child) send(cmd protocol.Command) error {
	line, err := encode(cmd)
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
	select {
	case c.queue <- line:
		return nil
	default:
		return ErrBacklog
	}
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
			if _, err := c.stdin.Write(line); err != nil {
				return
			}
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
	err := signalGroup(c.cmd, sig)
	s.To = c.fleet.o.Clock()
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		err = ErrDead
	}
	if err == nil && sig == syscall.SIGKILL && c.killed == 0 {
		c.killed = s.From
	}
	return s, err
}

// await collects the process, lets the reader drain what it had written, and reports the end.
func (c *child) await() {
	defer close(c.done)
	reap(&c.mu, c.cmd)
	dead := c.fleet.o.Clock()
	c.mu.Lock()
	c.reaped = true
	killed := c.killed
	c.mu.Unlock()
	_ = c.stdout.SetReadDeadline(time.Now()) // wakes the reader; from dead on the deadline is the reader's own
	c.dead.Store(true)
	close(c.gone)
	<-c.read
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

// receive reads lines until the pipe ends. After the process's death what is in the pipe is read to its end; where something
// else holds the pipe open, reading ends when nothing more comes for drainLimit.
func (c *child) receive() {
	defer close(c.read)
	r := bufio.NewReaderSize(&c.said, 1<<16)
	var line []byte
	long := false
	for {
		dead := c.dead.Load()
		if dead {
			_ = c.stdout.SetReadDeadline(time.Now().Add(drainLimit))
		}
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > lineLimit {
			line, long = line[:0], true
		} else if !long {
			line = append(line, part...)
		}
		switch {
		case err == nil:
			c.line(line, long)
			line, long = line[:0], false
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, os.ErrDeadlineExceeded) && !dead:
		default:
			if len(line) > 0 && !c.wasKilled() { // a killed writer may be cut off in a line
				c.bad(line, errors.New("cut off"))
			}
			return
		}
	}
}

func (c *child) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed != 0
}

// line delivers one line as an event, or keeps it as a bad one.
func (c *child) line(line []byte, long bool) {
	if long {
		c.bad(nil, fmt.Errorf("longer than %d bytes", lineLimit))
		return
	}
	now := c.fleet.o.Clock()
	c.fleet.deliver.Lock()
	defer c.fleet.deliver.Unlock()
	e, err := claim(c.fleet.parser, line, c.replica, c.fleet.o.Origin)
	if err == nil && e.To > now {
		err = fmt.Errorf("stamped %d ns after it was received", e.To-now)
	}
	if err == nil && e.From < c.started.From {
		err = errors.New("stamped before the replica was started")
	}
	if err != nil {
		c.bad(line, err)
		return
	}
	c.exit.Lines++
	c.last = max(c.last, e.To)
	c.fleet.o.OnEvent(e)
}

func (c *child) bad(line []byte, err error) {
	c.exit.Bad++
	if len(c.exit.BadLines) < badLinesKept {
		c.exit.BadLines = append(c.exit.BadLines, fmt.Sprintf("%v: %.*q", err, badLineKept, line))
	}
}
