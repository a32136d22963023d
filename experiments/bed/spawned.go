package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

const (
	spawnTries = 5               // ports tried: between finding a free one and using it another process may take it
	readyLimit = 5 * time.Second // until a started server answers (usually 10 ms)
)

// redisServer is one redis-server process of this run. It writes nothing to disk; its folder exists because it must stand in one.
type redisServer struct {
	cmd  *exec.Cmd
	dir  string
	addr string
	log  tail
	done chan struct{} // closed when the process is gone and was waited for
}

// openSpawned starts a redis-server on a free loopback port, in a new folder below dir.
func openSpawned(ctx context.Context, sp *spawner, binary, dir, name, prefix string) (*Store, error) {
	var errs []error
	for range spawnTries {
		r, err := startRedis(sp, binary, dir, name)
		if err != nil {
			return nil, err
		}
		s := &Store{Addr: r.addr, Prefix: prefix, PID: r.cmd.Process.Pid, client: newClient(r.addr), end: r.end}
		err = s.awaitReady(ctx, r)
		if err == nil {
			if err = s.Mark(ctx); err == nil {
				return s, nil
			}
		}
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		errs = append(errs, err, s.Close(undo))
		cancel()
		if ctx.Err() != nil || !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, errors.Join(errs...)
}

var errEnded = errors.New("redis-server ended at once")

func startRedis(sp *spawner, binary, dir, name string) (_ *redisServer, err error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder of redis-server: %w", err)
	}
	r := &redisServer{addr: net.JoinHostPort("127.0.0.1", port), done: make(chan struct{})}
	if r.dir, err = os.MkdirTemp(dir, "lockdrill-redis-"+name+"-"); err != nil {
		return nil, fmt.Errorf("make folder of redis-server: %w", err)
	}
	r.cmd = exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--protected-mode", "yes",
		"--save", "", "--appendonly", "no", "--dir", r.dir, "--daemonize", "no", "--loglevel", "warning")
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	r.cmd.WaitDelay = time.Second // what a wrapper has started may hold the log open
	if err := sp.start(r.cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("start redis-server: %w", err), os.RemoveAll(r.dir))
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // how it ended is in ProcessState
	}()
	return r, nil
}

// awaitReady polls until the server answers, and makes sure that it is ours: another server may have taken the port.
func (s *Store) awaitReady(ctx context.Context, r *redisServer) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	var last error // of a try that was not cut short by the limit: that one only says that time is up
	for {
		err := accepts(ctx, s.Addr)
		if err == nil {
			var info map[string]string
			info, err = serverInfo(ctx, s.client)
			if err == nil && info["process_id"] == strconv.Itoa(s.PID) {
				s.Info = history.StoreInfo{Kind: "spawned", Version: info["redis_version"], RunID: info["run_id"]}
				return nil
			}
			if err == nil {
				err = fmt.Errorf("process %s answers there, and %d was started: is redis-server on the PATH a wrapper that does not exec?", info["process_id"], s.PID)
			}
		}
		if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-poll.C:
		case <-r.done:
			return fmt.Errorf("%w (%s): %s", errEnded, r.cmd.ProcessState, &r.log)
		case <-ctx.Done():
			return fmt.Errorf("wait until redis-server answers: %w", errors.Join(ctx.Err(), last))
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

// end kills the server (it has nothing to save), waits for it and removes its folder.
func (r *redisServer) end(ctx context.Context) error {
	select {
	case <-r.done: // its process id may be another's by now
	default:
		if err := signalGroup(r.cmd, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill redis-server %d: %w", r.cmd.Process.Pid, err)
		}
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of redis-server %d: %w", r.cmd.Process.Pid, ctx.Err())
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return fmt.Errorf("remove folder of redis-server: %w", err)
	}
	if _, err := os.Lstat(r.dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder of redis-server is still there: %s", r.dir)
	}
	return nil
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
