package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// together makes n calls at the same time, so that they travel together, and returns their errors.
func together(n int, call func(i int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = call(i) })
	}
	all.Wait()
	return errs
}

// Acquires that travel together get each the lease that it asked for.
func TestNeighboursHaveTheirOwnLease(t *testing.T) {
	c, _ := startRedis(t)
	s := newBatched(t, c, "")
	redisstore.TravelTogether(s)
	ttl := func(i int) time.Duration { return time.Duration(1+i%3) * time.Hour }
	for i, err := range together(200, func(i int) error {
		_, err := s.Acquire(t.Context(), fmt.Sprint("key", i), "token", ttl(i))
		return err
	}) {
		if err != nil {
			t.Fatalf("acquire %d: %v", i, err)
		}
		left, err := c.PTTL(t.Context(), fmt.Sprint("key", i)).Result()
		if err != nil || left > ttl(i) || left < ttl(i)-time.Minute {
			t.Errorf("lock %d: %v left (%v), want %v", i, left, err, ttl(i))
		}
	}
}

// Calls that travel together get each its own answer, also where the scripts are not loaded and where some of them fail.
func TestNeighboursDoNotFail(t *testing.T) {
	c, _ := startRedis(t)
	s := newBatched(t, c, "")
	for i := range 20 {
		if err := c.RPush(t.Context(), fmt.Sprint("key", 10*i), "a list").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	errs := together(200, func(i int) error {
		_, err := s.Acquire(t.Context(), fmt.Sprint("key", i), fmt.Sprint("token", i), time.Minute)
		return err
	})
	for i, err := range errs {
		want := lockcore.OK
		if i%10 == 0 {
			want = lockcore.Unknown
		}
		if got := lockcore.ResultOf(err); got != want {
			t.Errorf("acquire %d: %v is %s, want %s", i, err, got, want)
		}
	}
	errs = together(200, func(i int) error {
		return s.Release(t.Context(), fmt.Sprint("key", i), fmt.Sprint("token", i-i%2)) // the odd ones are another's
	})
	for i, err := range errs {
		want := []lockcore.Result{lockcore.OK, lockcore.Other}[i%2]
		if i%10 == 0 {
			want = lockcore.Unknown
		}
		if got := lockcore.ResultOf(err); got != want {
			t.Errorf("release %d: %v is %s, want %s", i, err, got, want)
		}
	}
}

// A refusal within a batch is a refusal of each call in it.
func TestRefusalsOfManyHadNoEffect(t *testing.T) {
	c, _ := startRedis(t)
	s := newBatched(t, c, "")
	if err := c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for i, err := range together(100, func(i int) error {
		_, err := s.Acquire(t.Context(), fmt.Sprint("key", i), "one", time.Minute)
		return err
	}) {
		if !errors.Is(err, lockcore.ErrNotSent) {
			t.Errorf("acquire %d on a read-only replica: %v, want an error that wraps ErrNotSent", i, err)
		}
	}
}

// While the server does not answer, each call ends with its own context: unknown where it was written, surely not sent where it
// still waited behind those. A renewal waits behind no other call.
func TestEachCallEndsWithItsContext(t *testing.T) {
	for limit := time.Second; !eachCallEnds(t, limit); limit *= 2 {
		if limit > 20*time.Second {
			t.Fatalf("two calls of %s are over before a hundred of 50ms", limit)
		}
	}
}

// eachCallEnds fills the lane for so long; false = it was not filled any more when all was done, and nothing is shown.
func eachCallEnds(t *testing.T, long time.Duration) bool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 16)
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			accepted <- conn
		}
	}()
	c := redisstore.NewClient(l.Addr().String())
	defer c.Close()
	s := newBatched(t, c, "")
	acquire := func(limit time.Duration, i int) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := s.Acquire(ctx, fmt.Sprint("key", i), "one", time.Minute)
		return err
	}
	filled := make(chan error, 2)
	for i := range 2 { // they fill the lane
		go func() { filled <- acquire(long, i) }()
		defer (<-accepted).Close()
	}
	behind := together(50, func(i int) error { return acquire(50*time.Millisecond, 2+i) })
	beside := written(t, func(ctx context.Context) error { return s.Renew(ctx, "key0", "one", time.Minute) })
	if len(filled) > 0 {
		return false
	}
	for i, err := range behind {
		if got := lockcore.ResultOf(err); got != lockcore.Failed {
			t.Errorf("call %d, which was never written: %v is %s, want failed", i, err, got)
		}
	}
	if got := lockcore.ResultOf(beside); got != lockcore.Unknown {
		t.Errorf("renewal behind calls that hang: %v is %s, want unknown: it must have been written", beside, got)
	}
	for range 2 {
		if err := <-filled; lockcore.ResultOf(err) != lockcore.Unknown {
			t.Errorf("a written call without an answer: %v, want unknown", err)
		}
	}
	return true
}

func TestRenewMany(t *testing.T) {
	c, _ := startRedis(t)
	s := newBatched(t, c, "p:")
	const n = 300 // several scripts
	renewals := make([]lockcore.Renewal, n)
	for i := range renewals {
		renewals[i] = lockcore.Renewal{Key: fmt.Sprint("key", i), Token: fmt.Sprint("token", i)}
		if i%100 != 7 {
			if _, err := s.Acquire(t.Context(), renewals[i].Key, renewals[i].Token, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.RPush(t.Context(), "p:key7", "a list").Err(); err != nil {
		t.Fatal(err)
	}
	renewals[9].Token = "another's"
	if err := c.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.RenewMany(t.Context(), time.Hour, renewals)
	for i, r := range renewals {
		want := lockcore.OK
		switch i {
		case 7:
			want = lockcore.Unknown
		case 9:
			want = lockcore.Other
		case 107, 207:
			want = lockcore.Absent
		}
		if got := lockcore.ResultOf(r.Err); got != want {
			t.Errorf("renewal %d: %v is %s, want %s", i, r.Err, got, want)
		}
	}
	if d := c.PTTL(t.Context(), "p:key8").Val(); d < 59*time.Minute {
		t.Errorf("a renewed lease ends in %s, want an hour", d)
	}
	s.RenewMany(t.Context(), 0, renewals) // would delete the keys
	if err := renewals[0].Err; !errors.Is(err, lockcore.ErrNotSent) {
		t.Errorf("renewal below the resolution: %v, want ErrNotSent", err)
	}
}

func TestClosedStoreSendsNothing(t *testing.T) {
	c, _ := startRedis(t)
	s := redisstore.NewBatched(c, "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), "k", "one", time.Minute); !errors.Is(err, lockcore.ErrNotSent) {
		t.Errorf("acquire on a closed store: %v, want ErrNotSent", err)
	}
}

// The waiters of one key get it one after the other, in the order in which they came, told by the store: nobody asks in between.
func TestLineIsFirstComeFirstServed(t *testing.T) {
	servers := map[string]func(*testing.T) redis.UniversalClient{
		"redis":     func(t *testing.T) redis.UniversalClient { c, _ := startRedis(t); return c },
		"miniredis": func(t *testing.T) redis.UniversalClient { c, _, _ := startMini(t); return c },
		"cluster":   func(t *testing.T) redis.UniversalClient { c, _ := startCluster(t); return c },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			stores := []*redisstore.Batched{newBatched(t, c, "p:"), newBatched(t, c, "p:")} // two processes
			if _, err := stores[0].Acquire(t.Context(), "k", "holder", time.Minute); err != nil {
				t.Fatal(err)
			}
			const n = 10
			places := make([]lockcore.Place, n)
			for i := range places {
				places[i] = stores[i%2].Join("k")
				wantResult(t, stand(t, places[i], i), lockcore.Held)
			}
			if err := stores[0].Release(t.Context(), "k", "holder"); err != nil {
				t.Fatal(err)
			}
			late := stores[0].Join("k") // comes while the key is kept for another
			wantResult(t, stand(t, late, n), lockcore.Held)
			for i, p := range append(places, late) {
				awaitTurn(t, p, i)
				taken(t, p, i)
				if err := p.Quit(t.Context()); err != nil {
					t.Error(err)
				}
				if err := stores[i%2].Release(t.Context(), "k", fmt.Sprint("token", i)); err != nil {
					t.Fatal(err)
				}
			}
			if left := c.Exists(t.Context(), "p:k", "{p:k}:turn", "{p:k}:line").Val(); left != 0 {
				t.Errorf("%d keys are left of the line", left)
			}
		})
	}
}

// Who gives up passes the turn on, and who is overtaken by somebody outside the line keeps the front.
func TestTurnsAreNotLost(t *testing.T) {
	c, _ := startRedis(t)
	s := newBatched(t, c, "")
	if _, err := s.Acquire(t.Context(), "k", "holder", time.Minute); err != nil {
		t.Fatal(err)
	}
	places := make([]lockcore.Place, 3)
	for i := range places {
		places[i] = s.Join("k")
		wantResult(t, stand(t, places[i], i), lockcore.Held)
	}
	if err := s.Release(t.Context(), "k", "holder"); err != nil {
		t.Fatal(err)
	}
	awaitTurn(t, places[0], 0)
	if err := places[0].Quit(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitTurn(t, places[1], 1)
	if _, err := s.Acquire(t.Context(), "k", "outsider", time.Minute); err != nil { // goes past the line
		t.Fatal(err)
	}
	wantResult(t, stand(t, places[1], 1), lockcore.Held)
	if err := s.Release(t.Context(), "k", "outsider"); err != nil {
		t.Fatal(err)
	}
	awaitTurn(t, places[1], 1)
	taken(t, places[1], 1)
}

func stand(t *testing.T, p lockcore.Place, i int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := p.Acquire(ctx, fmt.Sprint("token", i), time.Minute)
	return err
}

// taken takes the key in one's turn. A machine that stalls may let it pass: whoever was told and comes too late stands at the front.
func taken(t *testing.T, p lockcore.Place, i int) {
	t.Helper()
	poll, limit := time.NewTicker(20*time.Millisecond), time.After(20*time.Second)
	defer poll.Stop()
	for {
		err := stand(t, p, i)
		if lockcore.ResultOf(err) != lockcore.Held {
			wantResult(t, err, lockcore.OK)
			return
		}
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("waiter %d was told and does not get the key: %v", i, err)
		}
	}
}

func wantResult(t *testing.T, err error, want lockcore.Result) {
	t.Helper()
	if got := lockcore.ResultOf(err); got != want {
		t.Fatalf("%v is %s, want %s", err, got, want)
	}
}

func awaitTurn(t *testing.T, p lockcore.Place, i int) {
	t.Helper()
	select {
	case <-p.Turn():
	case <-time.After(20 * time.Second):
		t.Fatalf("waiter %d is never told", i)
	}
}
