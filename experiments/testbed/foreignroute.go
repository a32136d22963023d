package testbed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/toxi"
)

// LookAtRoute says why a proxy that is somebody's own cannot carry a fault of the ways to r; nil = it can. It asks the Toxiproxy, and the
// Redis at the proxy's other end which server it is. It changes nothing.
func LookAtRoute(ctx context.Context, api, name string, r experiments.Redis) error {
	all, err := toxi.New(api).Proxies(ctx)
	if err != nil {
		return fmt.Errorf("ask the Toxiproxy at %s: %w", api, err)
	}
	p, there := all[name]
	switch {
	case !there && len(all) == 0:
		return fmt.Errorf("the Toxiproxy at %s has no proxy %s: it has none", api, name)
	case !there:
		return fmt.Errorf("the Toxiproxy at %s has no proxy %s: it has %s", api, name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	case !p.Enabled:
		return fmt.Errorf("proxy %s is disabled: nothing gets through it now, so no fault would show", name)
	}
	for _, t := range p.Toxics {
		if strings.HasPrefix(t.Name, proxyPrefix) {
			return fmt.Errorf("proxy %s carries %s, a toxic of another run: wait for its end, or undo what it left with lockdrill recover", name, t.Name)
		}
	}
	return leadsTo(ctx, undo.ProxyRoute{API: api, Proxy: name, Listen: p.Listen, Theirs: true}, p.Upstream, r)
}

// leadsTo refuses a proxy with another server at its other end.
func leadsTo(ctx context.Context, way undo.ProxyRoute, upstream string, r experiments.Redis) error {
	w, err := whereIs(r)
	if err != nil {
		return err
	}
	there := endpointOf(w)
	if host, _, err := net.SplitHostPort(there.Addr); err == nil {
		there.ServerName = host
	}
	there.Addr = way.Addr()
	o, err := endpoint.Options(there)
	if err != nil {
		return err
	}
	direct, err := Connect(w)
	if err != nil {
		return err
	}
	behind := redis.NewClient(o)
	defer func() { _ = errors.Join(direct.Close(), behind.Close()) }()
	want, err := serverInfo(ctx, direct)
	if err != nil {
		return fmt.Errorf("reach %s: %w", target(w), err)
	}
	got, err := serverInfo(ctx, behind)
	switch {
	case err != nil:
		return fmt.Errorf("reach the Redis through proxy %s, which listens on %s and leads to %s: %w", way.Proxy, there.Addr, upstream, err)
	case got["run_id"] != want["run_id"]:
		return fmt.Errorf("proxy %s leads to %s, and that is another server than %s of the file", way.Proxy, upstream, target(w))
	}
	return nil
}
