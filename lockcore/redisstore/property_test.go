package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the property tests; 0 = a new one")

// dice prints its seed, with which -seed repeats the test.
func dice(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Random calls at random times get the very same answers from the scripts and from the table, fences included: miniredis's clock
// is the test's.
func TestScriptsAreTheTable(t *testing.T) { onBothPaths(t, scriptsAreTheTable) }

func scriptsAreTheTable(t *testing.T, open opener) {
	c, now, advance := startMini(t)
	store, table, rng := open(t, c, ""), lockcore.NewTable(), dice(t)
	for i := range 5000 {
		key, token := fmt.Sprint("key", rng.IntN(3)), fmt.Sprint("token", rng.IntN(4))
		ttl := time.Duration(1+rng.IntN(50)) * time.Millisecond
		var got, want string
		switch op := rng.IntN(5); op {
		case 0, 1:
			g, err := store.Acquire(t.Context(), key, token, ttl)
			w, werr := table.Acquire(now(), key, token, ttl)
			got, want = answer(g.Fence, err), answer(w.Fence, werr)
		case 2:
			got, want = answer(0, store.Renew(t.Context(), key, token, ttl)), answer(0, table.Renew(now(), key, token, ttl))
		case 3:
			got, want = answer(0, store.Release(t.Context(), key, token)), answer(0, table.Release(now(), key, token))
		case 4:
			advance(time.Duration(rng.IntN(20_000)) * time.Microsecond / 1000 * 1000)
		}
		if got != want {
			t.Fatalf("call %d on %s with %s: redis says %s, the table %s", i, key, token, got, want)
		}
	}
}

// The same on a real redis-server, whose clock cannot be moved: leases are long, or made to end by a renewal of 1 ms. Fences are
// compared by their order.
func TestRedisIsTheTable(t *testing.T) { onBothPaths(t, redisIsTheTable) }

func redisIsTheTable(t *testing.T, open opener) {
	c, _ := startRedis(t)
	store, table, rng := open(t, c, ""), lockcore.NewTable(), dice(t)
	now := time.Unix(0, 0)
	type epoch struct {
		key   string
		fence int64 // the table's
	}
	fences := map[epoch]int64{} // the server's
	last := map[string]int64{}
	for i := range 3000 {
		key, token := fmt.Sprint("key", rng.IntN(3)), fmt.Sprint("token", rng.IntN(4))
		var got, want string
		switch op := rng.IntN(8); op {
		case 0, 1, 2:
			g, err := store.Acquire(t.Context(), key, token, time.Hour)
			w, werr := table.Acquire(now, key, token, 1000*time.Hour)
			if err == nil && werr == nil {
				e := epoch{key, w.Fence}
				if known, again := fences[e]; again && known != g.Fence || !again && g.Fence <= last[key] {
					t.Fatalf("call %d on %s: fence %d, the same epoch had %d, the last one %d", i, key, g.Fence, known, last[key])
				}
				fences[e], last[key] = g.Fence, g.Fence
			}
			got, want = answer(0, err), answer(0, werr)
		case 3, 4:
			got, want = answer(0, store.Renew(t.Context(), key, token, time.Hour)), answer(0, table.Renew(now, key, token, 1000*time.Hour))
		case 5, 6:
			got, want = answer(0, store.Release(t.Context(), key, token)), answer(0, table.Release(now, key, token))
		case 7:
			got, want = answer(0, store.Renew(t.Context(), key, token, time.Millisecond)), answer(0, table.Renew(now, key, token, time.Millisecond))
			if want == "ok 0" {
				awaitGone(t, c, key)
			}
			now = now.Add(time.Millisecond)
		}
		if got != want {
			t.Fatalf("call %d on %s with %s: redis says %s, the table %s", i, key, token, got, want)
		}
	}
}

func awaitGone(t *testing.T, c *redis.Client, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for c.Exists(ctx, key).Val() != 0 {
		if ctx.Err() != nil {
			t.Fatalf("%s does not expire", key)
		}
	}
}

// answer is an answer as text, without what differs between clocks that run and clocks that stand.
func answer(fence int64, err error) string {
	var held *lockcore.HeldError
	var lost *lockcore.NotOwnedError
	switch {
	case errors.As(err, &held):
		return fmt.Sprintf("held by %s", held.Holder)
	case errors.As(err, &lost):
		return fmt.Sprintf("not owned: %+v", *lost)
	case err != nil:
		return err.Error()
	}
	return fmt.Sprintf("ok %d", fence)
}

// Random effects get the very same receipts from the script and from the table, on both servers.
func TestEffectScriptIsTheLedgerTable(t *testing.T) {
	servers := map[string]func(*testing.T) *redis.Client{
		"redis":     func(t *testing.T) *redis.Client { c, _ := startRedis(t); return c },
		"miniredis": func(t *testing.T) *redis.Client { c, _, _ := startMini(t); return c },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			ledger, table, rng := redisstore.NewLedger(start(t), "p:"), lockcore.NewLedgerTable(), dice(t)
			for i := range 3000 {
				e := randomEffect(rng)
				got, err := ledger.Write(t.Context(), e)
				want, werr := table.Write(e)
				if err != nil || werr != nil || got != want {
					t.Fatalf("write %d %+v:\nredis says %+v, %v\nthe table  %+v, %v", i, e, got, err, want, werr)
				}
				state, err := ledger.Read(t.Context(), e.Subject)
				if err != nil || state != table.Read(e.Subject) {
					t.Fatalf("read %d: redis says %+v, %v; the table %+v", i, state, err, table.Read(e.Subject))
				}
			}
		})
	}
}

func randomEffect(rng *rand.Rand) lockcore.Effect {
	state := []string{"begin", "tick", "running", "done", "failed with reasons"}[rng.IntN(5)]
	return lockcore.Effect{
		Key: fmt.Sprint("key", rng.IntN(3)), Subject: fmt.Sprint("job", rng.IntN(5)), Loop: rng.IntN(2) == 0,
		State: state, Terminal: state == "done" || len(state) > 8, Epoch: "e", Fence: 1790000000000000 + rng.Int64N(2000),
		Op: fmt.Sprint("op", rng.IntN(2000)), Writer: "r1.1", Unfenced: rng.IntN(8) == 0, Strict: rng.IntN(2) == 0,
	}
}
