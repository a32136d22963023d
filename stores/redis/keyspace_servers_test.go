package redis

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A Redis that goes and comes back without its data: looks fail while it is away, and then tell what is left.
func TestAServerThatVanishesAndReturns(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, way string) {
		addr := c.Options().Addr
		w := newKeyspace(t, KeyspaceOptions{Client: probing(addr)})
		set(t, c, "job:a", "one", time.Minute)
		w.step(false)
		c.ShutdownNoSave(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for err := error(nil); err == nil; _, err = w.Look(ctx, false) {
			if ctx.Err() != nil {
				t.Fatal("looks go on without a server")
			}
		}
		flags := map[string]string{history.ByEvents: "KA", history.ByPolling: ""}[way]
		redistest.Again(t, addr, "--notify-keyspace-events", flags)
		w.until("the loss of what was there", isGone("job:a"))
		set(t, c, "job:b", "two", time.Minute)
		w.until("a key of the new life", isKey("job:b", "two"))
		if w.way() != way {
			t.Errorf("looks by %s after the return, want %s", w.way(), way)
		}
	})
}

func TestKeysOfACluster(t *testing.T) {
	addrs := redistest.StartCluster(t)
	nodes := map[string]*redis.Client{}
	for _, addr := range addrs {
		nodes[addr] = redistest.Dial(t, addr)
		nodes[addr].ConfigSet(t.Context(), "notify-keyspace-events", "KA")
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs[:1], DisableIdentity: true})
	defer cluster.Close()
	w := newKeyspace(t, KeyspaceOptions{
		Client: redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs[:1], DisableIdentity: true}), Exact: map[string]string{"leader": "leader"},
	})
	w.step(false)
	if w.way() != history.ByEvents || len(w.nodes) != 3 {
		t.Fatalf("%d servers by %s, want 3 by events", len(w.nodes), w.way())
	}
	put := func(key, token string, ttl time.Duration) {
		t.Helper()
		testkit.Must(t, cluster.Set(t.Context(), key, token, ttl).Err())
	}
	on := map[*node]bool{}
	for i := range 12 {
		key := fmt.Sprint("job:", i)
		put(key, fmt.Sprint("t", i), time.Minute)
		w.until(key, isKey(key, fmt.Sprint("t", i)))
		on[w.keys[key].node] = true
	}
	put("leader", "me", time.Minute)
	w.until("a key by its name", isKey("leader", "me"))
	if _, _, held, err := w.Now(t.Context(), "leader", "leader"); !held || err != nil || len(on) != 3 {
		t.Errorf("Now = %v, %v; keys were seen on %d servers, want 3", held, err, len(on))
	}
	put("job:{tag}:1", "tagged", time.Minute)
	w.until("a key with a hash tag", isKey("job:{tag}:1", "tagged"))
	for i := range 12 {
		testkit.Must(t, cluster.PExpire(t.Context(), fmt.Sprint("job:", i), time.Millisecond).Err())
	}
	for i := range 12 {
		if key := fmt.Sprint("job:", i); !anyOf(w.events, isGone(key)) {
			w.until(key+" is over", isGone(key))
		}
	}
	// A slot that moves: what happened to its keys since the layout was asked for is not known.
	slot := slotOf("job:moved")
	if at, err := nodes[addrs[0]].ClusterKeySlot(t.Context(), "job:moved").Result(); int(at) != slot || err != nil {
		t.Fatalf("slot %d, the server says %d (%v)", slot, at, err)
	}
	to := addrs[(slot*3/16384+1)%3]
	id, err := nodes[to].Do(t.Context(), "CLUSTER", "MYID").Text()
	testkit.Must(t, err)
	for _, addr := range append([]string{to}, addrs...) {
		testkit.Must(t, nodes[addr].Do(t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", id).Err())
	}
	w.until("a gap", isGap)
	testkit.Must(t, nodes[to].Set(t.Context(), "job:moved", "there", time.Minute).Err())
	w.until("a key where its slot is now", isKey("job:moved", "there"))
}

// A promoted replica that does not tell of changes is not believed to; what happened while nobody looked is a stretch without looks.
func TestSentinelFailsOver(t *testing.T) {
	sentinel, primary, replica := redistest.StartSentinel(t, "--notify-keyspace-events", "KA")
	redistest.Dial(t, replica).ConfigSet(t.Context(), "notify-keyspace-events", "")
	w := newKeyspace(t, KeyspaceOptions{Client: redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.SentinelMaster, SentinelAddrs: []string{sentinel}, DisableIdentity: true, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: 2 * time.Second, ContextTimeoutEnabled: true,
	})})
	set(t, redistest.Dial(t, primary), "job:a", "one", time.Minute)
	w.step(false)
	if w.way() != history.ByEvents {
		t.Fatal("the primary's events are not taken")
	}
	_ = redistest.Dial(t, primary).ShutdownNoSave(t.Context()).Err()
	c := redistest.Dial(t, replica)
	for end := time.Now().Add(15 * time.Second); c.Set(t.Context(), "job:b", "two", time.Minute).Err() != nil; {
		if time.Now().After(end) {
			t.Fatal("the Sentinel has promoted nobody")
		}
	}
	w.until("a key at the new primary", isKey("job:b", "two"))
	if w.way() != history.ByPolling {
		t.Error("the new primary tells of nothing, and is believed")
	}
	c.Del(t.Context(), "job:a")
	w.until("a release there", isGone("job:a"))
}

// Another server that answers from one look to the next, with an older state, leaves no stretch without looks but that since the last canary:
// until then the one before it had told of all changes.
func TestAServerThatRollsBackIsNoGapOfItsKeys(t *testing.T) {
	former, next := redistest.Dial(t, redistest.Start(t, "--notify-keyspace-events", "KA")), redistest.Dial(t, redistest.Start(t, "--notify-keyspace-events", "KA"))
	var at atomic.Pointer[string]
	at.Store(&former.Options().Addr)
	client := probing(former.Options().Addr)
	client.Options().Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *at.Load())
	}
	w := newKeyspace(t, KeyspaceOptions{Client: client})
	for _, c := range []*redis.Client{former, next} {
		set(t, c, "job:a", "one", time.Minute)
	}
	w.step(false)
	former.Del(t.Context(), "job:a")
	gone := w.until("a release", isGone("job:a"))
	for end := time.Now().Add(time.Minute); w.nodes[0].believed <= gone.To; w.step(false) {
		if time.Now().After(end) {
			t.Fatal("no canary is told of")
		}
	}
	at.Store(&next.Options().Addr)
	testkit.Must(t, former.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no").Err())
	gap := w.until("a gap", func(e history.Event) bool { return isGap(e) && strings.Contains(e.Coverage.Why, "job:a") })
	if gap.From <= gone.To {
		t.Errorf("gap %v, although the release at %v was told of, and canaries after it", gap.Span, gone.Span)
	}
}

// What a replica shows is as old as the last canary of its primary that it has.
func TestAReadOnlyReplicaIsLookedAt(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, way string) {
		flags := map[string]string{history.ByEvents: "KA", history.ByPolling: ""}[way]
		replica := redistest.StartReplica(t, c.Options().Addr, "--notify-keyspace-events", flags)
		w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr), Replica: probing(replica), MaxGap: 5 * time.Second})
		w.step(false)
		if w.way() != way {
			t.Fatalf("looks by %s, want %s", w.way(), way)
		}
		before := w.o.Clock()
		set(t, c, "job:a", "one", 400*time.Millisecond)
		after := w.o.Clock()
		e := w.until("a key of the primary's", isKey("job:a", "one"))
		if e.To < before || e.Look.Prev != nil && e.Look.Prev.From > after {
			t.Errorf("bracket %v after %v does not contain %d to %d", e.Span, e.Look.Prev, before, after)
		}
		w.until("its expiry", isGone("job:a"))
		testkit.Must(t, redistest.Dial(t, replica).Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
		w.o.MaxGap = 100 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for err := error(nil); err == nil; _, err = w.Look(ctx, false) {
			if ctx.Err() != nil {
				t.Fatal("a replica that does not follow is looked at as if it did")
			}
		}
	})
}

// Once a replica has taken the place of a primary that crashed, which here is the server that the file names, looks go there.
func TestAClusterFailsOver(t *testing.T) {
	addrs := redistest.StartCluster(t)
	replica := redistest.Dial(t, redistest.FollowInCluster(t, addrs, addrs[0]))
	w := newKeyspace(t, KeyspaceOptions{Client: endpoint.Clients(&redis.Options{Addr: addrs[0]}, true, looksWithin)})
	primary := redistest.Dial(t, addrs[0])
	key := "job:"
	for i := 0; slotOf(key) > 5460; i++ { // the first server has the slots before
		key = fmt.Sprint("job:", i)
	}
	set(t, primary, key, "one", time.Hour)
	w.until("the key", isKey(key, "one"))
	_ = primary.ShutdownNoSave(t.Context()).Err()
	for end := time.Now().Add(time.Minute); replica.Set(t.Context(), key, "two", time.Hour).Err() != nil; {
		if time.Now().After(end) {
			t.Fatal("the cluster has promoted nobody")
		}
	}
	promoted := time.Now()
	w.until("the key at the new primary", isKey(key, "two"))
	if late := time.Since(promoted); late > 20*time.Second {
		t.Errorf("looks went there after %s", late)
	} else {
		t.Logf("looks went there after %s", late)
	}
	if _, _, held, err := w.Now(t.Context(), "job", key); !held || err != nil {
		t.Errorf("who holds it now: %v, %v", held, err)
	}
}
