package tap

import (
	"context"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/lockdrill/lockdrill/internal/redistest"
)

// BenchmarkPair is an acquire and a release, side by side: at the Redis itself, through a tap without a fault, and through a clean
// Toxiproxy. The ratios count, not the figures.
func BenchmarkPair(b *testing.B) {
	direct := redistest.Start(b)
	_, _, tapped, _ := openTap(b, direct, Rules{Keys: []string{"lock:*"}})
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	toxic := toxiproxy.NewProxy(server, "bench", "127.0.0.1:0", direct)
	if err := toxic.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(toxic.Stop)
	release := redis.NewScript(compareDelete)
	for _, way := range []struct{ name, addr string }{{"direct", direct}, {"tap", tapped}, {"toxiproxy", toxic.Listen}} {
		for _, load := range []struct {
			name       string
			goroutines int
		}{{"one", 1}, {"eight-a-processor", 8}} {
			b.Run(way.name+"/"+load.name, func(b *testing.B) {
				c := redis.NewClient(&redis.Options{Addr: way.addr, PoolSize: 128, DisableIdentity: true})
				defer c.Close()
				ctx := context.Background()
				pair := func() {
					if err := c.Do(ctx, "SET", "lock:a", "token", "NX", "PX", 5000).Err(); err != nil && err != redis.Nil {
						b.Error(err)
					}
					if err := release.Run(ctx, c, []string{"lock:a"}, "token").Err(); err != nil {
						b.Error(err)
					}
				}
				if load.goroutines == 1 {
					for b.Loop() {
						pair()
					}
					return
				}
				b.SetParallelism(load.goroutines)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						pair()
					}
				})
			})
		}
	}
}
