package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/toxi"
	"github.com/lockdrill/lockdrill/internal/toxitest"
)

// theirWay puts a proxy of somebody's own before a Redis, and says where it listens.
func theirWay(t *testing.T, api, name, redis string) (listen string) {
	t.Helper()
	p, err := toxi.New(api).Create(t.Context(), toxi.Proxy{Name: name, Listen: "127.0.0.1:0", Upstream: redis, Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	return p.Listen
}

// theirWayIs checks that somebody's proxy is as they made it.
func theirWayIs(t *testing.T, api, name, listen, redis string) {
	t.Helper()
	p, err := toxi.New(api).Proxy(t.Context(), name)
	if err != nil || !p.Enabled || p.Listen != listen || p.Upstream != redis || len(p.Toxics) > 0 {
		t.Errorf("their proxy is not as it was: %+v (%v)", p, err)
	}
}

// routed is the drill of electors behind proxies of their own, with another fault.
func routed(t *testing.T, api, route, redisPort, matched, lasts, fault string) string {
	t.Helper()
	return edit(t, fmt.Sprintf(foreignDrill, redisPort), "at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}", "at: 0s, for: "+lasts+", "+fault,
		"--redis "+redisPort, "--redis "+matched, "system:\n", fmt.Sprintf("proxy: {mode: external, url: %q, route: %q}\nsystem:\n", api, route))
}

// atSomebodysProxy is a drill of a service whose traffic passes a proxy of its own. Afterwards that is as it was.
func atSomebodysProxy(fault string) func(t *testing.T, lasts string) killable {
	return func(t *testing.T, lasts string) killable {
		redis, api := redistest.Start(t), toxitest.Start(t).URL
		listen := theirWay(t, api, "redis", redis)
		_, port, _ := net.SplitHostPort(redis)
		return killable{
			yaml:  routed(t, api, "redis", port, electorsAt(t, listen).port, lasts, fault),
			args:  foreignConsent,
			check: func(t *testing.T, _ string) { theirWayIs(t, api, "redis", listen, redis) },
		}
	}
}

// tapped is a service whose traffic passes a lockdrill proxy, and its drill with a fault that goes by it.
func tapped(t *testing.T, lasts, fault string) (yaml, api string) {
	t.Helper()
	redis := redistest.Start(t)
	clients, api := startProxy(t, "--upstream", redis)
	_, port, _ := net.SplitHostPort(redis)
	through := electorsAt(t, clients).port
	until(t, "an operation on a lock", func() bool {
		_, text := askProxy(t, "GET", api+"/stats", "")
		return !strings.Contains(text, `"acquire":0`)
	})
	return edit(t, fmt.Sprintf(foreignDrill, port), "at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}", "at: 0s, for: "+lasts+", "+fault,
		"--redis "+port, "--redis "+through, "system:\n", fmt.Sprintf("proxy: {api: %q}\nsystem:\n", api)), api
}

// atALockdrillProxy is such a drill. Afterwards no fault of it goes on.
func atALockdrillProxy(t *testing.T, lasts string) killable {
	yaml, api := tapped(t, lasts, "renew_failures: {holder_of: leader, mode: delay, delay: 20ms, via: proxy}")
	return killable{yaml: yaml, args: foreignConsent, check: func(t *testing.T, _ string) {
		if _, text := askProxy(t, "GET", api+"/faults", ""); strings.Contains(text, `"state":"armed"`) {
			t.Errorf("a fault goes on: %s", text)
		}
	}}
}

// Operations of a service that knows nothing of lockdrill fail on its way: what was hit is seen there, one by one, and another replica
// takes over.
func TestLiveOperationsFailAtTheServicesOwnProxy(t *testing.T) {
	t.Parallel()
	needDrill(t)
	yaml, _ := tapped(t, "5s", "renew_failures: {holder_of: leader, mode: error, count: 1, via: proxy}")
	o := runDrill(t, yaml, nil, foreignConsent...)
	s := readStruck(t, o)
	var hit, confirmed *history.Event
	for i, e := range s.events {
		switch e.Kind {
		case history.FaultHit:
			hit = &s.events[i]
		case history.FaultConfirmed:
			confirmed = &s.events[i]
		}
	}
	if o.code != verdict.ExitPass || confirmed == nil || confirmed.Fault.Hits != 1 || hit == nil || hit.Lock != "leader" || hit.Key != "sched:leader" || hit.Epoch == "" || hit.Epoch != confirmed.Epoch {
		t.Errorf("exit %d, hit %+v, confirmed %+v\n%s", o.code, hit, confirmed, o.text)
	}
}
