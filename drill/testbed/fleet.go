// Package testbed is what a drill stands on beside its stores: the fleet of replicas, as processes or pods, and the proxies on their ways.
//
// It starts, measures, signals and ends them; it decides nothing about the drill and records nothing. Everything that it starts listens on
// the loopback interface only.
//
// Its one invariant: what it started is gone after Close or Stop, and whatever is a process of its own is also gone when the
// runner is killed with -9 (Linux: by the kernel; elsewhere replicas end when their standard input closes).
package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/spawn"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// FleetOptions say how replicas are run as processes of this host.
type FleetOptions struct {
	Command []string      // of a replica: path and arguments
	Env     []string      // added to the runner's own environment
	Dir     string        // what a replica says on standard error is kept here, a file a life; "" = dropped
	Clock   func() int64  // ns since the run's origin
	Origin  int64         // CLOCK_MONOTONIC ns of that origin: taken off the replicas' stamps
	Later   bool          // each command has a field that no replica can know
	Journal *undo.Journal // each replica is written down here as soon as it runs; nil = nowhere

	// OnEvents gets each replica's events in its own order, in a slice that is used again; OnExit the end of each life after the last of
	// them. Both are called one at a time over the whole fleet; they may call Send and Signal, but neither Start nor Stop.
	OnEvents func([]history.Event)
	OnExit   func(Exit)
}

// Exit is the end of one life of a replica.
type Exit struct {
	Name, Incarnation string
	PID               int
	Span              history.Span // To: it was waited for. From: the last instant at which it surely lived
	State             string       // "signal: killed", "exit status 0"
	Signaled          bool
	Signal            syscall.Signal
	Lines             int      // that were events
	Bad               int      // lines that were not
	BadLines          []string // the first of those, each with what is wrong with it
}

// Fleet runs replicas as child processes. It is safe for concurrent use.
type Fleet struct {
	o       FleetOptions
	spawner *spawn.Spawner

	deliver sync.Mutex // held from reading what a replica said until the end of OnEvents, and during OnExit; guards what follows
	parser  *history.Parser
	events  []history.Event // for OnEvents

	mu       sync.Mutex
	children map[string]*child // by incarnation, dead ones too: an incarnation is never used again
	stopped  bool
	ended    sync.Once
}

// Errors of Send and Signal that a caller may decide by.
var (
	ErrDead    = errors.New("the replica is dead")
	ErrBacklog = errors.New("the replica does not read its commands")
)

// NewFleet returns an empty fleet. Its owner calls Stop.
func NewFleet(o FleetOptions) *Fleet {
	return &Fleet{o: o, spawner: spawn.New(), parser: history.NewParser(), children: map[string]*child{}}
}

// tell hands over the events that have come; deliver is held.
func (f *Fleet) tell() {
	if len(f.events) > 0 {
		f.o.OnEvents(f.events)
		f.events = f.events[:0]
	}
}

// Start starts a replica and writes it its configuration; it does not wait until the replica is ready. The span is the bracket
// of the start call.
func (f *Fleet) Start(ctx context.Context, c protocol.Configure) (history.Replica, history.Span, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var none history.Replica
	switch {
	case ctx.Err() != nil:
		return none, history.Span{}, fmt.Errorf("start replica %s: %w", c.Incarnation, ctx.Err())
	case f.stopped:
		return none, history.Span{}, fmt.Errorf("start replica %s: the fleet is stopped", c.Incarnation)
	case f.children[c.Incarnation] != nil:
		return none, history.Span{}, fmt.Errorf("start replica %s: there was one of that name", c.Incarnation)
	}
	ch, err := f.spawn(c)
	if err != nil {
		return none, history.Span{}, fmt.Errorf("start replica %s: %w", c.Incarnation, err)
	}
	f.children[c.Incarnation] = ch
	ch.run()
	if err := ch.send(protocol.Command{V: protocol.Version, Cmd: protocol.CmdConfigure, Configure: &c}); err != nil {
		return ch.replica, ch.started, fmt.Errorf("configure replica %s: %w", c.Incarnation, err)
	}
	return ch.replica, ch.started, nil
}

// spawn starts the process with its three pipes.
func (f *Fleet) spawn(c protocol.Configure) (*child, error) {
	cmd := exec.Command(f.o.Command[0], f.o.Command[1:]...)
	mark := f.o.Journal.MarkOf(c.Incarnation)
	cmd.Env = append(append(os.Environ(), f.o.Env...), undo.MarkEnv+"="+mark)
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	ch := &child{
		fleet: f, cmd: cmd, stdin: inW, stdout: outR, buf: make([]byte, lineLimit),
		queue: make(chan []byte, queueLimit), gone: make(chan struct{}), wrote: make(chan struct{}), heard: make(chan struct{}), done: make(chan struct{}),
	}
	if ch.pipe, err = outR.SyscallConn(); err == nil {
		ch.input, err = inW.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close(), outR.Close(), outW.Close())
	}
	cmd.Stdin, cmd.Stdout = inR, outW
	if f.o.Dir != "" {
		ch.stderr, err = os.Create(filepath.Join(f.o.Dir, c.Incarnation+".stderr"))
		if err != nil {
			return nil, errors.Join(err, inR.Close(), inW.Close(), outR.Close(), outW.Close())
		}
		cmd.Stderr = ch.stderr
	}
	cgroup, err := ch.makeCgroup(c.Incarnation)
	if err == nil {
		ch.started.From = f.o.Clock()
		err = f.spawner.Start(cmd, cgroup)
		ch.started.To = f.o.Clock()
		_ = cgroup.Close() // if there is one
	}
	_, _ = inR.Close(), outW.Close() // the child's ends
	if err != nil {
		ch.closePipes()
		ch.end()
		return nil, err
	}
	self := undo.Find(cmd.Process.Pid)
	self.Mark, ch.self = mark, self
	ch.replica = history.Replica{Name: c.Name, Incarnation: c.Incarnation, PID: self.PID, Started: self.Started}
	if err := ch.writeDown(undo.Record{Kind: undo.StandReplica, Process: &self, Cgroup: ch.cgroup}); err != nil { // what is not written down must not be there
		err = errors.Join(err, spawn.SignalGroup(cmd, syscall.SIGKILL))
		_ = cmd.Wait() // it was killed
		ch.closePipes()
		ch.end()
		return nil, err
	}
	return ch, nil
}

// Send queues a command for a replica. It never waits: a replica that does not read gives ErrBacklog in the end, a dead one
// ErrDead.
func (f *Fleet) Send(incarnation string, c protocol.Command) error {
	line, err := f.encode(c)
	if err != nil {
		return err
	}
	return f.SendLine(incarnation, line)
}

// SendLine writes a replica a command as it stands, with its newline.
func (f *Fleet) SendLine(incarnation string, line []byte) error {
	ch, err := f.child(incarnation)
	if err == nil {
		err = ch.sendLine(line)
	}
	if err != nil {
		return fmt.Errorf("send %.40s to replica %s: %w", line, incarnation, err)
	}
	return nil
}

// Signal sends sig to a replica and what it has started; the span is the bracket of the kill call. A replica that has been
// waited for gives ErrDead.
func (f *Fleet) Signal(incarnation string, sig syscall.Signal) (history.Span, error) {
	ch, err := f.child(incarnation)
	if err != nil {
		return history.Span{}, err
	}
	span, err := ch.signal(sig)
	if err != nil {
		return span, fmt.Errorf("signal replica %s: %w", incarnation, err)
	}
	return span, nil
}

// HangUp closes a replica's standard input, as the end of its runner does.
func (f *Fleet) HangUp(incarnation string) error {
	ch, err := f.child(incarnation)
	if err != nil {
		return err
	}
	ch.hangUp()
	return nil
}

func (f *Fleet) child(incarnation string) (*child, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := f.children[incarnation]
	if ch == nil {
		return nil, fmt.Errorf("replica %s: there is none", incarnation)
	}
	return ch, nil
}

// Processes are the replicas that live, by incarnation. busy: one is being started now, and it was not waited for.
func (f *Fleet) Processes() (pids map[string]int, busy bool) {
	if !f.mu.TryLock() {
		return nil, true
	}
	defer f.mu.Unlock()
	pids = make(map[string]int, len(f.children))
	for incarnation, ch := range f.children {
		select {
		case <-ch.gone:
		default:
			pids[incarnation] = ch.replica.PID
		}
	}
	return pids, false
}

// killLimit bounds the wait for processes after SIGKILL.
const killLimit = 5 * time.Second

// Stop tells every replica to finish, kills with SIGKILL what is left when ctx ends, and waits for all of them. It may be
// called again. An error says which processes could not be ended.
func (f *Fleet) Stop(ctx context.Context) error {
	f.mu.Lock()
	f.stopped = true
	all := make([]*child, 0, len(f.children))
	for _, ch := range f.children {
		all = append(all, ch)
	}
	f.mu.Unlock()
	for _, ch := range all {
		ch.finish()
	}
	for _, ch := range all {
		select {
		case <-ch.done:
		case <-ctx.Done():
		}
	}
	for _, ch := range all {
		_, _ = ch.signal(syscall.SIGKILL) // ErrDead for those that have ended
	}
	limit := time.NewTimer(killLimit)
	defer limit.Stop()
	for _, ch := range all {
		select {
		case <-ch.done:
		case <-limit.C:
			return fmt.Errorf("stop fleet: replica %s (process %d) does not die", ch.replica.Incarnation, ch.replica.PID)
		}
	}
	f.ended.Do(f.spawner.Close)
	return nil
}

// later is a field that a later version of the protocol might have: a worker tolerates it.
const later = `,"later":{"version":2}}`

// encode makes one line of a command.
func (f *Fleet) encode(c protocol.Command) ([]byte, error) {
	line, err := encode(c)
	if err == nil && f.o.Later {
		line = append(line[:len(line)-len("}\n")], later+"\n"...)
	}
	return line, err
}

func encode(c protocol.Command) ([]byte, error) {
	if c.V == 0 {
		c.V = protocol.Version
	}
	line, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode command: %w", err)
	}
	return append(line, '\n'), nil
}
