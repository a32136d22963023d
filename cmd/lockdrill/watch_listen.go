package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockdrill/lockdrill/drill/watching"
	"github.com/lockdrill/lockdrill/drill/watching/sli"
	"github.com/lockdrill/lockdrill/experiments"
)

// exporting are the flags of a watch that serves what it sees.
type exporting struct {
	addr   string
	holder string
}

// named says what of the flags cannot be, and what the pattern is (nil = none).
func (f *exporting) named(draft string, format output) (*regexp.Regexp, error) {
	switch {
	case f.addr == "" && f.holder == "":
		return nil, nil
	case f.addr == "":
		return nil, usagef("--holder: names are shown by the metrics alone, so say --listen too")
	case draft != "":
		return nil, usagef("--listen and --draft: one at a time; a draft wants all that was seen, and an exporter forgets")
	case format == outputJSON:
		return nil, usagef("--listen and -f json: one at a time; the metrics are the document")
	case f.holder == "":
		return nil, nil
	}
	if why := experiments.NoPattern(f.holder, "holder"); why != "" {
		return nil, usagef("--holder %q: %s", f.holder, why)
	}
	return regexp.MustCompile(f.holder), nil
}

const scrapesWithin = 5 * time.Second // that are under way when the watch ends

// export serves what a watch sees at addr until ctx ends.
func (f *watchFlags) export(ctx context.Context, io streams, w *watching.Watcher) error {
	l, err := net.Listen("tcp", f.exporting.addr)
	if err != nil {
		return usagef("--listen: %w", err)
	}
	x := sli.New(f.keys)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(x.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var broken, unserved error
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			unserved = fmt.Errorf("serve metrics: %w", err)
		}
		stop()
	})
	fmt.Fprintf(io.Err, "metrics at http://%s/metrics\n", l.Addr())
	said := ""
	err = w.Follow(ctx, func(s watching.Seen) {
		if err := x.See(s); err != nil && broken == nil {
			broken = err
			stop()
		}
	}, func(s watching.State) {
		x.Looked(s)
		if s.Why != said { // the same reason again is counted, and not said
			said = s.Why
			fmt.Fprintf(io.Err, "a look failed: %s\n", said)
		}
	})
	if err != nil {
		err = usagef("watch: %w", err)
	}
	last, end := context.WithTimeout(context.WithoutCancel(ctx), scrapesWithin)
	defer end()
	if server.Shutdown(last) != nil {
		_ = server.Close()
	}
	serving.Wait()
	return errors.Join(err, broken, unserved)
}
