// Command bench compares the lock core with the Redis lock libraries that people use, on a redis-server of its own: acquire and
// release pairs, many held locks, and one key that many wait for. It is a module of its own, so that its peers are nobody's
// dependency; docs/performance.md says what its tables mean.
//
// Its one invariant: what a table compares ran interleaved, in this one run, against the same server.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// config is how much is measured.
type config struct {
	short bool
	addr  string
	pid   int // of the server
}

func main() {
	short := flag.Bool("short", false, "seconds instead of minutes: shows that all works, and no figure to quote")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [-short] [pairs] [hold] [contend]   (none = all three)")
		flag.PrintDefaults()
	}
	flag.Parse()
	redisstore.Quiet()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *short, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, short bool, parts []string) error {
	if len(parts) == 0 {
		parts = []string{"pairs", "hold", "contend"}
	}
	all := map[string]func(context.Context, config) error{"pairs": pairs, "hold": hold, "contend": contend}
	for _, part := range parts {
		measure, ok := all[part]
		if !ok {
			return fmt.Errorf("there is no part %q: pairs, hold or contend", part)
		}
		server, err := startServer(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s, %s, %d cores, redis-server %s\n", part, runtime.GOOS+"/"+runtime.GOARCH, runtime.Version(), runtime.NumCPU(), server.version)
		err = measure(ctx, config{short: short, addr: server.addr, pid: server.pid})
		server.stop()
		if err != nil {
			return fmt.Errorf("measure %s: %w", part, err)
		}
		fmt.Println()
	}
	return nil
}
