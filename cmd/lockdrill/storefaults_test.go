package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/redis/go-redis/v9"
)

const killFault = `  - id: kill
    at: 0s
    repeat: {count: 2, every: settled}
    kill: {holder_of: loop, phase: after_renew}
`

// struck is the good drill with another fault, through the binary: what the history says of it.
type struck struct {
	drillOut
	events []history.Event
}

func strike(t *testing.T, fault string, args ...string) struck {
	t.Helper()
	return readStruck(t, runDrill(t, edit(t, patient(t, goodDrill), killFault, "  - {id: f, at: 100ms, "+fault+"}\n", goodSLO, shortSLO), nil, args...))
}

// patient gives the loop of the good drill times that a busy machine keeps, also where each call that meets its timeout costs a connection.
func patient(t *testing.T, yaml string) string {
	t.Helper()
	return edit(t, yaml, "ttl: 400ms", "ttl: 1s", "op_timeout: 50ms", "op_timeout: 300ms", "try, timeout: 50ms", "try, timeout: 300ms")
}

func readStruck(t *testing.T, o drillOut) struck {
	t.Helper()
	h, err := readHistory(o.dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, o.text)
	}
	if o.code == verdict.ExitDirty || o.code == verdict.ExitError || o.code == verdict.ExitAborted {
		t.Errorf("exit %d\n%s", o.code, o.text)
	}
	return struck{o, h.Events}
}

// one returns the only event of that kind.
func (s struck) one(t *testing.T, kind history.Kind) history.Event {
	t.Helper()
	var found []history.Event
	for _, e := range s.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d %s events, want one: %+v\n%s", len(found), kind, found, s.text)
	}
	return found[0]
}

// over returns the end of the fault that was confirmed; one that was void before it, and made again, has an end of its own.
func (s struck) over(t *testing.T, kind history.Kind) history.Event {
	t.Helper()
	op := s.one(t, history.FaultConfirmed).Op
	for _, e := range s.events {
		if e.Kind == kind && e.Op == op {
			return e
		}
	}
	t.Fatalf("%s has no %s\n%s", op, kind, s.text)
	return history.Event{}
}

// count is how many events of that kind there are.
func (s struck) count(kind history.Kind) (n int) {
	for _, e := range s.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// lives lists why the locks' store began each of its lives.
func (s struck) lives() string {
	var why []string
	for _, e := range s.events {
		if e.Kind == history.StoreIncarnation && e.Incarnation.Store == "locks" {
			why = append(why, e.Incarnation.Why)
		}
	}
	return strings.Join(why, " ")
}

// after reports whether something was accepted by the ledger that was not there at that instant.
func (s struck) after(at int64) bool {
	for _, e := range s.events {
		if e.Kind == history.LedgerEntry && e.Entry.Accepted && e.From > at {
			return true
		}
	}
	return false
}

// The variable that an experiment names for the password of somebody's Redis, and its value. Each command that a test starts has it.
const (
	passwordEnv       = "LOCKDRILL_TEST_PASSWORD"
	somebodysPassword = "hush-hush"
)

// somebodys is a Redis that somebody else has started, with a password and something of their own in it.
func somebodys(t *testing.T) (url string, c *redis.Client) {
	t.Helper()
	redistest.Need(t)
	addr := redistest.Start(t)
	if got := asked(t, addr, "CONFIG SET requirepass "+somebodysPassword); got != "+OK" {
		t.Fatal(got)
	}
	c = redis.NewClient(&redis.Options{Addr: addr, Password: somebodysPassword, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	for key, value := range map[string]string{"theirs": "1", "lockdrill:environment": "staging"} {
		if err := c.Set(t.Context(), key, value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return "redis://" + addr, c
}

func TestLiveADrillAtSomebodysRedisLeavesNothingAndTellsNoPassword(t *testing.T) {
	needDrill(t)
	t.Parallel()
	url, c := somebodys(t)
	section := fmt.Sprintf("redis: {mode: external, url: %q, password_env: LOCKDRILL_TEST_PASSWORD, allow: [flush, delete_key, pause]}", url)
	drill := func(fault string) string {
		return edit(t, patient(t, goodDrill), "redis: {mode: spawn}", section, "environment: local", "environment: staging", killFault, fault)
	}
	s := readStruck(t, runDrill(t, edit(t, drill(killFault), goodSLO, shortSLO), nil, "--confirm", "good"))
	if s.code != verdict.ExitPass {
		t.Errorf("exit %d\n%s", s.code, s.text)
	}
	said := s.text
	s = readStruck(t, runDrill(t, edit(t, drill("  - {id: flush, at: 100ms, store: {do: flush}}\n  - {id: gone, at: 1s, delete_key: {holder_of: loop}}\n"+
		"  - {id: still, at: 2s, for: 500ms, store: {do: pause}}\nallow_overlap: [[flush, gone], [gone, still], [flush, still]]\n"), goodSLO, shortSLO), nil, "--confirm", "good"))
	if n := s.count(history.FaultConfirmed); n != 3 {
		t.Errorf("%d faults were confirmed, want 3\n%s", n, s.text)
	}
	if keys, err := c.Keys(t.Context(), "*").Result(); err != nil || len(keys) != 2 {
		t.Errorf("left: %v (%v); want just what was theirs", keys, err)
	}
	if strings.Contains(said+s.text, somebodysPassword) {
		t.Errorf("the password is shown:\n%s", s.text)
	}
	_ = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if data, _ := os.ReadFile(path); strings.Contains(string(data), somebodysPassword) {
			t.Errorf("the password is in %s", path)
		}
		return err
	})
}

func TestADrillOverTLS(t *testing.T) {
	needDrill(t)
	t.Parallel()
	addr, ca, plain := redistest.StartTLS(t)
	yaml := edit(t, patient(t, goodDrill), "redis: {mode: spawn}", fmt.Sprintf("redis: {mode: external, url: %q, ca: %q}", "rediss://"+addr, ca), "environment: local", "environment: staging", goodSLO, shortSLO,
		jobLock, "", jobWork, "") // each of their calls that is late costs a handshake, and those keep the server from all else
	s := readStruck(t, runDrill(t, yaml, nil, "--confirm", "good", "--environment", "staging"))
	if s.code != verdict.ExitPass {
		t.Errorf("exit %d\n%s", s.code, s.text)
	}
	if n := asked(t, plain, "DBSIZE"); n != ":0" {
		t.Errorf("left: %s keys", n)
	}
}
