package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/linestream"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// joined is the binary as it runs in a pod, and a hub that leads it.
type joined struct {
	addr string
	cmd  *exec.Cmd
	log  bytes.Buffer
	hub  *linestream.Hub

	mu     sync.Mutex
	hellos []linestream.Hello
	events map[history.Kind]int
}

// joinPod starts the binary and waits for its hello.
func joinPod(t *testing.T) *joined {
	t.Helper()
	j := &joined{addr: redistest.Start(t), events: map[history.Kind]int{}}
	asked(t, j.addr, "CONFIG SET requirepass hunter2")
	j.hub = linestream.Open(linestream.Options{
		Redis: &redis.Options{Addr: j.addr, Password: "hunter2"}, Fleet: "f", Clock: monotime.Now,
		OnHello: func(h linestream.Hello) { j.mu.Lock(); defer j.mu.Unlock(); j.hellos = append(j.hellos, h) },
		OnLine: func(l linestream.Line) {
			var e history.Event
			if err := json.Unmarshal(l.Text, &e); err != nil {
				t.Errorf("line %q: %v", l.Text, err)
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			j.events[e.Kind]++
		},
	})
	t.Cleanup(func() { _ = j.hub.Close(context.Background()) })
	j.start(t)
	j.await(t, "hello", func() bool { return len(j.hellos) == 1 })
	return j
}

func (j *joined) start(t *testing.T) {
	t.Helper()
	cmd := lockdrill("worker", "--join", "redis://"+j.addr, "--fleet", "f", "--password-env", "JOIN_TEST_PASSWORD")
	cmd.Env = []string{"JOIN_TEST_PASSWORD=hunter2", "LOCKDRILL_POD=worker-0", "LOCKDRILL_POD_UID=u-1"}
	cmd.Stdout, cmd.Stderr = &j.log, &j.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	j.cmd = cmd
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

func (j *joined) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	until(t, what, func() bool { j.mu.Lock(); defer j.mu.Unlock(); return ok() })
}

func (j *joined) send(t *testing.T, c protocol.Command, answer history.Kind) {
	t.Helper()
	c.V = protocol.Version
	text, err := json.Marshal(c)
	if err == nil {
		err = j.hub.Send(j.hellos[0].Life, text)
	}
	if err != nil {
		t.Fatalf("send %s: %v", c.Cmd, err)
	}
	j.await(t, string(answer), func() bool { return j.events[answer] > 0 })
}

// The container's process says hello, works, and ends in order when the drill is over, or when SIGTERM asks it to; its next life can be
// drilled again. Its log has the hello and every line, and no password.
func TestAWorkerJoinsAFleet(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"told", "SIGTERM"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			j := joinPod(t)
			store := protocol.Endpoint{Addr: j.addr, Prefix: "run:", PasswordEnv: "JOIN_TEST_PASSWORD"}
			j.send(t, protocol.Command{Cmd: protocol.CmdConfigure, Configure: &protocol.Configure{
				Name: "r1", Incarnation: "r1.1", Seed: 1, Store: store, Ledger: store, Script: redisstore.EffectScript(),
				Locks: []protocol.Lock{{Name: "job", Policy: lockcore.Policy{
					TTL: 30 * time.Second, RenewEvery: time.Second, Class: lockcore.Standard, OpTimeout: 5 * time.Second, Drift: 50 * time.Millisecond, StopBudget: time.Second,
					Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: time.Second, AfterAbandon: lockcore.AfterAbandonSkip},
					Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 5 * time.Second},
				}}},
			}}, history.ReplicaReady)
			j.send(t, protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: "job", Job: "a", Key: "job:a", Hold: time.Hour}}, history.WorkEnter)
			if end == "told" {
				j.send(t, protocol.Command{Cmd: protocol.CmdStop}, history.ReleaseReturn)
			} else if err := j.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := j.cmd.Wait(); err != nil || askedAs(t, j.addr, "hunter2", "EXISTS run:job:a") != ":0" {
				t.Errorf("%v, or the lock is held\n%s", err, j.log.String())
			}
			j.await(t, "the release", func() bool { return j.events[history.ReleaseReturn] > 0 })
			said, heard := j.log.String(), 0
			for _, n := range j.events {
				heard += n
			}
			if want := fmt.Sprintf(`0 {"v":1,"life":"%s","pod":"worker-0","uid":"u-1"`, j.hellos[0].Life); !strings.HasPrefix(said, want) || strings.Count(said, "\n") < heard+1 || strings.Contains(said, "hunter2") {
				t.Errorf("%d events were heard, and the log is\n%s", heard, said)
			}
			j.start(t)
			j.await(t, "next hello", func() bool { return len(j.hellos) == 2 && j.hellos[1].Life != j.hellos[0].Life })
		})
	}
}

func TestJoinRefusesWhatCannotBeUsed(t *testing.T) {
	t.Parallel()
	misused(t, t.TempDir(), "worker --join", map[string]string{
		"redis://h:1":                    "go together",
		"h:1 --fleet f":                  "want redis://",
		"redis://:hunter2@h:1 --fleet f": "takes no user",
		"redis://h:1/x --fleet f":        "is no number",
		"redis://h:1 --fleet f --password-env JOIN_TEST_UNSET": "JOIN_TEST_UNSET",
		"redis://h:1 --fleet a:b":                              `fleet "a:b": want a n`,
	})
}
