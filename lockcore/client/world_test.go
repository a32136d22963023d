package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
)

// world is one seed: three contenders for one key, each with a client of its own and a network of its own, over one store in memory,
// and the ledger that the key protects. It runs in a bubble, on virtual time.
//
// It knows the truth, and judges by it: who owns the key is asked of the store itself at the instant that matters, and which
// effects counted of the ledger. Of a contender it takes only what its holder could see: from when to when it worked in good faith.
type world struct {
	seed    uint64
	policy  lockcore.Policy
	limits  limits
	start   time.Time
	horizon time.Duration                    // no new work afterwards
	log     func(format string, args ...any) // nil = nobody reads it

	mu       sync.Mutex // taken last
	store    *memstore.Store
	ledger   *lockcore.LedgerTable
	minted   []epoch // in the order of grants
	effects  []effect
	beliefs  []belief
	asks     map[string]*ask // by token
	losses   []loss
	frees    time.Duration // of the last lease, by the store's own clock
	problems []string
	seen     map[string]int // that a test is not about nothing
}

// limits is how far pauses, writes in flight and the store's clock may go. What happens to calls of the store has no limit.
type limits struct {
	bounded bool          // pauses, flights and the store's clock stay within what the policy declares
	pause   time.Duration // longest
	gap     time.Duration // least between two pauses of a contender
	flight  time.Duration // longest of a write on its way to the ledger
	rate    float64       // of the store's clock
	leap    time.Duration // of the store's clock, at leapAt
	leapAt  time.Duration
	deletes bool // the key may vanish
	deaf    bool // a call of the store may outlast its deadline
}

// epoch is a grant at the store.
type epoch struct {
	name  string // fingerprint
	who   int
	fence int64
	at    time.Duration
}

// effect is a write that the ledger has answered for the first time.
type effect struct {
	lockcore.LedgerEntry
	at    time.Duration
	owner string // whom the store named at that moment; "" = nobody
}

// belief is the time in which a holder could not know better: from the answer to Acquire to the end of the handle's context, which
// is the first of fence, release and abandonment.
type belief struct {
	who      int
	epoch    string
	from, to time.Duration
	owner    string // whom the store named at the end
	reason   lockcore.Reason
}

// ask is one acquire: what came of it.
type ask struct {
	who     int
	answer  lockcore.Result
	used    bool // a handle stands for it
	undone  bool // a release with its token was sent
	granted bool // by the store
}

// loss is a renewal that was answered "not yours".
type loss struct {
	who   int
	epoch string
	at    time.Duration
}

func newWorld(seed uint64, p lockcore.Policy, l limits) *world {
	w := &world{seed: seed, policy: p, limits: l, start: time.Now(), horizon: 8 * p.TTL, ledger: lockcore.NewLedgerTable(),
		asks: map[string]*ask{}, seen: map[string]int{}}
	w.store = memstore.NewStore(func() time.Time { return w.start.Add(w.serverTime(w.now())) })
	return w
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// serverTime is the store's clock: as fast as the seed says, with one leap.
func (w *world) serverTime(at time.Duration) time.Duration {
	t := time.Duration(float64(at) * w.limits.rate)
	if w.limits.leap > 0 && at >= w.limits.leapAt {
		t += w.limits.leap
	}
	return t
}

// decision is a kind of random choice. The n-th of a kind and a contender is the same in every run of a seed, in whatever order
// goroutines come to make theirs.
type decision uint64

const (
	choosePolicy decision = iota
	chooseLimits
	choosePause
	chooseMood
	chooseCall
	chooseWork
	chooseWrite
	chooseDelete
)

func (w *world) dice(who int, d decision, n int) *rand.Rand { return dice(w.seed, who, d, n) }

func dice(seed uint64, who int, d decision, n int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(d)<<48|uint64(who)<<40|uint64(n)))
}

// share is uniform in [low, high) of d.
func share(rng *rand.Rand, d time.Duration, low, high float64) time.Duration {
	return time.Duration(float64(d) * (low + (high-low)*rng.Float64()))
}

func (w *world) tracef(who int, format string, args ...any) {
	if w.log != nil {
		w.log("%12s c%d "+format, append([]any{w.now(), who}, args...)...)
	}
}

func (w *world) problem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// owner asks the store whom the key names: a release with a token that nobody has changes nothing.
func (w *world) owner() string {
	var lost *lockcore.NotOwnedError
	if err := w.store.Release(context.Background(), "k", "nobody"); !errors.As(err, &lost) {
		w.problem("look at the key: %v", err)
		return ""
	}
	return lost.Holder
}

// acquire, renew and release are requests that have arrived at the store.
func (w *world) acquire(who int, token string, ttl time.Duration) (lockcore.Grant, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g, err := w.store.Acquire(context.Background(), "k", token, ttl)
	if err == nil && !w.asks[token].granted {
		w.asks[token].granted = true
		w.minted = append(w.minted, epoch{lockcore.Fingerprint(token), who, g.Fence, w.now()})
		w.frees = w.serverTime(w.now()) + ttl
		w.seen["grants"]++
		w.tracef(who, "GRANT %s fence %d", lockcore.Fingerprint(token), g.Fence)
	}
	return g, err
}

func (w *world) renew(token string, ttl time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.store.Renew(context.Background(), "k", token, ttl)
	if err == nil {
		w.frees = w.serverTime(w.now()) + ttl
	}
	return err
}

func (w *world) release(token string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.store.Release(context.Background(), "k", token)
}

// write is an effect that has arrived at the ledger.
func (w *world) write(who int, e lockcore.Effect) lockcore.Receipt {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, err := w.ledger.Write(e)
	switch {
	case err != nil:
		w.problem("write %+v: %v", e, err)
	case r.Pos > int64(len(w.effects)): // no replay
		w.effects = append(w.effects, effect{w.ledger.Entries(r.Pos - 1)[0], w.now(), w.owner()})
		w.tracef(who, "EFFECT %s fence %d accepted %t, owner %s", e.Epoch, e.Fence, r.Accepted, w.effects[r.Pos-1].owner)
	}
	return r
}

// vanish deletes the key behind everybody's back, from time to time.
func (w *world) vanish(done <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-time.After(share(w.dice(0, chooseDelete, n), w.policy.TTL, 0.2, 3)):
		case <-done:
			return
		}
		w.mu.Lock()
		for token, a := range w.asks {
			if a.granted && w.store.Release(context.Background(), "k", token) == nil {
				w.seen["keys deleted"]++
				w.tracef(a.who, "DELETED %s", lockcore.Fingerprint(token))
			}
		}
		w.mu.Unlock()
	}
}

// run lets three contenders work until the horizon, and then judges.
func (w *world) run(t *testing.T) {
	all := make([]*contender, 3)
	for i := range all {
		all[i] = newContender(t, w, i, w.policy)
	}
	done := make(chan struct{})
	var bystanders, working sync.WaitGroup
	if w.limits.deletes {
		bystanders.Go(func() { w.vanish(done) })
	}
	for _, c := range all {
		working.Go(c.live)
	}
	working.Wait()
	if patience := w.horizon + 20*w.policy.TTL + 5*w.limits.pause; w.now() > patience {
		w.problem("stuck: the last contender came back at %s, no work was begun after %s", w.now(), w.horizon)
	}
	close(done)
	bystanders.Wait()
	w.conclude(t, all)
}

// conclude waits until everything on its way has arrived and every lease has run out, closes the clients, and judges.
func (w *world) conclude(t *testing.T, all []*contender) {
	wait(w.limits.pause + w.limits.flight + 12*w.policy.TTL)
	w.mu.Lock()
	if left := w.owner(); left != "" {
		w.problem("debt: leases after the last work ended, %s still has the key", left)
	}
	w.mu.Unlock()
	for _, c := range all {
		if err := c.client.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	w.judge(all)
}

// judge holds what happened against what was promised.
func (w *world) judge(all []*contender) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judgeEffects()
	w.judgeBeliefs()
	for token, a := range w.asks {
		if !a.used && !a.undone && a.answer != lockcore.Held && a.answer != lockcore.Failed {
			w.problem("undo: nobody gave back %s, an acquire of c%d that was answered %q", lockcore.Fingerprint(token), a.who, a.answer)
		}
		if a.undone && !a.used {
			w.seen["acquires undone"]++
		}
	}
	definitive := w.policy.Class == lockcore.Critical || w.policy.Class == lockcore.Standard
	for _, l := range w.losses {
		for _, b := range w.beliefs {
			if definitive && b.epoch == l.epoch && b.to > all[l.who].awake(l.at) {
				w.problem("loss: c%d heard at %s that %s was not its any more, and believed until %s", l.who, l.at, l.epoch, b.to)
			}
		}
	}
	for _, c := range all {
		w.seen["pauses"] += len(c.pauses)
	}
}

// judgeEffects: whatever happens, an effect carries the fence of its own grant, none is applied after a later grant's, and the owner's
// is never refused. Where everything is within bounds, none is applied that is not the owner's.
func (w *world) judgeEffects() {
	order := map[string]int{}
	for i, e := range w.minted {
		order[e.name] = i
	}
	latest := -1
	for _, e := range w.effects {
		i, known := order[e.Epoch]
		if !known || w.minted[i].fence != e.Fence {
			w.problem("fence: an effect of %s at %s carries %d, which is not its epoch's", e.Epoch, e.at, e.Fence)
		}
		if e.Accepted && i < latest {
			w.problem("stale: an effect of %s was applied at %s, after one of %s", e.Epoch, e.at, w.minted[latest].name)
		}
		if !e.Accepted && e.owner == e.Epoch {
			w.problem("owner rejected: an effect of %s at %s was refused", e.Epoch, e.at)
		}
		if e.Accepted && e.owner != e.Epoch && w.limits.bounded {
			w.problem("unowned: an effect of %s was applied at %s, when the store named %q", e.Epoch, e.at, e.owner)
		}
		if known && e.Accepted {
			latest = max(latest, i)
		}
		w.count(e.Accepted, "effects applied", "effects fenced off")
		if e.Accepted && e.owner != e.Epoch {
			w.seen["effects unowned beyond bounds"]++
		}
	}
}

func (w *world) count(yes bool, first, second string) {
	if yes {
		first, second = second, first
	}
	w.seen[second]++
}

// judgeBeliefs: within bounds no two holders believe at once, and each stops before the store may give the key to another.
func (w *world) judgeBeliefs() {
	slices.SortFunc(w.beliefs, func(a, b belief) int { return int(a.from - b.from) })
	overlap := w.overlap()
	if overlap > 0 && w.limits.bounded {
		w.problem("overlap: two believed for %s: %+v", overlap, w.beliefs)
	}
	if overlap > 0 {
		w.seen["overlaps"]++
	}
	for _, b := range w.beliefs {
		if b.owner != b.epoch && w.limits.bounded {
			w.problem("late: c%d believed in %s until %s (%s), when the store named %q", b.who, b.epoch, b.to, b.reason, b.owner)
		}
		w.seen["beliefs ended by "+string(b.reason)]++
	}
}

// overlap is the longest time that two beliefs have in common.
func (w *world) overlap() (longest time.Duration) {
	for i, b := range w.beliefs {
		for _, other := range w.beliefs[:i] {
			longest = max(longest, min(b.to, other.to)-max(b.from, other.from))
		}
	}
	return longest
}
