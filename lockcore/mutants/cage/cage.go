// Package cage lets a mutant run as a worker, against a real Redis: what departs from the core in virtual time by rules of a
// table departs here by scripts, and what a simulated driver does otherwise a real one does.
//
// Its one invariant: an animal has the same mistake in both.
package cage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/mutants"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/lockcore/worker/embedded"
)

// Of is where a worker of the animal departs from the core.
func Of(a mutants.Mutant) embedded.Wrong {
	w := embedded.Wrong{Attempt: a.Variant.Attempt, Work: a.Work}
	if a.Variant.OneToken || a.Variant.SharedToken {
		token := sharedToken
		if a.Variant.OneToken {
			token = newToken()
		}
		w.Token = func() string { return token }
	}
	switch {
	case a.Store != nil:
		w.Store = func(core lockcore.Store, _ *redis.Client, _ string) lockcore.Store { return a.Store(core, time.Now) }
	case len(a.Lua) > 0 || len(a.Variant.Feigns) > 0:
		w.Store = func(core lockcore.Store, c *redis.Client, prefix string) lockcore.Store {
			s := &store{Store: core, feigns: a.Variant.Feigned, lua: map[lockcore.Op]*redis.Script{}, redis: c, prefix: prefix}
			for op, text := range a.Lua {
				s.lua[op] = redis.NewScript(text)
			}
			return s
		}
	}
	if v := a.Variant; v.LateFence || v.Unfenced {
		w.Ledger = func(core lockcore.Ledger, c *redis.Client, prefix string) lockcore.Ledger {
			return &ledger{core, c, prefix, v}
		}
	}
	if a.Tell != nil {
		w.Tell = inTurn(a.Tell())
	}
	return w
}

// sharedToken is what all replicas of the animal shared-token have.
const sharedToken = "the same in every replica"

func newToken() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// inTurn lets the goroutines of a worker tell one after another.
func inTurn(tell func(history.Event, func(history.Event))) func(history.Event, func(history.Event)) {
	var mu sync.Mutex
	return func(e history.Event, hand func(history.Event)) {
		mu.Lock()
		defer mu.Unlock()
		tell(e, hand)
	}
}

// ledger is what the animal writes to in place of the ledger.
type ledger struct {
	lockcore.Ledger
	locks  *redis.Client
	prefix string
	v      lockcore.Variant
}

// Write implements lockcore.Ledger.
func (l *ledger) Write(ctx context.Context, e lockcore.Effect) (lockcore.Receipt, error) {
	e.Unfenced = e.Unfenced || l.v.Unfenced
	if l.v.LateFence {
		newest, err := l.locks.Get(ctx, redisstore.FenceKey(l.prefix+e.Key)).Int64()
		if err != nil {
			return lockcore.Receipt{}, err
		}
		e.Fence = max(e.Fence, newest)
	}
	return l.Ledger.Write(ctx, e)
}
