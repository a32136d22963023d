package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/poll"
)

// Again starts a redis-server at an address that a server had which is gone.
func Again(t testing.TB, addr string, args ...string) {
	t.Helper()
	startOn(t, func() (int, error) {
		at, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			return 0, err
		}
		return at.Port, nil
	}, args...)
}

// StartReplica starts a redis-server that follows the one at primary, and returns its address when it does.
func StartReplica(t testing.TB, primary string, args ...string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary)
	p := node(primary)
	defer p.Close()
	if err := p.ConfigSet(context.Background(), "repl-diskless-sync-delay", "0").Err(); err != nil { // else the first replica waits for others
		t.Fatal(err)
	}
	addr := Start(t, append([]string{"--replicaof", host, port}, args...)...)
	c := node(addr)
	defer c.Close()
	await(t, "the replica follows", func(ctx context.Context) bool {
		info, err := c.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	return addr
}

// SentinelMaster is what Sentinels of StartSentinel call the primary.
const SentinelMaster = "locks"

// StartSentinel starts a primary, a replica of it and one Sentinel, and returns the Sentinel's address when it knows both.
func StartSentinel(t testing.TB, args ...string) (sentinel, primary, replica string) {
	t.Helper()
	return StartSentinelAs(t, "", "", args...)
}

// StartSentinelAs does so with a Sentinel that wants a user and a password of its own; "" = none.
func StartSentinelAs(t testing.TB, user, password string, args ...string) (sentinel, primary, replica string) {
	t.Helper()
	primary = Start(t, args...)
	replica = StartReplica(t, primary, args...)
	host, port, _ := net.SplitHostPort(primary)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 3000\n", SentinelMaster, host, port, SentinelMaster, SentinelMaster)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel = startConfigured(t, freePort, config, "--sentinel")
	c := redis.NewSentinelClient(&redis.Options{Addr: sentinel, MaxRetries: -1, DisableIdentity: true})
	defer c.Close()
	await(t, "the Sentinel knows the replica", func(ctx context.Context) bool {
		replicas, err := c.Replicas(ctx, SentinelMaster).Result()
		return err == nil && len(replicas) == 1 && !strings.Contains(replicas[0]["flags"], "down") && replicas[0]["master-link-status"] == "ok"
	})
	if password == "" {
		return sentinel, primary, replica
	}
	own := node(sentinel)
	defer own.Close()
	for _, rule := range [][]any{{"acl", "setuser", user, "on", ">" + password, "allchannels", "+@all"}, {"acl", "setuser", "default", "off"}} {
		if err := own.Do(context.Background(), rule...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return sentinel, primary, replica
}

func await(t testing.TB, what string, is func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	for range poll.Every(ctx, lookEvery) {
		if is(ctx) {
			return
		}
	}
	t.Fatalf("%s: not within %s", what, startWithin)
}
