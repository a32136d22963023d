package redis

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// BenchmarkLook is one look at the keys of 12,000 jobs, of which one is held: where each look reads all of them, as it did once, and where
// it reads those that somebody may hold.
func BenchmarkLook(b *testing.B) {
	for _, way := range []string{"all", "may be held"} {
		b.Run(way, func(b *testing.B) {
			c := redis.NewClient(&redis.Options{Addr: redistest.Start(b)})
			defer c.Close()
			p := NewLockKeys(&redis.Options{Addr: c.Options().Addr}, "run:")
			defer p.Close()
			p.Watch("leader", "l")
			add := p.Expect
			if way == "all" {
				add = p.Watch
			}
			for i := range 12_000 {
				add("job", fmt.Sprintf("k%05d", i))
			}
			look := func() {
				report, err := p.Look(b.Context(), false)
				if err != nil {
					b.Fatal(err)
				}
				report(history.Span{})
			}
			for range settle {
				look()
			}
			for b.Loop() {
				look()
			}
		})
	}
}
