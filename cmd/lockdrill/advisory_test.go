package main

import (
	"fmt"
	"os"
	"testing"

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
