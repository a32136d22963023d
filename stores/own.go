package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/spawn"
)

// Own is what the servers of a run's own have in common.
type Own struct {
	Spawner *spawn.Spawner
	Journal *undo.Journal // what is started is written down here first; nil = nowhere
	Binary  string
	Dir     string // their folders are made below it
}

// Spawned is one server of this run: a folder, an address, and one process after the other.
type Spawned struct {
	How   *Own
	Name  string
	Kind  string // "redis-server": what it is called in messages, and the middle of its folder's name
	Forks string // undo.Process.Forks
	Addr  string
	Dir   string // absolute
	Cmd   *exec.Cmd
	Self  undo.Process
	Done  chan struct{} // closed when the process is gone and was waited for

	log    tail
	cgroup string // "" = none of its own
	record int    // in the journal
}

// spawnTries is how many ports are tried: between finding a free one and using it another process may take it.
const spawnTries = 5

// ErrEnded says that a server ended as soon as it had been started.
var ErrEnded = errors.New("it ended at once")

// Tries makes servers by try, until one does not end at once for want of its port; on an error nothing is left of them.
func Tries(ctx context.Context, try func() (end func(context.Context) error, err error)) error {
	var errs []error
	for range spawnTries {
		end, err := try()
		if err == nil {
			return nil
		}
		if end == nil {
			return err
		}
		errs = append(errs, Abandon(ctx, err, end))
		if ctx.Err() != nil || !errors.Is(err, ErrEnded) {
			break
		}
	}
	return errors.Join(errs...)
}

// FreeAddr is an address of this host at which nobody listens.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Accepts asks whether anything listens at addr: go-redis remembers a refused connection for a second.
func Accepts(ctx context.Context, addr string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// MakeFolder writes down the server's folder, and its cgroup if it can have one, and makes the folder; the process is added to the record as
// soon as it has a number.
func (s *Spawned) MakeFolder() error {
	if err := s.makeFolder(); err != nil {
		return fmt.Errorf("make folder of %s: %w", s.Kind, err)
	}
	return nil
}

func (s *Spawned) makeFolder() error {
	dir, err := filepath.Abs(s.How.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s%s-%s-%08x", FolderPrefix, strings.TrimSuffix(s.Kind, "-server"), s.Name, rand.Uint32()))
	s.cgroup = s.How.Journal.CgroupOf(filepath.Base(path))
	if s.record, err = s.How.Journal.Intend(undo.Record{Kind: undo.StandServer, Folder: path, Cgroup: s.cgroup}); err != nil {
		return err
	}
	if err := s.How.Journal.MakeFolder(path); err != nil { // where there is one of that name, it is another's
		return errors.Join(err, s.How.Journal.Mark(s.record, undo.Undone, ""))
	}
	s.Dir = path
	return nil
}

// Run starts the process and writes it down.
func (s *Spawned) Run(cmd *exec.Cmd) error {
	mark := s.How.Journal.MarkOf(s.Name)
	cmd.Env = append(os.Environ(), undo.MarkEnv+"="+mark)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.WaitDelay = time.Second // what a wrapper has started may hold the log open
	cgroup := undo.MakeCgroup(s.cgroup)
	err := s.How.Spawner.Start(cmd, cgroup)
	_ = cgroup.Close() // if there is one
	if err != nil {
		return fmt.Errorf("start %s: %w", s.Kind, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
	s.Cmd, s.Done, s.Self = cmd, done, undo.Find(cmd.Process.Pid)
	s.Self.Mark, s.Self.Folder, s.Self.Forks = mark, s.Dir, s.Forks
	self := s.Self
	return s.How.Journal.Done(s.record, undo.Record{Kind: undo.StandServer, Folder: s.Dir, Process: &self, Cgroup: s.cgroup})
}

// Await asks until the server has no error to tell, or it ends, or time is up; what is waited for stands in the error.
func (s *Spawned) Await(ctx context.Context, limit, every time.Duration, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	poll := time.NewTicker(every)
	defer poll.Stop()
	var last error // of a try that was not cut short by the limit: that one only says that time is up
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		var late net.Error // the connection's deadline is the limit as well, and may be noticed first
		if ctx.Err() == nil && (!errors.As(err, &late) || !late.Timeout()) {
			last = err
		}
		select {
		case <-poll.C:
		case <-s.Done:
			return fmt.Errorf("start %s: %w (%s): %s", s.Kind, ErrEnded, s.Cmd.ProcessState, &s.log)
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %s", what, errors.Join(ctx.Err(), last), &s.log)
		}
	}
}

// Failed is an error that shows what the process has said.
func (s *Spawned) Failed(what string) error {
	return fmt.Errorf("%s (%s): %s", what, s.Cmd.ProcessState, &s.log)
}

// Process is that of now.
func (s *Spawned) Process() *undo.Process {
	self := s.Self
	return &self
}

// Runs reports whether the process runs.
func (s *Spawned) Runs() bool {
	if s.Cmd == nil {
		return false
	}
	select {
	case <-s.Done: // its process id may be another's by now
		return false
	default:
		return true
	}
}

// Kill is SIGKILL, and waits for the end, also where nobody waits any more: whoever ends the fault must not take a dying server for one
// that runs. A server that does not run is killed already.
func (s *Spawned) Kill(ctx context.Context) error {
	if !s.Runs() {
		return nil
	}
	if err := spawn.SignalGroup(s.Cmd, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s %d: %w", s.Kind, s.Self.PID, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	select {
	case <-s.Done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s %d: %w", s.Kind, s.Self.PID, ctx.Err())
	}
}

// Empty removes what is in the server's folder, but for what says whose it is.
func (s *Spawned) Empty() error {
	entries, err := os.ReadDir(s.Dir)
	for _, e := range entries {
		if e.Name() != undo.NonceFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.Dir, e.Name())))
		}
	}
	if err != nil {
		err = fmt.Errorf("drop the data of %s: %w", s.Kind, err)
	}
	return err
}

// End kills the server and removes its folder.
func (s *Spawned) End(ctx context.Context) error {
	if err := s.Kill(ctx); err != nil {
		return err
	}
	if s.Dir == "" {
		return nil
	}
	if err := undo.EndCgroup(ctx, s.cgroup); err != nil {
		return err
	}
	if err := removeAll(s.Dir); err != nil {
		return err
	}
	return s.How.Journal.Mark(s.record, undo.Undone, "")
}

// removeAll removes a folder and verifies that it is gone.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove folder of a server: %w", err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder of a server is still there: %s", dir)
	}
	return nil
}

// tail keeps the last part of what a process says, for the message when it fails.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - 2048; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
