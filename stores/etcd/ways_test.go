//go:build full

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/etcdstore"
	"github.com/lockdrill/lockdrill/proxies/tap"
)

// tapRig is a tap before a real etcd, with a client that comes through it and one that does not.
type tapRig struct {
	tap         *tap.Tap
	seen        *hits
	r1, r2, sky *clientv3.Client
}

func newTapRig(t *testing.T) *tapRig {
	t.Helper()
	server := etcdtest.Start(t)
	x := &tapRig{seen: &hits{}}
	x.tap = tap.New(tap.Options{Clock: monotime.Now, Seed: 1, OnHit: x.seen.add})
	t.Cleanup(func() {
		if err := x.tap.Close(); err != nil {
			t.Error(err)
		}
	})
	ways := NewWays(x.tap)
	reach := func(name string) *clientv3.Client {
		addrs, err := ways.Listen(name, []string{server.Addr})
		testkit.Must(t, err)
		return dialEtcd(t, addrs[0])
	}
	x.r1, x.r2, x.sky = reach("r1"), reach("r2"), dialEtcd(t, server.Addr)
	return x
}

func dialEtcd(t *testing.T, addr string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + addr}, Logger: zap.NewNop()})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (x *tapRig) inject(t *testing.T, f tap.Fault) {
	t.Helper()
	if f.For == 0 {
		f.For = within
	}
	if _, err := x.tap.Inject(f); err != nil {
		t.Fatal(err)
	}
}

// ops are what was hit, in order: listener, operation, key.
func (x *tapRig) ops() (all [][3]string) {
	for _, h := range x.seen.list() {
		all = append(all, [3]string{h.Name, h.Op, h.Key})
	}
	return all
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	return ctx
}

func TestEtcdPassesAsItIs(t *testing.T) {
	x := newTapRig(t)
	ctx := patient(t)
	watch := x.r2.Watch(ctx, "a", clientv3.WithPrefix())
	session, err := concurrency.NewSession(x.r1, concurrency.WithTTL(6)) // a keepalive every 2 s
	testkit.Must(t, err)
	big := string(make([]byte, tap.MaxInspect+tap.MaxInspect/4)) // passes without being looked at
	if _, err := x.r1.Put(ctx, "a/big", big); err != nil {
		t.Fatal(err)
	}
	if got, err := x.r2.Get(ctx, "a/big"); err != nil || string(got.Kvs[0].Value) != big {
		t.Fatalf("a big value did not come back whole: %v", err)
	}
	if news := <-watch; len(news.Events) != 1 || string(news.Events[0].Kv.Value) != big {
		t.Fatalf("the watch told %v", news)
	}
	if _, err := x.r1.Put(ctx, "", "no key"); !errors.Is(err, rpctypes.ErrEmptyKey) {
		t.Errorf("the refusal of the server came as %v", err)
	}
	m := concurrency.NewMutex(session, "a/lock")
	testkit.Must(t, m.Lock(ctx))
	eventually(t, "a keepalive of the session to pass", func() bool { return x.tap.Stats().Names["r1"].Renew > 0 })
	testkit.Must(t, m.Unlock(ctx))
	n := x.tap.Stats().Names["r1"]
	if n.Acquire != 1 || n.Release != 1 {
		t.Errorf("seen: %+v", n)
	}
}

// A keepalive of a lease is a renewal while the lease has a lock's key, and of none before and after.
func TestEtcdRenewalsAreThoseOfAHeldLock(t *testing.T) {
	x := newTapRig(t)
	ctx := patient(t)
	lease, err := x.r1.Grant(ctx, 60)
	testkit.Must(t, err)
	keep := func(want int64) {
		t.Helper()
		if _, err := x.r1.KeepAliveOnce(ctx, lease.ID); err != nil {
			t.Fatal(err)
		}
		if got := x.tap.Stats().Names["r1"].Renew; got != want {
			t.Errorf("%d renewals were seen, want %d", got, want)
		}
	}
	take := func() (took bool) {
		t.Helper()
		done, err := x.r1.Txn(ctx).If(clientv3.Compare(clientv3.Version("k"), "=", 0)).Then(clientv3.OpPut("k", "me", clientv3.WithLease(lease.ID))).Commit()
		testkit.Must(t, err)
		return done.Succeeded
	}
	keep(0)
	if _, err := x.sky.Put(ctx, "k", "another's"); err != nil {
		t.Fatal(err)
	}
	if took := take(); took {
		t.Fatal("the key was another's")
	}
	keep(0)
	if _, err := x.sky.Delete(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if took := take(); !took {
		t.Fatal("the key was free")
	}
	keep(1)
	if _, err := x.r1.Delete(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	keep(1)
	if n := x.tap.Stats().Names["r1"]; n.Acquire != 2 || n.Release != 1 {
		t.Errorf("seen: %+v", n)
	}
}

func TestEtcdLockCoreLosesReplies(t *testing.T) {
	const ttl = 10 * time.Second
	for _, op := range []string{burst.Acquire, burst.Renew, burst.Release} {
		t.Run(op, func(t *testing.T) {
			x := newTapRig(t)
			s := etcdstore.New(x.r1, "")
			do := map[string]func(context.Context) error{
				burst.Acquire: func(ctx context.Context) error { _, err := s.Acquire(ctx, "k", "me", ttl); return err },
				burst.Renew:   func(ctx context.Context) error { return s.Renew(ctx, "k", "me", ttl) },
				burst.Release: func(ctx context.Context) error { return s.Release(ctx, "k", "me") },
			}
			if op != burst.Acquire {
				testkit.Must(t, do[burst.Acquire](patient(t)))
			}
			x.inject(t, tap.Fault{ID: "f", Op: op, Mode: burst.LostReply, Count: 1, Key: "k", Names: []string{"r1"}})
			ctx, giveUp := context.WithCancel(patient(t))
			defer giveUp()
			said := make(chan error, 1)
			go func() { said <- do[op](ctx) }()
			eventually(t, "the hit, and what the server makes of it", func() bool {
				there, err := x.sky.Get(ctx, "k")
				return err == nil && (len(there.Kvs) == 0) == (op == burst.Release) && len(x.seen.list()) == 1
			})
			giveUp()
			if err := <-said; !errors.Is(err, context.Canceled) && grpcstatus.Code(err) != codes.Canceled {
				t.Fatalf("its caller heard %v", err)
			}
			eventually(t, "the fault to give its call back, and end", func() bool { return x.tap.Faults()[0].Why == burst.CountSpent })
			if got, want := x.ops(), [][3]string{{"r1", op, "k"}}; !slices.Equal(got, want) {
				t.Errorf("hit %v, want %v", got, want)
			}
			if h := x.seen.list()[0]; h.Token != "me" {
				t.Errorf("hit the token %q", h.Token)
			}
			if op == burst.Release { // asked again, it is told so
				if err := do[op](patient(t)); !errors.As(err, new(*lockcore.NotOwnedError)) {
					t.Errorf("a second release: %v", err)
				}
			} else if err := do[op](patient(t)); err != nil {
				t.Errorf("a second call: %v", err)
			}
		})
	}
}

// Whoever waits without a limit hears when the fault is over. Other calls on its connection go on.
func TestEtcdMutexWaitsForItsLostReply(t *testing.T) {
	x := newTapRig(t)
	ctx := patient(t)
	session, err := concurrency.NewSession(x.r1, concurrency.WithTTL(60))
	testkit.Must(t, err)
	x.inject(t, tap.Fault{ID: "f", Op: burst.Acquire, Mode: burst.LostReply, Count: 1, Key: "lock"})
	said := make(chan error, 1)
	m := concurrency.NewMutex(session, "lock")
	go func() { said <- m.Lock(ctx) }()
	eventually(t, "the key of the waiter", func() bool {
		got, err := x.r1.Get(ctx, "lock/", clientv3.WithPrefix())
		return err == nil && got.Count == 1
	})
	select {
	case err := <-said:
		t.Fatalf("it heard %v", err)
	default:
	}
	x.tap.End("f", "enough")
	if err := <-said; grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("it heard %v", err)
	}
	if got := x.ops(); !slices.Equal(got, [][3]string{{"r1", burst.Acquire, "lock"}}) {
		t.Errorf("hit %v", got)
	}
	if h := x.seen.list()[0]; h.Token != "" || h.Epoch != "" {
		t.Errorf("a key below the lock's own has no name before it is there, and %+v was told", h)
	}
	x.inject(t, tap.Fault{ID: "g", Op: burst.Release, Mode: burst.LostReply, Count: 1, Key: "lock"})
	again := concurrency.NewMutex(session, "lock")
	if err := again.Lock(ctx); err != nil { // it finds its own key
		t.Fatal(err)
	}
	mine, err := x.sky.Get(ctx, again.Key())
	testkit.Must(t, err)
	go func() { said <- again.Unlock(ctx) }()
	eventually(t, "the key to be gone", func() bool {
		got, err := x.sky.Get(ctx, "lock/", clientv3.WithPrefix())
		return err == nil && got.Count == 0
	})
	x.tap.End("g", "enough")
	if err := <-said; grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("it heard %v", err)
	}
	if got, want := x.seen.list()[1].Epoch, fmt.Sprintf("rev-%d", mine.Kvs[0].CreateRevision); got != want {
		t.Errorf("hit %s, want %s", got, want)
	}
}

// Refused renewals end the session of a holder, and strike nothing else.
func TestEtcdRenewalsAreRefused(t *testing.T) {
	x := newTapRig(t)
	ctx := patient(t)
	session, err := concurrency.NewSession(x.r1, concurrency.WithTTL(4))
	testkit.Must(t, err)
	other, err := concurrency.NewSession(x.r1, concurrency.WithTTL(5)) // its keepalives share a stream with the first one's
	testkit.Must(t, err)
	e := concurrency.NewElection(session, "lock")
	testkit.Must(t, e.Campaign(ctx, "me"))
	x.inject(t, tap.Fault{ID: "f", Op: burst.Renew, Mode: burst.Error, Key: "lock"})
	s := etcdstore.New(x.r2, "")
	if _, err := s.Acquire(ctx, "lock2", "me", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(ctx, "lock2", "me", time.Minute); err != nil {
		t.Errorf("a renewal of another lock: %v", err)
	}
	left := int64(5)
	eventually(t, "a keepalive of the session beside it", func() bool {
		was := left
		lease, err := x.sky.TimeToLive(ctx, other.Lease())
		if err == nil {
			left = lease.TTL
		}
		return left > was
	})
	select {
	case <-session.Done():
	case <-ctx.Done():
		t.Fatal("the session goes on")
	}
	if hits := x.ops(); len(hits) == 0 || slices.ContainsFunc(hits, func(h [3]string) bool { return h != [3]string{"r1", burst.Renew, "lock"} }) {
		t.Errorf("hit %v", hits)
	}
	x.tap.End("f", "enough")
	if _, err := x.r1.KeepAliveOnce(ctx, other.Lease()); err != nil {
		t.Errorf("a session beside it: %v", err)
	}

	x.inject(t, tap.Fault{ID: "g", Op: burst.Renew, Mode: burst.Error, Key: "lock2", Count: 1})
	if err := s.Renew(ctx, "lock2", "me", time.Minute); grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("a refused renewal says %v", err)
	}
	if err := s.Renew(ctx, "lock2", "me", time.Minute); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if h := x.seen.list(); h[len(h)-1].Token != "me" {
		t.Errorf("the last hit was %+v", h[len(h)-1])
	}
}

// What is never sent on has no effect; what is held back has its own later.
func TestEtcdCallsAreHeldBack(t *testing.T) {
	x := newTapRig(t)
	ctx := patient(t)
	take := func(ctx context.Context, key string) error {
		_, err := etcdstore.New(x.r1, "").Acquire(ctx, key, "me", time.Minute)
		return err
	}
	x.inject(t, tap.Fault{ID: "f", Op: burst.Acquire, Mode: burst.Timeout, Count: 1, Key: "never"})
	said := make(chan error, 1)
	go func() { said <- take(ctx, "never") }()
	eventually(t, "the hit", func() bool { return len(x.seen.list()) == 1 })
	x.tap.End("f", "enough")
	if err := <-said; grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("it heard %v", err)
	}
	if got, err := x.sky.Get(ctx, "never"); err != nil || got.Count != 0 {
		t.Errorf("it was sent on: %v, %v", got, err)
	}
	const delay = 300 * time.Millisecond
	x.inject(t, tap.Fault{ID: "g", Op: burst.Acquire, Mode: burst.Delay, Delay: delay, Count: 1, Key: "late"})
	begun := time.Now()
	if err := take(ctx, "late"); err != nil || time.Since(begun) < delay {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	eventually(t, "the end of the fault", func() bool { return x.tap.Faults()[1].Why == burst.CountSpent })
}

// The end of either side of a connection is that of the other: a client sees a server die, and a closed proxy leaves nothing.
func TestEtcdConnectionsEndTogether(t *testing.T) {
	x := newTapRig(t)
	ctx := patient(t)
	if _, err := x.r1.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	watch := x.r1.Watch(ctx, "k")
	if _, err := x.r1.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	if news := <-watch; len(news.Events) != 1 {
		t.Fatalf("the watch told %v", news)
	}
	if err := x.tap.Close(); err != nil { // with a stream open
		t.Fatal(err)
	}
	brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := x.r1.Put(brief, "k", "v"); err == nil {
		t.Error("it still passes")
	}
}

// hits notes what is hit.
type hits struct {
	mu  sync.Mutex
	all []tap.Hit
}

func (h *hits) add(x tap.Hit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, x)
}

func (h *hits) list() []tap.Hit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// eventually polls.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, within)
		}
	}
}

const within = 10 * time.Second // for what is near
