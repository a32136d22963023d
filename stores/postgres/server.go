package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/internal/spawn"
	"github.com/lockdrill/lockdrill/stores"
)

const (
	readyWithin = time.Minute  // to make a database, or until a server answers: a second, and much more on a busy machine
	admin       = "lockdrill"  // the run's own role, which may do anything there
	role        = "drill"      // the replicas' role, which may take locks, and make tables in its schema
	forks       = "postgres: " // how the server's processes call themselves
	againEvery  = 20 * time.Millisecond
)

// server is a PostgreSQL of this run: a folder, a port, and one postmaster after the other.
//
// Whoever is on this host can log in as role, who can do as little as whoever reaches a spawned Redis. The other role has a
// password that only this process knows: its owner could run programs as the user whom the server runs as.
type server struct {
	stores.Spawned
	initdb string
	client *Client // as admin
	as     *syscall.Credential
	life   Life
}

// start starts a server that answers; on an error nothing is left of it.
func start(ctx context.Context, how stores.Own, name string) (s *server, err error) {
	initdb, err := program()
	if err != nil {
		return nil, err
	}
	how.Binary = filepath.Join(filepath.Dir(initdb), "postgres")
	as, err := spawn.Unprivileged("postgres")
	if err != nil {
		return nil, err
	}
	if as != nil && !passable(how.Dir) {
		how.Dir = os.TempDir()
	}
	err = stores.Tries(ctx, func() (func(context.Context) error, error) {
		addr, err := stores.FreeAddr()
		if err != nil {
			return nil, err
		}
		s = &server{Spawned: stores.Spawned{How: &how, Name: name, Kind: "postgres", Forks: forks, Addr: addr}, initdb: initdb, as: as}
		if err := s.MakeFolder(); err != nil {
			return nil, err
		}
		if err = s.make(ctx); err == nil {
			err = s.launch(ctx)
		}
		return s.end, err
	})
	return s, err
}

// program is the newest initdb here; its server lies beside it.
func program() (string, error) {
	there, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if slices.SortFunc(there, func(a, b string) int { return versionOf(b) - versionOf(a) }); len(there) > 0 {
		return there[0], nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("a PostgreSQL of the run's own %w: initdb is neither on the PATH nor below /usr/lib/postgresql (Debian: apt-get install postgresql)", stores.ErrSettings)
	}
	return filepath.EvalSymlinks(path)
}

func versionOf(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program)))) // 0 = none
	return n
}

// passable reports whether everybody may pass through a folder and all that it is in; one that is not there yet is made so.
func passable(dir string) bool {
	dir, err := filepath.Abs(dir)
	for ; err == nil; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
	return false
}

func (s *server) data() string { return filepath.Join(s.Dir, stores.DatabaseFolder) }

// make makes the database in its folder.
func (s *server) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	password := rand.Text()
	secret := filepath.Join(s.Dir, "password")
	if err := errors.Join(os.WriteFile(secret, []byte(password+"\n"), 0o600), os.Mkdir(s.data(), 0o700)); err != nil {
		return err
	}
	defer os.Remove(secret)
	if s.as != nil {
		uid, gid := int(s.as.Uid), int(s.as.Gid)
		if err := errors.Join(os.Chmod(s.Dir, 0o711), os.Chown(s.data(), uid, gid), os.Chown(secret, uid, gid)); err != nil {
			return err
		}
	}
	cmd := exec.Command(s.initdb, "-D", s.data(), "-U", admin, "--pwfile", secret, "-A", "scram-sha-256", "-N", "--no-locale", "-E", "UTF8", "--no-instructions")
	if err := s.Run(s.asServer(cmd, syscall.SIGKILL)); err != nil {
		return err
	}
	select {
	case <-s.Done:
	case <-ctx.Done():
		return fmt.Errorf("wait until initdb has made a database: %w", errors.Join(ctx.Err(), s.kill(context.WithoutCancel(ctx))))
	}
	if !s.Cmd.ProcessState.Success() {
		return s.Failed("initdb failed")
	}
	rules := fmt.Sprintf("host all %s 127.0.0.1/32 trust\nhost all %s 127.0.0.1/32 scram-sha-256\n", role, admin)
	if err := os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(rules), 0o600); err != nil { // the file stays its owner's
		return err
	}
	dsn := url.URL{Scheme: "postgres", User: url.UserPassword(admin, password), Host: s.Addr, Path: "/postgres", RawQuery: "sslmode=disable"}
	var err error
	s.client, err = Dial(dsn.String(), "lockdrill")
	return err
}

// asServer lets a command run as the server's user, in its folder. The signal comes when the runner dies.
func (s *server) asServer(cmd *exec.Cmd, orphaned syscall.Signal) *exec.Cmd {
	cmd.Dir, cmd.SysProcAttr = s.data(), spawn.ServerAttributes(s.as, orphaned)
	return cmd
}

// launch starts the postmaster, and waits until it answers.
func (s *server) launch(ctx context.Context) error {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	args := []string{"-D", s.data(), "-h", "127.0.0.1", "-p", port}
	for _, set := range []string{"unix_socket_directories=", "fsync=off", "shared_buffers=16MB", "autovacuum=off", "wal_level=minimal", "max_wal_senders=0",
		"dynamic_shared_memory_type=mmap"} {
		args = append(args, "-c", set)
	}
	if err := s.Run(s.asServer(exec.Command(s.How.Binary, args...), syscall.SIGQUIT)); err != nil { // leaves no shared memory, as SIGKILL does
		return err
	}
	return s.Await(ctx, readyWithin, againEvery, s.Kind+" answers", func(ctx context.Context) error {
		life, err := s.client.Life(ctx)
		if err == nil && life.Folder != s.data() {
			err = fmt.Errorf("another server answers there, whose data are in %s", life.Folder)
		}
		if err == nil {
			err = s.client.Role(ctx, role)
		}
		if err == nil {
			s.life = life
		}
		return err
	})
}

// kill ends the server with all of its processes, as the death of its machine does.
func (s *server) kill(ctx context.Context) error {
	if s.Cmd == nil {
		return nil
	}
	memory := stores.SharedMemory(s.data())
	if err := s.Spawned.Kill(ctx); err != nil {
		return err
	}
	if s.Self.Started != "" { // its forks lead groups of their own
		if err := s.Self.End(ctx); err != nil {
			return fmt.Errorf("kill %s %d: %w", s.Kind, s.Self.PID, err)
		}
	}
	spawn.RemoveMemory(memory)
	return nil
}

// end kills the server and removes its folder.
func (s *server) end(ctx context.Context) error {
	if err := s.kill(ctx); err != nil {
		return err
	}
	if s.client != nil {
		_ = s.client.Close() // its server is dead
	}
	return s.Spawned.End(ctx)
}
