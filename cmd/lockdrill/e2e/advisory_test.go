package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/sqltest"
)

// advisoryDrill has one leader loop under an advisory lock of a PostgreSQL of the run's own; faults and SLOs follow.
const advisoryDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: advisory
environment: local
store: {kind: postgres}
system:
  mode: embedded
  replicas: 3
  restart: 200ms
  worker: [%q, advisory]
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 4s
        renew_every: 500ms
        class: standard
        op_timeout: 1s
        stop_budget: 200ms
        release: {mode: single, timeout: 1s}
        acquire: {mode: try, timeout: 1s}
        loop: {poll: 100ms, mode: renewed, tick: 1ms}
steady_state: {for: 500ms, timeout: 60s}
`

// onPostgres is a drill with that lock and one fault.
func onPostgres(what string, lasting bool) func(*testing.T, string) killable {
	return func(t *testing.T, lasts string) killable {
		t.Helper()
		needDrivers(t)
		sqltest.NeedPostgres(t)
		when := "at: 0s"
		if lasting {
			when += ", for: " + lasts
		}
		return killable{yaml: fmt.Sprintf(advisoryDrill, os.Args[0]) +
			fmt.Sprintf("faults:\n  - {id: fault, %s, %s}\nslos:\n  - {lock: loop, overlap: {level: effect, max: 0}}\n", when, what)}
	}
}

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
