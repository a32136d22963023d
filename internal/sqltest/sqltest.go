// Package sqltest starts real database servers for tests, on free loopback ports and in folders of their own: PostgreSQL and MariaDB as
// Debian packages them.
package sqltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/servertest"
	"github.com/lockdrill/lockdrill/internal/spawn"
)

// Postgres starts a server and gives its address as a URL. A missing program skips the test, and fails it where CI=true.
func Postgres(t testing.TB) string {
	t.Helper()
	return postgres(t, func(*syscall.Credential, string, string) []string { return nil })
}

// PostgresTLS starts one that asks its clients for a certificate, and gives its host:port too: ca vouches for it, and cert with key is one
// that it takes.
func PostgresTLS(t testing.TB) (addr, ca, cert, key string) {
	t.Helper()
	a := servertest.NewAuthority(t, t.TempDir())
	cert, key = a.Server(net.IPv4(127, 0, 0, 1))
	at := postgres(t, func(as *syscall.Credential, dir, data string) []string {
		own := map[string]string{"ssl_ca_file": a.CA, "ssl_cert_file": cert, "ssl_key_file": key}
		args := []string{"-c", "ssl=on"}
		for name, path := range own { // it refuses a key that is another's
			text, err := os.ReadFile(path)
			to := filepath.Join(dir, name)
			if err = errors.Join(err, os.WriteFile(to, text, 0o600)); err == nil && as != nil {
				err = os.Chown(to, int(as.Uid), int(as.Gid))
			}
			if err != nil {
				t.Fatal(err)
			}
			args = append(args, "-c", name+"="+to)
		}
		if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte("hostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return args
	})
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host, a.CA, cert, key
}

// postgres starts a server with further arguments, which are made once its data is there.
func postgres(t testing.TB, more func(as *syscall.Credential, dir, data string) []string) string {
	t.Helper()
	initdb := NeedPostgres(t)
	dir, as := folder(t, "postgres")
	data, port := filepath.Join(dir, "data"), freePort(t)
	run(t, as, initdb, "-D", data, "-U", "lockdrill", "-A", "trust", "-N", "--no-locale", "-E", "UTF8")
	start(t, as, func(context.Context) error {
		// It listens before it serves ("the database system is starting up"), and says in this file, as to pg_ctl, when it does.
		said, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
		if err == nil && !bytes.Contains(said, []byte("\nready")) {
			err = errors.New("it is starting up")
		}
		return err
	}, append([]string{filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", port,
		"-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=20"}, more(as, dir, data)...)...)
	return fmt.Sprintf("postgres://lockdrill:hunter2@127.0.0.1:%s/postgres?sslmode=disable", port)
}

// NeedPostgres finds the program that makes a database, beside which the server is. A missing one skips the test, and fails it where CI=true.
func NeedPostgres(t testing.TB) (initdb string) {
	t.Helper()
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(bins)
	return servertest.Program(t, "initdb", "Debian: apt-get install postgresql", bins...)
}

const mariaDB = "Debian: apt-get install mariadb-server"

// MariaDB starts a server and gives its address as the data source name of github.com/go-sql-driver/mysql. A missing program skips the
// test, and fails it where CI=true.
func MariaDB(t testing.TB) string {
	t.Helper()
	server := servertest.Program(t, "mariadbd", mariaDB, "/usr/sbin")
	install := servertest.Program(t, "mariadb-install-db", mariaDB)
	dir, as := folder(t, "mysql")
	data, port := filepath.Join(dir, "data"), freePort(t)
	run(t, as, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M")
	start(t, as, func(context.Context) error {
		// Who connects before it serves is kept waiting.
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	}, server, "--no-defaults", "--datadir="+data, "--bind-address=127.0.0.1", "--port="+port,
		"--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"), "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=8M")
	return fmt.Sprintf("root@tcp(127.0.0.1:%s)/mysql", port)
}

// folder is one for the server, which refuses to be root's: then it is the user's of that name, or nobody's.
func folder(t testing.TB, owner string) (string, *syscall.Credential) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sqltest") // t.TempDir is below a folder that others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as, err := spawn.Unprivileged(owner)
	if err == nil && as != nil {
		err = os.Chown(dir, int(as.Uid), int(as.Gid))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, as
}

func command(ctx context.Context, as *syscall.Credential, words []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.SysProcAttr = "/", spawn.ServerAttributes(as, syscall.SIGKILL)
	return cmd
}

func run(t testing.TB, as *syscall.Credential, words ...string) {
	t.Helper()
	if out, err := command(t.Context(), as, words).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", words[0], err, out)
	}
}

// start starts a server, waits until it is ready, and ends it with the test.
func start(t testing.TB, as *syscall.Credential, ready func(context.Context) error, words ...string) {
	t.Helper()
	cmd := command(context.Background(), as, words)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	p, err := servertest.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Signal(syscall.SIGQUIT)
		if !p.Ends(5 * time.Second) {
			p.Kill()
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.Ready(ctx, 20*time.Millisecond, ready); err != nil {
		p.Kill()
		t.Fatalf("%s is not ready: %v\n%s", words[0], err, tail(said.String()))
	}
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

func freePort(t testing.TB) string {
	t.Helper()
	addr, err := servertest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	return port
}
