package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/lockdrill/lockdrill/internal/etcdtest"
)

// needDrivers skips in a build that lacks them, and fails where CI=true.
func needDrivers(t *testing.T) {
	t.Helper()
	switch text := "this build has no drivers: go test -tags full"; {
	case buildTags != "":
	case os.Getenv("CI") == "true":
		t.Fatal(text)
	default:
		t.Skip("SKIPPED, NOT TESTED: " + text)
	}
}

// onEtcd is a drill with locks in three etcd servers of the run's own.
func onEtcd(do string) func(*testing.T, string) killable {
	return func(t *testing.T, lasts string) killable {
		t.Helper()
		needDrivers(t)
		etcdtest.Need(t)
		return killable{yaml: fmt.Sprintf(etcdDrill, lasts, do)}
	}
}

// etcdDrill has leases that three servers grant, the shortest of two seconds.
const etcdDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: etcd
store: {kind: etcd, members: 3}
system:
  mode: embedded
  replicas: 2
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 3s
        renew_every: 500ms
        class: standard
        op_timeout: 500ms
        stop_budget: 100ms
        release: {mode: none}
        acquire: {mode: try, timeout: 500ms}
        loop: {poll: 500ms, mode: renewed, tick: 5ms}
steady_state: {for: 300ms, timeout: 40s}
faults:
  - {id: fault, at: 0s, for: %s, store: {do: %s}}
probes:
  lock_keys: {every: 20ms, max_gap: 2s}
  ledger: {every: 20ms, max_gap: 2s}
limits: {max_run: 2m}
slos:
  - {lock: loop, overlap: {level: effect, max: 0}}
`
