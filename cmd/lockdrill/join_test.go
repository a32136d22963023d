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

	"github.com/lockdrill/lockdrill/analysis/verdict"
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
	t    *testing.T
	addr string
	cmd  *exec.Cmd
	log  bytes.Buffer
	hub  *linestream.Hub
	life string

	mu     sync.Mutex
	hellos []linestream.Hello
	events []history.Event
	news   chan struct{}
}

// joinPod starts the binary and waits for its hello.
func joinPod(t *testing.T, env ...string) *joined {
	t.Helper()
	j := &joined{t: t, addr: redistest.Start(t), news: make(chan struct{}, 1)}
	asked(t, j.addr, "CONFIG SET requirepass hunter2")
	o := &redis.Options{Addr: j.addr, Password: "hunter2"}
	j.hub = linestream.Open(linestream.Options{
		Redis: o, Fleet: "f", Clock: monotime.Now,
		OnHello: func(h linestream.Hello) { j.note(func() { j.hellos = append(j.hellos, h) }) },
		OnLine: func(l linestream.Line) {
			var e history.Event
			if err := json.Unmarshal(l.Text, &e); err != nil {
				t.Errorf("line %q: %v", l.Text, err)
			}
			j.note(func() { j.events = append(j.events, e) })
		},
	})
	t.Cleanup(func() { _ = j.hub.Close(context.Background()) })
	j.start(env...)
	j.await("hello", func() bool { return len(j.hellos) == 1 })
	j.life = j.hellos[0].Life
	return j
}

func (j *joined) start(env ...string) {
	j.t.Helper()
	j.cmd = lockdrill("worker", "--join", "redis://"+j.addr, "--fleet", "f", "--password-env", "JOIN_TEST_PASSWORD")
	j.cmd.Env = append([]string{"JOIN_TEST_PASSWORD=hunter2", "LOCKDRILL_POD=worker-0", "LOCKDRILL_POD_UID=u-1"}, env...)
	j.cmd.Stdout, j.cmd.Stderr = &j.log, &j.log
	if err := j.cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	cmd := j.cmd
	j.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
}

func (j *joined) note(f func()) {
	j.mu.Lock()
	f()
	j.mu.Unlock()
	select {
	case j.news <- struct{}{}:
	default:
	}
}

func (j *joined) await(what string, ok func() bool) {
	j.t.Helper()
	limit := time.After(30 * time.Second)
	for {
		j.mu.Lock()
		done := ok()
		j.mu.Unlock()
		if done {
			return
		}
		select {
		case <-j.news:
		case <-limit:
			j.t.Fatalf("no %s; trouble %v, events %v", what, j.hub.Trouble(), j.events)
		}
	}
}

func (j *joined) awaitKind(k history.Kind) {
	j.t.Helper()
	j.await(string(k), func() bool { return j.said(k) })
}

func (j *joined) said(k history.Kind) bool {
	for _, e := range j.events {
		if e.Kind == k {
			return true
		}
	}
	return false
}

func (j *joined) send(c protocol.Command) {
	j.t.Helper()
	c.V = protocol.Version
	text, err := json.Marshal(c)
	if err == nil {
		err = j.hub.Send(j.life, text)
	}
	if err != nil {
		j.t.Fatalf("send %s: %v", c.Cmd, err)
	}
}

// holding makes the replica hold the lock of a job, for long.
func (j *joined) holding() {
	j.t.Helper()
	store := protocol.Endpoint{Addr: j.addr, Prefix: "run:", PasswordEnv: "JOIN_TEST_PASSWORD"}
	j.send(protocol.Command{Cmd: protocol.CmdConfigure, Configure: &protocol.Configure{
		Name: "r1", Incarnation: "r1.1", Seed: 1, Store: store, Ledger: store, Script: redisstore.EffectScript(),
		Locks: []protocol.Lock{{Name: "job", Policy: lockcore.Policy{
			TTL: 30 * time.Second, RenewEvery: time.Second, Class: lockcore.Standard, OpTimeout: 5 * time.Second, Drift: 50 * time.Millisecond, StopBudget: time.Second,
			Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: time.Second, AfterAbandon: lockcore.AfterAbandonSkip},
			Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 5 * time.Second},
		}}},
	}})
	j.awaitKind(history.ReplicaReady)
	j.send(protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: "job", Job: "a", Key: "job:a", Hold: time.Hour}})
	j.awaitKind(history.WorkEnter)
}

// exit waits for the process's end and returns its status.
func (j *joined) exit() int {
	j.t.Helper()
	limit := time.AfterFunc(30*time.Second, func() { _ = j.cmd.Process.Kill() })
	defer limit.Stop()
	_ = j.cmd.Wait()
	return j.cmd.ProcessState.ExitCode()
}

// held says whether the store has a holder of the lock.
func (j *joined) held() bool {
	j.t.Helper()
	return askedAs(j.t, j.addr, "hunter2", "EXISTS run:job:a") == ":1"
}

// checkLog sees that the log has the hello and then every line that was heard, numbered.
func (j *joined) checkLog() {
	j.t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(j.log.String()), "\n")
	if want := fmt.Sprintf(`0 {"v":1,"life":"%s","pod":"worker-0","uid":"u-1"`, j.life); !strings.HasPrefix(lines[0], want) {
		j.t.Errorf("the log begins with %q, want %q", lines[0], want)
	}
	if len(lines) < len(j.events)+1 {
		j.t.Errorf("%d lines in the log, %d events heard", len(lines), len(j.events))
	}
	if strings.Contains(j.log.String(), "hunter2") {
		j.t.Error("the log shows the password")
	}
}

// The container's process says hello, works, and ends in order when the drill is over, or when SIGTERM asks it to; its next life can be
// drilled again.
func TestAWorkerJoinsAFleet(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(j *joined){
		"told":    func(j *joined) { j.send(protocol.Command{Cmd: protocol.CmdStop}) },
		"SIGTERM": func(j *joined) { _ = j.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			j := joinPod(t)
			if h := j.hellos[0]; h.Pod != "worker-0" || h.UID != "u-1" {
				t.Errorf("hello %+v", h)
			}
			j.holding()
			end(j)
			if code := j.exit(); code != verdict.ExitPass || j.held() {
				t.Errorf("status %d, held %t\n%s", code, j.held(), j.log.String())
			}
			j.awaitKind(history.ReleaseReturn) // the hub may read of it after the process's end
			j.checkLog()
			j.start()
			j.await("next hello", func() bool { return len(j.hellos) == 2 })
			if j.hellos[1].Life == j.life {
				t.Error("the next life has the same name")
			}
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
