package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/stores"
)

// toxiServer is a Toxiproxy inside this process, with its API on loopback: faults reach it as they reach an external one.
type toxiServer struct {
	url  string
	api  *toxiproxy.ApiServer
	http *http.Server
	done chan struct{}
}

func startToxiServer() (*toxiServer, error) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // its bandwidth toxic writes to zerolog's global logger, which nobody else uses
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the embedded Toxiproxy: %w", err)
	}
	s := &toxiServer{
		url:  "http://" + l.Addr().String(),
		api:  toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		done: make(chan struct{}),
	}
	s.http = &http.Server{Handler: s.api.Routes(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // ends by Close
	}()
	return s, nil
}

// stopWithin bounds the end of the proxies: one that hangs never ends, but it does not listen any more.
const stopWithin = 2 * time.Second

// close ends the API, then the proxies, and verifies that nobody listens at addrs. What hangs inside a proxy (Shopify/toxiproxy#558)
// holds goroutines until this process ends, and nothing else.
func (s *toxiServer) close(ctx context.Context, addrs []string) error {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	err := s.http.Close() // not Shutdown, which waits for calls that hang
	<-s.done
	stopped := make(chan struct{})
	proxies := s.api.Collection.Proxies()
	go func() {
		defer close(stopped)
		ended := make(chan struct{})
		for _, p := range proxies {
			go func() { p.Stop(); ended <- struct{}{} }()
		}
		for range proxies {
			<-ended
		}
	}()
	limit := time.NewTimer(stopWithin)
	defer limit.Stop()
	select {
	case <-stopped:
	case <-limit.C:
	case <-ctx.Done():
	}
	errs := []error{err}
	for _, addr := range addrs {
		errs = append(errs, closed(ctx, addr))
	}
	return errors.Join(errs...)
}

// closed waits until nobody listens at addr.
func closed(ctx context.Context, addr string) error {
	for range poll.Every(ctx, 10*time.Millisecond) {
		if addr == "" || stores.Accepts(ctx, addr) != nil && ctx.Err() == nil {
			return nil
		}
	}
	return fmt.Errorf("a proxy still listens on %s", addr)
}
