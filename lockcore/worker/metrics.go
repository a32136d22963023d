package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockdrill/lockdrill/lockcore/metrics"
)

const (
	headerLimit = 2 * time.Second // for a scraper to say what it wants
	scrapeLimit = 5 * time.Second // for it to take the answer, and for the last scrape to end
)

// exposition serves the replica's own metrics at /metrics, on a free port of loopback, until it is closed.
type exposition struct {
	*metrics.Metrics
	addr   string
	server *http.Server
	done   chan error // what Serve returned
}

func expose() (*exposition, error) {
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	e := &exposition{
		Metrics: m, addr: l.Addr().String(), done: make(chan error, 1),
		server: &http.Server{Handler: mux, ReadHeaderTimeout: headerLimit, WriteTimeout: scrapeLimit},
	}
	go func() { e.done <- e.server.Serve(l) }()
	return e, nil
}

// close lets the scrapes under way end, and then cuts off what is left.
func (e *exposition) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	err := e.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, e.server.Close())
	}
	if served := <-e.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("stop serving metrics: %w", err)
	}
	return nil
}
