package testbed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/proxies/toxi"
	"github.com/lockdrill/lockdrill/stores/redis"
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
	way := undo.ProxyRoute{API: api, Proxy: name, Listen: p.Listen, Theirs: true}
	return redis.LeadsTo(ctx, name, way.Addr(), p.Upstream, r)
}
