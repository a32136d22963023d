package tap

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// Clients of the third version of the protocol are granted, refused and renewed as those of the second, and their operations are known.
func TestAClientOfRESP3(t *testing.T) {
	tap, _, _, r1, r2 := realTap(t)
	open := func(addr string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 3, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		if said, err := c.Do(t.Context(), "HELLO").Result(); err != nil || said.(map[any]any)["proto"] != int64(3) {
			t.Fatalf("%v, %v", said, err)
		}
		return c
	}
	holder, other := open(r1), open(r2)
	acquire := func(c *redis.Client, token string) any {
		return c.SetNX(t.Context(), "lock", token, time.Minute).Val()
	}
	script := func(c *redis.Client, text, token string) any {
		return c.Eval(t.Context(), text, []string{"lock"}, token, 60_000).Val()
	}
	for i, got := range []any{
		acquire(holder, "a") == true, acquire(other, "b") == false,
		script(holder, compareExpire, "a") == int64(1), script(other, compareExpire, "b") == int64(0),
		script(other, compareDelete, "b") == int64(0), script(holder, compareDelete, "a") == int64(1),
	} {
		if got != true {
			t.Errorf("answer %d is not the server's", i)
		}
	}
	stats := tap.Stats()
	for _, name := range []string{"r1", "r2"} {
		if n := stats.Names[name]; n.Acquire != 1 || n.Renew != 1 || n.Release != 1 || n.Untouched != 0 {
			t.Errorf("%s: %+v", name, n)
		}
	}
	if all := tap.Carriers("lock"); len(all) != 2 || all[0].Name != "r1" || all[1].Name != "r2" {
		t.Errorf("carriers %+v", all)
	}
	id := inject(t, tap, Fault{Op: burst.Renew, Mode: burst.Error, Count: 1, Names: []string{"r1"}})
	if err := holder.PExpire(t.Context(), "lock", time.Second).Err(); err == nil || !strings.Contains(err.Error(), "made to fail by "+id) {
		t.Errorf("the fault: %v", err)
	}
}

// What a server of RESP3 says unasked comes between replies, and takes nobody's place.
func TestAPushTakesNoReplysPlace(t *testing.T) {
	tap, _, direct, r1, _ := realTap(t)
	c, d := dial(t, r1), dial(t, direct)
	c.send("HELLO 3", "CLIENT TRACKING ON", "GET lock", "ECHO joined")
	for c.line() != "joined" {
	}
	inject(t, tap, Fault{Op: burst.Release, Mode: burst.Error, Count: 1})
	d.send("SET lock t")
	d.want("+OK")
	c.want(">2", "invalidate", "*1", "lock") // first: the tap answers what comes next by itself, and a push has no time of its own
	c.send("DEL lock", "GET lock", "ECHO x")
	c.want("-ERR made to fail", "t", "x")
}
