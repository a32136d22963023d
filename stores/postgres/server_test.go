//go:build full

package postgres

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/spawn"
	"github.com/lockdrill/lockdrill/internal/sqltest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/stores"
)

// ownPostgres is a PostgreSQL as a run starts it.
func ownPostgres(t *testing.T) (context.Context, *stores.Own, *server) {
	t.Helper()
	sqltest.NeedPostgres(t)
	journal, err := undo.Create(filepath.Join(t.TempDir(), undo.File), undo.Header{Deadline: time.Now().Add(time.Hour)})
	testkit.Must(t, err)
	how := &stores.Own{Spawner: spawn.New(), Journal: journal, Dir: t.TempDir()}
	t.Cleanup(how.Spawner.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	s, err := start(ctx, *how, "locks")
	testkit.Must(t, err)
	return ctx, how, s
}

func TestAPostgresOfTheRunsOwn(t *testing.T) {
	ctx, how, s := ownPostgres(t)
	journal := how.Journal
	ended := false
	t.Cleanup(func() {
		if err := s.end(context.WithoutCancel(ctx)); err != nil || !ended && t.Failed() {
			t.Log("end: ", err)
		}
	})
	drill, err := dialOwn(undo.Store{Addr: s.Addr})
	testkit.Must(t, err)
	defer drill.Close()
	life, err := drill.Life(ctx)
	if err != nil || life.Run != s.life.Run || life.Folder != "" {
		t.Fatalf("a replica sees %+v, %v, and the run %+v", life, err, s.life)
	}
	psql := filepath.Join(filepath.Dir(s.initdb), "psql")
	if out, err := exec.CommandContext(ctx, psql, "postgres://"+role+"@"+s.Addr+"/postgres", "-c", "CREATE TABLE jobs ()").CombinedOutput(); err != nil {
		t.Errorf("a worker may not make its tables: %v: %s", err, out)
	}
	stranger, err := Dial("postgres://"+admin+"@"+s.Addr+"/postgres?sslmode=disable", "stranger")
	testkit.Must(t, err)
	defer stranger.Close()
	if _, err := stranger.Life(ctx); err == nil {
		t.Error("whoever is on this host may do anything there without the password")
	}

	// Frozen, nobody answers, and what holds is every process of it: it is continued by the record alone.
	p := s.Process()
	if p.Forks == "" {
		t.Fatal("its forks cannot be known")
	}
	children, err := exec.Command("pgrep", "-P", strconv.Itoa(p.PID)).Output()
	if err != nil || len(strings.Fields(string(children))) < 3 {
		t.Fatalf("its forks: %s, %v", children, err)
	}
	if _, err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := drill.Life(ctx); err == nil {
		t.Error("a frozen server answers over a connection that stands")
	}
	if _, err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if again, err := drill.Life(ctx); err != nil || again != life {
		t.Errorf("after a freeze: %+v, %v, want %+v", again, err, life)
	}

	testkit.Must(t, s.kill(ctx))
	if _, err := drill.Life(ctx); err == nil {
		t.Error("a killed server answers")
	}
	for pid := range strings.FieldsSeq(string(children)) {
		if title, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && strings.HasPrefix(string(title), forks) {
			t.Errorf("process %s of it is left", pid)
		}
	}
	testkit.Must(t, s.launch(ctx))
	if now, err := drill.Life(ctx); err != nil || now.Run == life.Run || now.Data != life.Data {
		t.Errorf("after a restart: %+v, %v, want another run of the data %s", now, err, life.Data)
	}
	segment := stores.SharedMemory(s.data())
	dir := s.Dir
	testkit.Must(t, s.end(ctx))
	ended = true
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
	if table, err := os.ReadFile("/proc/sysvipc/shm"); err == nil && segment != 0 && strings.Contains(string(table), " "+strconv.Itoa(segment)+" ") {
		t.Errorf("segment %d of shared memory is left:\n%s", segment, table)
	}
	if left := journal.Open(); len(left) > 0 {
		t.Errorf("left in the journal: %v", left)
	}
}

// A server whose runner is gone is ended by its record, also where it stands still.
func TestAFrozenPostgresIsEndedByItsRecord(t *testing.T) {
	ctx, how, s := ownPostgres(t)
	journal := how.Journal
	t.Cleanup(func() { _ = s.client.Close() })
	if _, err := s.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	segment := stores.SharedMemory(s.data())
	for _, e := range journal.Open() {
		if err := stores.EndStand(ctx, e.Record); err != nil {
			t.Error(err)
		}
	}
	if table, err := os.ReadFile("/proc/sysvipc/shm"); err == nil && segment != 0 && strings.Contains(string(table), " "+strconv.Itoa(segment)+" ") {
		t.Errorf("segment %d of shared memory is left:\n%s", segment, table)
	}
	if none, err := s.Process().Signal(0); !none || err != nil {
		t.Errorf("something of it is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "data")); err == nil {
		t.Error("its folder is left")
	}
}
