package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// The same drill, whatever the Redis is that the locks are in, and wherever it is looked at. The report says what looking has cost.
func TestLiveSomebodysRedisIsWatched(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (primary, section string){
		"events": func(t *testing.T) (string, string) {
			addr := redistest.Start(t, "--notify-keyspace-events", "KA")
			return addr, fmt.Sprintf(`url: "redis://%s"`, addr)
		},
		"cluster by TLS": func(t *testing.T) (string, string) {
			addrs, ca, plain := redistest.StartTLSCluster(t)
			return owner(t, plain, "sched:leader"), fmt.Sprintf(`url: "rediss://%s", cluster: true, ca: %s`, addrs[0], ca)
		},
		"sentinel": func(t *testing.T) (string, string) {
			sentinel, primary, replica := redistest.StartSentinel(t, "--notify-keyspace-events", "KA")
			return primary, fmt.Sprintf(`sentinel: {master: %s, urls: ["redis://%s"]}, replica: "redis://%s"`, redistest.SentinelMaster, sentinel, replica)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, section := start(t)
			service := electorsAt(t, primary)
			yaml := fmt.Sprintf(foreignDrill, service.port)
			yaml = edit(t, yaml, `url: "redis://127.0.0.1:`+service.port+`"`, section, "count: 3, every: settled", "count: 1")
			dir := t.TempDir()
			write(t, filepath.Join(dir, "foreign.yaml"), []byte(yaml))
			got := tryIn(t, dir, append([]string{"run", "foreign.yaml", "--out", "run"}, foreignConsent...)...)
			if got.code != verdict.ExitPass {
				t.Errorf("%+v", got)
			}
			if history, err := os.ReadFile(filepath.Join(dir, "run", "history.jsonl")); err != nil || !strings.Contains(string(history), `"observer":{"way":"`) {
				t.Errorf("the history does not say what watching has cost (%v)", err)
			}
			c := redis.NewClient(&redis.Options{Addr: primary})
			defer c.Close()
			if left, err := c.Keys(t.Context(), "*lockdrill:*").Result(); err != nil || len(left) > 0 {
				t.Errorf("keys of the run are left: %v (%v)", left, err)
			}
		})
	}
}

// owner is the server of a cluster that has a key.
func owner(t *testing.T, addrs []string, key string) string {
	t.Helper()
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		err := c.Exists(t.Context(), key).Err()
		_ = c.Close()
		if err == nil {
			_, port, _ := net.SplitHostPort(addr)
			return net.JoinHostPort("127.0.0.1", port)
		}
	}
	t.Fatal("no server of the cluster has the key")
	return ""
}
