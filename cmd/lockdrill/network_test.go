package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/toxitest"
)

// networkDrill has a loop whose policy bears 40 ms a round trip on a busy machine, and one fault of the network.
const networkDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: network
environment: local
redis: {mode: spawn}
proxy: {mode: embedded}
system:
  mode: embedded
  replicas: 2
  restart: 100ms
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 2s
        renew_every: 400ms
        class: standard
        op_timeout: 300ms
        stop_budget: 20ms
        release: {mode: none}
        acquire: {mode: try, timeout: 300ms}
        loop: {poll: 150ms, mode: renewed, tick: 10ms}
steady_state: {for: 300ms, timeout: 20s}
faults:
  - id: net
    at: 0s
    for: 2s
    latency: {all: true, add: 20ms, stream: both}
probes:
  lock_keys: {every: 20ms, max_gap: 2s}
  ledger: {every: 20ms, max_gap: 2s}
limits: {max_kills: 4, max_run: 1m}
slos:
  - {lock: loop, overlap: {level: effect, max: 0}}
`

// confirmed is the fault's confirmation.
func confirmed(t *testing.T, o drillOut) *history.Event {
	t.Helper()
	h, err := readHistory(o.dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, o.text)
	}
	at := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Kind == history.FaultConfirmed })
	if at < 0 {
		t.Fatalf("the fault was not confirmed\n%s", o.text)
	}
	return &h.Events[at]
}

func TestLiveLatencyOnAllWays(t *testing.T) {
	needDrill(t)
	t.Parallel()
	o := runDrill(t, networkDrill, nil)
	b := confirmed(t, o).Fault
	if o.code != verdict.ExitPass || b.Observed < b.Expected || b.Expected < 40e6 || b.Baseline >= b.Expected || !strings.Contains(b.Detail, "felt by r") {
		t.Errorf("exit %d, %+v\n%s", o.code, b, o.text)
	}
	if !strings.Contains(o.text, "embedded Toxiproxy") {
		t.Errorf("the run does not say that a Toxiproxy is in the way\n%s", o.text)
	}
}

func TestLiveFaultsOnAToxiproxyThatExists(t *testing.T) {
	needDrill(t)
	t.Parallel()
	server := toxitest.Start(t)
	yaml := edit(t, networkDrill, "proxy: {mode: embedded}", fmt.Sprintf("proxy: {mode: external, url: %q}", server.URL),
		"latency: {all: true, add: 20ms, stream: both}", "reset: {all: true}", "for: 2s", "for: 1s")
	create(t, server.URL, "theirs")
	o := runDrill(t, yaml, nil, "--confirm", "network", "--environment", "local")
	confirmed(t, o)
	if o.code != verdict.ExitPass {
		t.Errorf("exit %d\n%s", o.code, o.text)
	}
	if left := proxies(t, server.URL); strings.Contains(left, "lockdrill-") || !strings.Contains(left, `"theirs"`) {
		t.Errorf("the server has %s, want what was there before", left)
	}

	create(t, server.URL, "lockdrill-20260101T000000.000Z-other-r1")
	o = runDrill(t, yaml, nil, "--confirm", "network", "--environment", "local")
	if o.code != verdict.ExitRefused || !strings.Contains(o.text, "run 20260101T000000.000Z-other") {
		t.Errorf("exit %d, want %d: the server is another run's\n%s", o.code, verdict.ExitRefused, o.text)
	}
	if left := proxies(t, server.URL); !strings.Contains(left, "other-r1") || strings.Count(left, `"name":"lockdrill-`) != 1 {
		t.Errorf("the server has %s, want what was there before", left)
	}
}

// create and proxies speak to the server by themselves: the test must not believe the tool's own client.
func create(t *testing.T, api, name string) {
	t.Helper()
	resp, err := http.Post(api+"/proxies", "application/json", strings.NewReader(fmt.Sprintf(`{"name":%q,"listen":"127.0.0.1:0","upstream":"127.0.0.1:1"}`, name)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status)
	}
}

func proxies(t *testing.T, api string) string {
	t.Helper()
	resp, err := http.Get(api + "/proxies")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
