package main

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// heldBySomebody is a redis-server with a lock that somebody renews until the test ends.
func heldBySomebody(t *testing.T) (addr string) {
	t.Helper()
	addr = redistest.Start(t)
	renewedBySomebody(t, redis.NewClient(&redis.Options{Addr: addr}), "sched:leader")
	return addr
}

// renewedBySomebody renews a lock until the test ends.
func renewedBySomebody(t *testing.T, c redis.UniversalClient, key string) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_ = c.Set(ctx, key, "hunter2", 2*time.Second).Err() // a watch that sees nothing fails the test
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = c.Close()
	})
}

func TestWatchEndsWithSumsAndADraft(t *testing.T) {
	t.Parallel()
	addr, dir := heldBySomebody(t), t.TempDir()
	at := []string{"watch", "--redis", "redis://" + addr, "--keys", "sched:*", "--for", "2s"}

	got := tryIn(t, dir, append(at, "--draft", "sched.lockdrill.yaml", "--replicas", "2", "--match", `python3 .*sched\.py`)...)
	if got.code != verdict.ExitPass || strings.Contains(got.stdout+got.stderr, "hunter2") || strings.Contains(got.stdout, "apiVersion") || !strings.Contains(got.stdout, "sched:leader renews every ") {
		t.Errorf("watch: %+v", got)
	}
	e, err := experiments.Load(filepath.Join(dir, "sched.lockdrill.yaml"))
	must(t, err)
	if l := e.System.Locks[0]; e.Name != "sched" || l.Key != "sched:leader" || l.Policy.TTL != 2*time.Second || l.Policy.RenewEvery < 190*time.Millisecond || e.System.Replicas != 2 {
		t.Errorf("the draft has %+v", e)
	}
	isThere(t, filepath.Join(dir, experiments.SchemaFile))
	tryIn(t, dir, "validate", "sched.lockdrill.yaml").ends(t, verdict.ExitPass)
	// It is refused before anything is looked at, not after the time is over.
	tryIn(t, dir, append(at[:5:5], "--for", "1h", "--draft", "sched.lockdrill.yaml")...).ends(t, verdict.ExitUsage, "is there already")

	var doc watchDoc
	got = tryIn(t, dir, append(at, "-f", "json")...)
	decode(t, got.stdout, &doc)
	if len(doc.Rows) != 1 || doc.Rows[0].Name != "sched:leader" || doc.Rows[0].TTL != 2*time.Second || len(doc.Sums) != 1 || !strings.HasPrefix(doc.Draft, experiments.Modeline) || strings.Contains(got.stdout, "hunter2") {
		t.Errorf("document: %+v", doc)
	}
}

// A draft that was asked for and not written is no success, and the way to one is told.
func TestADraftThatCannotBeIsNoSuccess(t *testing.T) {
	t.Parallel()
	addr, dir := redistest.Start(t), t.TempDir()
	asked(t, addr, "SET sched:leader hunter2 EX 3600")
	args := []string{"watch", "--redis", "redis://" + addr, "--keys", "sched:*", "--for", "1s"}
	want := "lockdrill init --redis redis://" + addr + " --lock 'sched:leader' --ttl TTL"
	if got := tryIn(t, dir, append(args, "--draft", "j.yaml")...); got.code != verdict.ExitInconclusive || !strings.Contains(got.stderr, want) {
		t.Errorf("with --draft: %+v, want %q", got, want)
	}
	tryIn(t, dir, args...).ends(t, verdict.ExitPass, want)
	onlyFile(t, dir)
}

// Keys are found on every server of a cluster, by patterns and by names, and by TLS. The draft has what it takes to get there.
func TestWatchSeesAClusterByTLS(t *testing.T) {
	t.Parallel()
	addrs, ca, plain := redistest.StartTLSCluster(t)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: plain})
	renewedBySomebody(t, c, "leader")
	keys := []string{"sched:a:lock", "sched:b:lock", "sched:c:lock", "sched:d:lock", "leader"}
	for _, key := range append(keys[:4:4], "sched:a:data", "follower") {
		must(t, c.Set(t.Context(), key, "hunter2", time.Minute).Err())
	}
	args := []string{"watch", "--redis", "rediss://" + addrs[0], "--keys", "sched:*:loc[jk]", "--keys", "leader", "-f", "json"}
	var doc watchDoc
	got := try(t, append(args, "--for", "4s", "--ca", ca, "--cluster")...)
	got.ends(t, verdict.ExitPass)
	decode(t, got.stdout, &doc)
	var names []string
	for _, r := range doc.Rows {
		names = append(names, r.Name)
	}
	if want := slices.Sorted(slices.Values(keys)); !slices.Equal(names, want) || doc.Failed > 0 || !strings.Contains(doc.Draft, "cluster: true") || !strings.Contains(doc.Draft, "ca: ") {
		t.Errorf("rows %v, want %v: %+v", names, want, doc)
	}
	for flags, want := range map[string]string{"--ca " + ca: "say --cluster", "--cluster": "certificate"} {
		if got := try(t, append(args, strings.Fields("--for 1m "+flags)...)...); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v, want %q", flags, got, want)
		}
	}
}

func TestAWatchThatSeesNothingSaysSo(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	got := try(t, "watch", "--redis", "redis://"+addr, "--keys", "sched:*", "--for", "3s")
	got.ends(t, verdict.ExitInconclusive, "no key that matches sched:* held a text, or a hash as Redisson has it, with an expiry")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	got = try(t, "watch", "--redis", "redis://"+silent.Addr().String(), "--keys", "sched:*", "--for", "300ms")
	if got.code != verdict.ExitInconclusive || !strings.Contains(got.stderr, "the first look was not over") || strings.Contains(got.stderr, "pattern") {
		t.Errorf("a server that does not answer: %+v", got)
	}
	misused(t, t.TempDir(), "watch --keys a --for 5s --redis", map[string]string{"redis://" + overTLS(t): "the address begins with rediss://"})
}

// overTLS ends a connection that does not begin as TLS does.
func overTLS(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}
