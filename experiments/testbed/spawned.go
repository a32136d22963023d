package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
)

const (
	spawnTries = 5               // ports tried: between finding a free one and using it another process may take it
	readyLimit = 5 * time.Second // until a started server answers (usually 10 ms)
)

// spawning is what the servers of a run have in common.
type spawning struct {
	spawner *spawner
	journal *undo.Journal
	binary  string
	dir     string // their folders are made below it
}

// spawned is one server of this run: a folder, an address, and one process after the other.
type spawned struct {
	how   *spawning
	name  string
	kind  string // "redis-server": what it is called in messages, and the middle of its folder's name
	forks string // undo.Process.Forks
	dir   string // absolute
	addr  string
	log   tail

	cgroup string // "" = none of its own

	cmd    *exec.Cmd
	self   undo.Process
	done   chan struct{} // closed when the process is gone and was waited for
	record int           // in the journal
}

// redisServer is one redis-server of this run.
type redisServer struct {
	spawned
	keep bool     // what it is told is in its folder, so that it is there after a kill and a start
	args []string // further ones
}

// openSpawned starts a redis-server on a free loopback port, in a new folder.
func openSpawned(ctx context.Context, how *spawning, name, prefix string, keep bool) (*Store, error) {
	r, client, info, err := spawnRedis(ctx, how, name, keep)
	if err != nil {
		return nil, err
	}
	return &Store{
		Info: history.StoreInfo{Kind: "spawned", Version: info["redis_version"], RunID: info["run_id"]},
		Addr: r.addr, Prefix: prefix, PID: r.self.PID, client: client, host: r,
	}, nil
}

var errEnded = errors.New("it ended at once")

// spawnRedis starts a server that answers; on an error nothing is left of it.
func spawnRedis(ctx context.Context, how *spawning, name string, keep bool, args ...string) (*redisServer, *redis.Client, map[string]string, error) {
	var errs []error
	for range spawnTries {
		port, err := freePort()
		if err != nil {
			return nil, nil, nil, fmt.Errorf("find a free port: %w", err)
		}
		r := &redisServer{spawned: spawned{how: how, name: name, kind: "redis-server", addr: net.JoinHostPort("127.0.0.1", port)}, keep: keep, args: args}
		if err := r.makeFolder(); err != nil {
			return nil, nil, nil, fmt.Errorf("make folder of %s: %w", r.kind, err)
		}
		client := newClient(r.addr)
		info, err := r.launch(ctx, client)
		if err == nil {
			return r, client, info, nil
		}
		errs = append(errs, abandon(ctx, errors.Join(err, client.Close()), r.end))
		if ctx.Err() != nil || !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, nil, nil, errors.Join(errs...)
}

// launch starts the process, writes it down, and waits until it answers to client, which is one of its address.
func (r *redisServer) launch(ctx context.Context, client redis.UniversalClient) (map[string]string, error) {
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		return nil, err
	}
	args := []string{"--port", port, "--bind", "127.0.0.1", "--protected-mode", "yes", "--save", "", "--dir", r.dir,
		"--daemonize", "no", "--loglevel", "warning", "--repl-diskless-sync-delay", "0", "--appendonly"}
	if r.keep { // the system's cache outlives the process: no sync is needed
		args = append(args, "yes", "--appendfsync", "no")
	} else {
		args = append(args, "no")
	}
	if err := r.run(exec.Command(r.how.binary, append(args, r.args...)...)); err != nil {
		return nil, err
	}
	return r.awaitReady(ctx, client)
}

// run starts the process and writes it down.
func (r *spawned) run(cmd *exec.Cmd) error {
	mark := r.how.journal.MarkOf(r.name)
	cmd.Env = append(os.Environ(), undo.MarkEnv+"="+mark)
	cmd.Stdout, cmd.Stderr = &r.log, &r.log
	cmd.WaitDelay = time.Second // what a wrapper has started may hold the log open
	cgroup := undo.MakeCgroup(r.cgroup)
	err := r.how.spawner.start(cmd, cgroup)
	_ = cgroup.Close() // if there is one
	if err != nil {
		return fmt.Errorf("start %s: %w", r.kind, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
	r.cmd, r.done, r.self = cmd, done, undo.Find(cmd.Process.Pid)
	r.self.Mark, r.self.Folder, r.self.Forks = mark, r.dir, r.forks
	self := r.self
	return r.how.journal.Done(r.record, undo.Record{Kind: undo.StandServer, Folder: r.dir, Process: &self, Cgroup: r.cgroup})
}

// makeFolder writes down the server's folder, and its cgroup if it can have one, and makes the folder; the process is added to the record as soon as it has a number.
func (r *spawned) makeFolder() error {
	dir, err := filepath.Abs(r.how.dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s%s-%s-%08x", folderPrefix, strings.TrimSuffix(r.kind, "-server"), r.name, rand.Uint32()))
	r.cgroup = r.how.journal.CgroupOf(filepath.Base(path))
	if r.record, err = r.how.journal.Intend(undo.Record{Kind: undo.StandServer, Folder: path, Cgroup: r.cgroup}); err != nil {
		return err
	}
	if err := r.how.journal.MakeFolder(path); err != nil { // where there is one of that name, it is another's
		return errors.Join(err, r.how.journal.Mark(r.record, undo.Undone, ""))
	}
	r.dir = path
	return nil
}

// awaitReady polls until the server answers, and makes sure that it is ours: another server may have taken the port.
func (r *redisServer) awaitReady(ctx context.Context, client redis.UniversalClient) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	var last error // of a try that was not cut short by the limit: that one only says that time is up
	for {
		err := accepts(ctx, r.addr)
		if err == nil {
			err = client.Ping(ctx).Err() // an error while it reads what it has kept
		}
		if err == nil {
			var info map[string]string
			info, err = serverInfo(ctx, client)
			if err == nil && info["process_id"] == strconv.Itoa(r.self.PID) {
				return info, nil
			}
			if err == nil {
				err = fmt.Errorf("process %s answers there, and %d was started: is redis-server on the PATH a wrapper that does not exec?", info["process_id"], r.self.PID)
			}
		}
		var late net.Error // the connection's deadline is the limit as well, and may be noticed first
		if ctx.Err() == nil && (!errors.As(err, &late) || !late.Timeout()) {
			last = err
		}
		select {
		case <-poll.C:
		case <-r.done:
			return nil, fmt.Errorf("start %s: %w (%s): %s", r.kind, errEnded, r.cmd.ProcessState, &r.log)
		case <-ctx.Done():
			return nil, fmt.Errorf("wait until redis-server answers: %w", errors.Join(ctx.Err(), last))
		}
	}
}

// accepts asks whether anything listens at addr: go-redis remembers a refused connection for a second.
func accepts(ctx context.Context, addr string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// process implements host.
func (r *spawned) process() *undo.Process {
	self := r.self
	return &self
}

// runs reports whether the process runs.
func (r *spawned) runs() bool {
	if r.cmd == nil {
		return false
	}
	select {
	case <-r.done: // its process id may be another's by now
		return false
	default:
		return true
	}
}

// kill implements host: SIGKILL, and waits for the end. A server that does not run is killed already.
func (r *spawned) kill(ctx context.Context) error {
	if !r.runs() {
		return nil
	}
	if err := signalGroup(r.cmd, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s %d: %w", r.kind, r.self.PID, err)
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s %d: %w", r.kind, r.self.PID, ctx.Err())
	}
}

// start implements host: on the same port, in the same folder. One that runs goes on.
func (r *redisServer) start(ctx context.Context, client redis.UniversalClient, keep bool) error {
	if r.runs() {
		return nil
	}
	if keep && !r.keep {
		return errors.New("start redis-server with its data: it has kept none")
	}
	if !keep {
		if err := empty(r.dir); err != nil {
			return fmt.Errorf("drop the data of redis-server: %w", err)
		}
	}
	_, err := r.launch(ctx, client)
	return err
}

// end implements host: kills the server and removes its folder.
func (r *spawned) end(ctx context.Context) error {
	if err := r.kill(ctx); err != nil {
		return err
	}
	if r.dir == "" {
		return nil
	}
	if err := undo.EndCgroup(ctx, r.cgroup); err != nil {
		return err
	}
	if err := removeAll(r.dir); err != nil {
		return err
	}
	return r.how.journal.Mark(r.record, undo.Undone, "")
}

// empty removes what is in a folder, but for what says whose it is.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != undo.NonceFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
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
