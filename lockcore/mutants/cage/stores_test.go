package cage_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/mutants"
	"github.com/lockdrill/lockdrill/lockcore/mutants/cage"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// A mutant of the store answers on a real Redis what its rules answer in virtual time, and leaves each key with the same token and end.
func TestAWrongStoreIsTheSameInBoth(t *testing.T) {
	c := redistest.Dial(t, redistest.Start(t))
	for _, m := range mutants.All() {
		if m.Variant.Rules == nil {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			prefix, of := m.Name+":", cage.Of(m)
			if of.Store == nil {
				t.Fatal("on a real Redis it is the core")
			}
			table, now, dice := lockcore.NewTable(), time.Unix(0, 0), rand.New(rand.NewPCG(1, 2))
			live, rules := of.Store(redisstore.NewStore(c, prefix), c, prefix), m.Variant.Rules(table)
			for i := range 500 {
				key, token := fmt.Sprint("key", dice.IntN(3)), fmt.Sprint("token", i-dice.IntN(6))
				var err, want error
				switch i % 3 {
				case 0: // each acquire has a token of its own
					token = fmt.Sprint("token", i)
					_, err = live.Acquire(t.Context(), key, token, time.Hour)
					_, want = rules.Acquire(now, key, token, time.Hour)
				case 1:
					err, want = live.Renew(t.Context(), key, token, 5*time.Hour), rules.Renew(now, key, token, 5*time.Hour)
				case 2:
					err, want = live.Release(t.Context(), key, token), rules.Release(now, key, token)
				}
				holder, ends, _ := table.Holder(now, key)
				left := ends.Sub(now)
				if got := c.Get(t.Context(), prefix+key).Val(); lockcore.ResultOf(err) != lockcore.ResultOf(want) || got != holder {
					t.Fatalf("call %d on %s with %s: redis says %v and has %q, the rules say %v and have %q", i, key, token, err, got, want, holder)
				}
				if got := c.PTTL(t.Context(), prefix+key).Val(); holder != "" && (got < 0) != (left > 1000*time.Hour) || got > 0 && got.Round(time.Hour) != left {
					t.Fatalf("call %d on %s with %s: redis ends it in %s, the rules in %s", i, key, token, got, left)
				}
			}
		})
	}
}
