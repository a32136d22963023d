//go:build full

package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

const etcdPatience = time.Minute

// etcdRig is a probe of an etcd, and a client beside it.
type etcdRig struct {
	*testing.T
	c      *clientv3.Client
	probe  *Watch
	events []history.Event
	tokens map[int64]string // by the revision that wrote them
}

func newEtcdRig(t *testing.T) *etcdRig {
	t.Helper()
	addr := etcdtest.Start(t).Addr
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	p, err := NewWatch(protocol.Endpoint{Addrs: []string{addr}, Prefix: "p:"}, monotime.Now)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &etcdRig{T: t, c: c, probe: p, tokens: map[int64]string{}}
}

func (r *etcdRig) look(final bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), etcdPatience)
	defer cancel()
	at := history.At(monotime.Now())
	told, err := r.probe.Look(ctx, final)
	if err != nil {
		r.Fatal(err)
	}
	at.To = monotime.Now()
	r.events = append(r.events, told(at)...)
}

// created is a state of a lock: the revision that created its holder's key; 0 = nobody's.
type created int64

// log is what etcd itself says of the locks, from its first revision on: after each change, who had the lock.
func (r *etcdRig) log() map[string][]created {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), etcdPatience)
	defer cancel()
	now, err := r.c.Get(ctx, "end")
	if err != nil {
		r.Fatal(err)
	}
	states, rivals := map[string][]created{}, map[string]map[string]created{}
	for seen := int64(0); seen < now.Header.Revision; {
		for news := range r.c.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(seen+1)) {
			if err := news.Err(); err != nil {
				r.Fatal(err)
			}
			for _, e := range news.Events {
				seen = e.Kv.ModRevision
				name := string(e.Kv.Key)
				if len(name) < 4 || name[:2] != "p:" {
					continue
				}
				key := name[2:4] // of this test: a letter and a digit
				if rivals[key] == nil {
					rivals[key] = map[string]created{}
				}
				if e.Type == mvccpb.DELETE {
					delete(rivals[key], name)
				} else {
					rivals[key][name] = created(e.Kv.CreateRevision)
				}
				least := created(0)
				for _, at := range rivals[key] {
					if least == 0 || at < least {
						least = at
					}
				}
				if all := states[key]; len(all) == 0 || all[len(all)-1] != least {
					states[key] = append(states[key], least)
				}
			}
			if seen >= now.Header.Revision {
				break
			}
		}
	}
	return states
}

// told is what the probe said of the locks, but for leases that were prolonged.
func (r *etcdRig) told() map[string][]created {
	r.Helper()
	states := map[string][]created{}
	for _, e := range r.events {
		if e.Kind != history.LookKind {
			r.Errorf("event %+v: want looks alone", e)
			continue
		}
		now := created(e.Fence)
		want := lockcore.Fingerprint(r.tokens[e.Fence]) // of a key that carries one
		if e.Key == "b1" {
			want = fmt.Sprintf("rev-%d", e.Fence)
		}
		if !e.Look.Present {
			want = ""
		}
		if e.Epoch != want {
			r.Errorf("epoch %q of fence %d, present %v", e.Epoch, e.Fence, e.Look.Present)
		}
		if all := states[e.Key]; len(all) == 0 && now != 0 || len(all) > 0 && all[len(all)-1] != now {
			states[e.Key] = append(all, now)
		}
	}
	return states
}

// Changes at random, by one key a lock and by etcd's own Mutex, of which most come and go between two looks: what the probe tells is what
// etcd's own log says by its revisions, none less, none more, none in another order. Each bracket holds the instant of its change.
func TestEtcdTellsWhatItsOwnLogSays(t *testing.T) {
	r := newEtcdRig(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	keys := []string{"a1", "a2", "b1"}
	for _, key := range keys {
		r.probe.Watch("lock", key)
	}
	type change struct {
		revision int64
		at       history.Span
	}
	var made []change
	do := func(key string) {
		at := history.At(monotime.Now())
		var got *clientv3.TxnResponse
		var err error
		name, token := "p:"+key, fmt.Sprint("token", rng.Int())
		if rng.IntN(2) == 0 {
			got, err = r.c.Txn(t.Context()).If(clientv3.Compare(clientv3.CreateRevision(name), "=", 0)).Then(clientv3.OpPut(name, token)).Commit()
		} else {
			got, err = r.c.Txn(t.Context()).Then(clientv3.OpDelete(name)).Commit()
		}
		testkit.Must(t, err)
		at.To = monotime.Now()
		if r.tokens[got.Header.Revision] == "" { // else it has written nothing
			r.tokens[got.Header.Revision] = token
		}
		made = append(made, change{got.Header.Revision, at})
	}
	for range 300 {
		if do(keys[rng.IntN(2)]); rng.IntN(4) == 0 {
			r.look(false)
		}
	}
	// Three sessions queue at one lock; one of them is left to its lease.
	for i := range 3 {
		s, err := concurrency.NewSession(r.c, concurrency.WithTTL(60))
		testkit.Must(t, err)
		m := concurrency.NewMutex(s, "p:b1")
		testkit.Must(t, m.Lock(t.Context()))
		r.look(false)
		if i == 1 {
			_, err = r.c.Revoke(t.Context(), s.Lease()) // as when it has run out
		} else {
			err = m.Unlock(t.Context())
		}
		testkit.Must(t, err)
		s.Orphan()
	}
	r.look(true)
	want, got := r.log(), r.told()
	for _, key := range keys {
		if !slices.Equal(got[key], want[key]) {
			t.Errorf("%s: told %v, etcd's own log says %v", key, got[key], want[key])
		}
	}
	for _, e := range r.events {
		if !e.Look.Present || e.Look.Final {
			continue
		}
		i := slices.IndexFunc(made, func(c change) bool { return c.revision == e.Fence })
		if i >= 0 && (e.From > made[i].at.To || e.To < made[i].at.From) {
			t.Errorf("revision %d was made in %v, and is told for %v", e.Fence, made[i].at, e.Span)
		}
		if e.Look.Prev != nil && !e.Look.Direct {
			t.Errorf("revision %d is told as one that others may lie before", e.Fence)
		}
	}
}

// What was compacted before the watch could tell it is a gap that says so, and what comes after it is not told as the next change.
func TestEtcdTellsOfACompactedStretch(t *testing.T) {
	r := newEtcdRig(t)
	r.probe.Watch("lock", "a1")
	put := func() int64 {
		t.Helper()
		if _, err := r.c.Delete(t.Context(), "p:a1"); err != nil {
			t.Fatal(err)
		}
		got, err := r.c.Put(t.Context(), "p:a1", fmt.Sprint("token", rand.Int()))
		testkit.Must(t, err)
		return got.Header.Revision
	}
	put()
	r.look(false)
	r.probe.stop()
	r.probe.watches.Wait()
	put()
	last := put()
	if _, err := r.c.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.probe.stop, r.probe.life = stop, ctx
	r.probe.era, r.probe.over = context.WithCancel(ctx)
	r.probe.watches.Go(func() { r.probe.watch(ctx, r.probe.clients[0]) })
	r.events = nil
	r.look(true)
	gaps, direct, now := 0, false, int64(0)
	for _, e := range r.events {
		switch {
		case e.Kind == history.GapKind:
			gaps++
			if !e.Coverage.Failed || e.Coverage.Probe != "lock_keys" {
				t.Errorf("gap %+v", *e.Coverage)
			}
		case e.Look.Present && !e.Look.Final:
			direct, now = direct || e.Look.Direct, e.Fence
		}
	}
	if gaps != 1 || direct || now != last {
		t.Errorf("%d gaps, told revision %d of %d, as the next change: %v; want one gap and the last revision, with others before it", gaps, now, last, direct)
	}
	if err := func() error { _, _, _, err := r.probe.Now(t.Context(), "lock", "a1"); return err }(); err != nil {
		t.Error(err)
	}
}

// Now says who holds a lock: the oldest of those who wait below its key.
// A lease outlives the key that it was for: whoever gives a lock back deletes the key, and then ends the lease. An answer about the lease
// meanwhile is none about the key, or the judge would hear that a lock was still taken after it had been given back.
func TestEtcdALeaseDoesNotShowItsKey(t *testing.T) {
	r := newEtcdRig(t)
	r.probe.Watch("leader", "leader")
	lease, err := r.c.Grant(r.Context(), 60)
	testkit.Must(t, err)
	if _, err := r.c.Put(r.Context(), "p:leader", "token", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	r.look(false) // now its holder is known, and the lease is due to be asked for
	for _, gone := range []bool{false, true} {
		r.probe.mu.Lock()
		for _, all := range r.probe.rivals {
			all[0].asked = 0 // due
		}
		r.probe.mu.Unlock()
		answers := r.probe.askLeases(r.Context())
		if len(answers) != 1 || answers[0].left == 0 {
			t.Fatalf("answers %+v", answers)
		}
		if gone {
			if _, err := r.c.Delete(r.Context(), "p:leader"); err != nil {
				t.Fatal(err)
			}
			r.look(false)
		}
		before := len(r.probe.news)
		answers[0].left += 5 // it was prolonged
		r.probe.showLeases(answers)
		if told := len(r.probe.news) > before; told == gone {
			t.Errorf("the key is gone: %v, and the answer is told: %v", gone, told)
		}
	}
}

func TestEtcdNowIsTheOldest(t *testing.T) {
	r := newEtcdRig(t)
	var first int64
	for i := range 2 {
		s, err := concurrency.NewSession(r.c, concurrency.WithTTL(60))
		testkit.Must(t, err)
		if m := concurrency.NewMutex(s, "p:b1"); i == 0 {
			testkit.Must(t, m.Lock(t.Context()))
			first = m.Header().Revision
		} else if err := m.TryLock(t.Context()); err != concurrency.ErrLocked {
			t.Fatalf("a second lock: %v", err)
		}
	}
	_, epoch, there, err := r.probe.Now(t.Context(), "lock", "b1")
	if err != nil || !there || epoch == "" {
		t.Fatalf("Now = %q, %v, %v", epoch, there, err)
	}
	if _, _, there, err := r.probe.Now(t.Context(), "lock", "b2"); there || err != nil {
		t.Errorf("a lock that nobody has: %v, %v", there, err)
	}
	t.Logf("epoch %s, granted at revision %d", epoch, first)
}
