package testbed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/internal/postgres"
)

const (
	postgresReady = time.Minute  // to make a database, or until a server answers: a second, and much more on a busy machine
	postgresAdmin = "lockdrill"  // the run's own role, which may do anything there
	postgresUser  = "drill"      // the replicas' role, which may take locks, and make tables in its schema
	postgresForks = "postgres: " // how the server's processes call themselves
	postgresAgain = 20 * time.Millisecond

	databaseFolder = "data" // below the server's own
)

// postgresServer is a PostgreSQL of this run: a folder, a port, and one postmaster after the other.
//
// Whoever is on this host can log in as postgresUser, who can do as little as whoever reaches a spawned Redis. The other role has a
// password that only this process knows: its owner could run programs as the user whom the server runs as.
type postgresServer struct {
	spawned
	initdb string
	client *postgres.Client // as postgresAdmin
	as     *syscall.Credential
	life   postgres.Life
}

// spawnPostgres starts a server that answers; on an error nothing is left of it.
func spawnPostgres(ctx context.Context, how *spawning, name string) (*postgresServer, error) {
	initdb, err := postgresProgram()
	if err != nil {
		return nil, err
	}
	own := *how
	how = &own
	how.binary = filepath.Join(filepath.Dir(initdb), "postgres")
	as, err := unprivileged("postgres")
	if err != nil {
		return nil, err
	}
	if as != nil && !passable(how.dir) {
		how.dir = os.TempDir()
	}
	var errs []error
	for range spawnTries {
		port, err := freePort()
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		s := &postgresServer{spawned: spawned{how: how, name: name, kind: "postgres", forks: postgresForks, addr: net.JoinHostPort("127.0.0.1", port)}, initdb: initdb, as: as}
		if err := s.makeFolder(); err != nil {
			return nil, fmt.Errorf("make folder of %s: %w", s.kind, err)
		}
		if err = s.make(ctx); err == nil {
			err = s.launch(ctx)
		}
		if err == nil {
			return s, nil
		}
		errs = append(errs, abandon(ctx, err, s.end))
		if ctx.Err() != nil || !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// postgresProgram is the newest initdb here; its server lies beside it.
func postgresProgram() (string, error) {
	there, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if slices.SortFunc(there, func(a, b string) int { return versionOf(b) - versionOf(a) }); len(there) > 0 {
		return there[0], nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("a PostgreSQL of the run's own %w: initdb is neither on the PATH nor below /usr/lib/postgresql (Debian: apt-get install postgresql)", ErrSettings)
	}
	return filepath.EvalSymlinks(path)
}

func versionOf(program string) int {
	return number(filepath.Base(filepath.Dir(filepath.Dir(program))))
}

// unprivileged is whom a server runs as that refuses to be root's; nil = whoever runs this.
func unprivileged(name string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("find a user for the server, which refuses to be root's: %w", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
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

func (s *postgresServer) data() string { return filepath.Join(s.dir, databaseFolder) }

// make makes the database in its folder.
func (s *postgresServer) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, postgresReady)
	defer cancel()
	password := rand.Text()
	secret := filepath.Join(s.dir, "password")
	if err := errors.Join(os.WriteFile(secret, []byte(password+"\n"), 0o600), os.Mkdir(s.data(), 0o700)); err != nil {
		return err
	}
	defer os.Remove(secret)
	if s.as != nil {
		uid, gid := int(s.as.Uid), int(s.as.Gid)
		if err := errors.Join(os.Chmod(s.dir, 0o711), os.Chown(s.data(), uid, gid), os.Chown(secret, uid, gid)); err != nil {
			return err
		}
	}
	cmd := exec.Command(s.initdb, "-D", s.data(), "-U", postgresAdmin, "--pwfile", secret, "-A", "scram-sha-256", "-N", "--no-locale", "-E", "UTF8", "--no-instructions")
	if err := s.run(s.asServer(cmd, syscall.SIGKILL)); err != nil {
		return err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return fmt.Errorf("wait until initdb has made a database: %w", errors.Join(ctx.Err(), s.kill(context.WithoutCancel(ctx))))
	}
	if !s.cmd.ProcessState.Success() {
		return fmt.Errorf("initdb failed (%s): %s", s.cmd.ProcessState, &s.log)
	}
	rules := fmt.Sprintf("host all %s 127.0.0.1/32 trust\nhost all %s 127.0.0.1/32 scram-sha-256\n", postgresUser, postgresAdmin)
	if err := os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(rules), 0o600); err != nil { // the file stays its owner's
		return err
	}
	dsn := url.URL{Scheme: "postgres", User: url.UserPassword(postgresAdmin, password), Host: s.addr, Path: "/postgres", RawQuery: "sslmode=disable"}
	var err error
	s.client, err = postgres.Dial(dsn.String(), "lockdrill")
	return err
}

// asServer lets a command run as the server's user, in its folder. The signal comes when the runner dies.
func (s *postgresServer) asServer(cmd *exec.Cmd, orphaned syscall.Signal) *exec.Cmd {
	cmd.Dir, cmd.SysProcAttr = s.data(), serverAttributes(s.as, orphaned)
	return cmd
}

// launch starts the postmaster, and waits until it answers.
func (s *postgresServer) launch(ctx context.Context) error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	args := []string{"-D", s.data(), "-h", "127.0.0.1", "-p", port}
	for _, set := range []string{"unix_socket_directories=", "fsync=off", "shared_buffers=16MB", "autovacuum=off", "wal_level=minimal", "max_wal_senders=0",
		"dynamic_shared_memory_type=mmap"} {
		args = append(args, "-c", set)
	}
	if err := s.run(s.asServer(exec.Command(s.how.binary, args...), syscall.SIGQUIT)); err != nil { // leaves no shared memory, as SIGKILL does
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, postgresReady)
	defer cancel()
	poll := time.NewTicker(postgresAgain)
	defer poll.Stop()
	for {
		life, err := s.client.Life(ctx)
		if err == nil && life.Folder != s.data() {
			err = fmt.Errorf("another server answers there, whose data are in %s", life.Folder)
		}
		if err == nil {
			err = s.client.Role(ctx, postgresUser)
		}
		if err == nil {
			s.life = life
			return nil
		}
		select {
		case <-poll.C:
		case <-s.done:
			return fmt.Errorf("start %s: %w (%s): %s", s.kind, errEnded, s.cmd.ProcessState, &s.log)
		case <-ctx.Done():
			return fmt.Errorf("wait until %s answers: %w", s.kind, errors.Join(ctx.Err(), err))
		}
	}
}

// kill ends the server with all of its processes, as the death of its machine does.
func (s *postgresServer) kill(ctx context.Context) error {
	if s.cmd == nil {
		return nil
	}
	memory := sharedMemory(s.data())
	if err := s.spawned.kill(ctx); err != nil {
		return err
	}
	if s.self.Started != "" { // its forks lead groups of their own
		if err := s.self.End(ctx); err != nil {
			return fmt.Errorf("kill %s %d: %w", s.kind, s.self.PID, err)
		}
	}
	removeMemory(memory)
	return nil
}

// start starts a killed server again at its address. One that runs goes on. Its locks were those of sessions, so none is left, with its
// data or without.
func (s *postgresServer) start(ctx context.Context) error {
	if s.runs() {
		return nil
	}
	return s.launch(ctx)
}

// end kills the server and removes its folder.
func (s *postgresServer) end(ctx context.Context) error {
	if err := s.kill(ctx); err != nil {
		return err
	}
	if s.client != nil {
		_ = s.client.Close() // its server is dead
	}
	if s.dir == "" {
		return nil
	}
	if err := undo.EndCgroup(ctx, s.cgroup); err != nil {
		return err
	}
	if err := removeAll(s.dir); err != nil {
		return err
	}
	return s.how.journal.Mark(s.record, undo.Undone, "")
}

// sharedMemory is the number of the segment that a server says it has; 0 = none.
func sharedMemory(data string) int {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < 7 {
		return 0
	}
	fields := strings.Fields(lines[6]) // key, number
	if len(fields) != 2 {
		return 0
	}
	return number(fields[1])
}
