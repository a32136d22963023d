package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
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
