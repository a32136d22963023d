package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/testkit/storetest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

func TestStoreOnACluster(t *testing.T) {
	t.Parallel() // it waits, most of the time
	c, _ := startCluster(t)
	onBothPaths(t, func(t *testing.T, open opener) {
		storetest.Store(t,
			func(t *testing.T) lockcore.Store { return open(t, c, t.Name()+":") },
			func(d time.Duration) { <-time.After(d) })
	})
	t.Run("ledger", func(t *testing.T) {
		storetest.Ledger(t, func(t *testing.T) lockcore.Ledger { return redisstore.NewLedger(c, t.Name()+":") })
	})
}

// Renewals of many keys, which are spread over all servers, get each its own answer.
func TestRenewManyOnACluster(t *testing.T) {
	t.Parallel() // it waits, most of the time
	c, _ := startCluster(t)
	s := newBatched(t, c, "p:")
	const n = 200
	renewals := make([]lockcore.Renewal, n)
	servers := map[*redis.Client]bool{}
	for i := range renewals {
		renewals[i] = lockcore.Renewal{Key: fmt.Sprint("key", i), Token: fmt.Sprint("token", i)}
		servers[master(t, c, "p:"+renewals[i].Key)] = true
		if i%10 != 7 {
			if _, err := s.Acquire(t.Context(), renewals[i].Key, renewals[i].Token, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(servers) != 3 {
		t.Fatalf("the keys are on %d servers, want 3", len(servers))
	}
	renewals[9].Token = "another's"
	s.RenewMany(t.Context(), time.Hour, renewals)
	for i, r := range renewals {
		want := lockcore.OK
		switch {
		case i%10 == 7:
			want = lockcore.Absent
		case i == 9:
			want = lockcore.Other
		}
		if got := lockcore.ResultOf(r.Err); got != want {
			t.Errorf("renewal %d: %v is %s, want %s", i, r.Err, got, want)
		}
	}
	if d := c.PTTL(t.Context(), "p:key8").Val(); d < 59*time.Minute {
		t.Errorf("a renewed lease ends in %s, want an hour", d)
	}
}

// A server that hangs holds up its own keys only.
func TestServerThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel() // it waits, most of the time
	c, _ := startCluster(t)
	onBothPaths(t, func(t *testing.T, open opener) {
		s := open(t, c, t.Name())
		hung, well := "{key0}", ""
		for i := 1; well == ""; i++ {
			if key := fmt.Sprintf("{key%d}", i); master(t, c, key) != master(t, c, hung) {
				well = key
			}
		}
		server := master(t, c, hung)
		if err := server.Do(t.Context(), "CLIENT", "PAUSE", time.Hour.Milliseconds(), "WRITE").Err(); err != nil { // scripts are writes
			t.Fatal(err)
		}
		const stuck = 20
		done := make(chan error, stuck)
		for i := range stuck {
			go func() {
				_, err := s.Acquire(t.Context(), fmt.Sprint(hung, i), "one", time.Minute)
				done <- err
			}()
		}
		for i := range 50 {
			token := fmt.Sprint(i)
			if _, err := s.Acquire(t.Context(), well, token, time.Minute); err != nil {
				t.Fatal(err)
			}
			if err := s.Renew(t.Context(), well, token, time.Minute); err != nil {
				t.Fatal(err)
			}
			if err := s.Release(t.Context(), well, token); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case err := <-done:
			t.Errorf("a call to the server that hangs has returned, %v: it proves nothing", err)
			done <- err
		default:
		}
		if err := server.ClientUnpause(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range stuck {
			if err := <-done; err != nil {
				t.Errorf("acquire at a server that has hung: %v", err)
			}
		}
	})
}

// A key that moves to another server is followed: while it moves, and afterwards, where the client still believes the old place.
func TestMovedKeysAreFollowed(t *testing.T) {
	t.Parallel() // it waits, most of the time
	c, addrs := startCluster(t)
	onBothPaths(t, func(t *testing.T, open opener) {
		s, k := open(t, c, ""), strings.ReplaceAll(t.Name(), "/", ":")
		if _, err := s.Acquire(t.Context(), k, "one", time.Minute); err != nil {
			t.Fatal(err)
		}
		from := master(t, c, k)
		to := redisstore.NewClient(addrs[0])
		defer to.Close()
		if from.Options().Addr == addrs[0] {
			to = redisstore.NewClient(addrs[1])
			defer to.Close()
		}
		slot := c.ClusterKeySlot(t.Context(), k).Val()
		id := func(c *redis.Client) string { return c.Do(t.Context(), "CLUSTER", "MYID").Val().(string) }
		do := func(c *redis.Client, args ...any) {
			t.Helper()
			if err := c.Do(t.Context(), args...).Err(); err != nil {
				t.Fatalf("%v: %v", args, err)
			}
		}
		do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
		do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
		host, port, _ := strings.Cut(to.Options().Addr, ":")
		do(from, "MIGRATE", host, port, "", 0, 5000, "KEYS", k)
		if err := s.Renew(t.Context(), k, "one", time.Minute); err != nil {
			t.Errorf("renew of a key that has moved, in a slot that has not: %v", err)
		}
		// Of the keys beside it some are here and some there: the server does nothing, and says so.
		if err := s.Release(t.Context(), k, "another's"); lockcore.ResultOf(err) != lockcore.Failed && lockcore.ResultOf(err) != lockcore.Other {
			t.Errorf("release in between: %v, want surely no effect", err)
		}
		do(from, "MIGRATE", host, port, "", 0, 5000, "KEYS", "{"+k+"}:fence")
		for _, node := range []*redis.Client{to, from} {
			do(node, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
		}
		if err := s.Renew(t.Context(), k, "one", time.Minute); err != nil {
			t.Errorf("renew of a key in a slot that has moved: %v", err)
		}
		if err := s.Release(t.Context(), k, "one"); err != nil {
			t.Errorf("release of a key in a slot that has moved: %v", err)
		}
	})
}

// A key that cannot share a slot with what is kept beside it is refused, with the reason.
func TestKeyThatNoSlotFits(t *testing.T) {
	t.Parallel() // it waits, most of the time
	c, _ := startCluster(t)
	onBothPaths(t, func(t *testing.T, open opener) {
		_, err := open(t, c, "").Acquire(t.Context(), "odd}key", "one", time.Minute)
		if !errors.Is(err, lockcore.ErrNotSent) || !strings.Contains(fmt.Sprint(err), "needs a {tag}") {
			t.Errorf("acquire: %v, want one that was not sent and names the remedy", err)
		}
	})
}

func master(t *testing.T, c *redis.ClusterClient, key string) *redis.Client {
	t.Helper()
	m, err := c.MasterForKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
