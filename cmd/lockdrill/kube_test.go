package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// podDrill is goodDrill with workers in pods that the run applies: its kills end the process.
const podsDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: pods
environment: staging
redis: {mode: external, url: "redis://%s"}
ledger: {url: "redis://%s"}
kubernetes: {namespace: %s, pods: apply, image: "lockdrill:test", grace: 3s}
system:
  mode: embedded
  replicas: 3
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 1s
        renew_every: 300ms
        class: standard
        op_timeout: 100ms
        stop_budget: 50ms
        release: {mode: none}
        acquire: {mode: try, timeout: 100ms}
        loop: {poll: 100ms, mode: renewed, tick: 20ms}
steady_state: {for: 500ms, timeout: 60s}
faults:
  - {id: kill, at: 0s, repeat: {count: 2, every: settled}, kill: {holder_of: loop, form: crash}}
probes:
  lock_keys: {every: 5ms, max_gap: 500ms}
  ledger: {every: 5ms, max_gap: 500ms}
limits: {max_kills: 4, max_run: 3m}
slos:
  - {lock: loop, takeover: {max: 10s}}
`

// cluster is a real API server with a fake node whose containers are this lockdrill's own workers, and two Redis of somebody's.
type testCluster struct {
	*kubetest.Env
	namespace     string
	locks, ledger string // addresses
}

// drilled starts it. The namespace says that it is staging.
func drilled(t *testing.T, o kubetest.NodeOptions) *testCluster {
	t.Helper()
	redistest.Need(t)
	if o.Run == nil {
		o.Run = kubetest.Command(built)
	}
	c := &testCluster{Env: kubetest.Start(t, kubetest.Options{Controllers: true, NodeOptions: o}), locks: redistest.Start(t), ledger: redistest.Start(t)}
	c.namespace = c.Namespace("locks", map[string]string{"lockdrill.dev/environment": "staging"})
	return c
}

func (c *testCluster) yaml() string { return fmt.Sprintf(podsDrill, c.locks, c.ledger, c.namespace) }

func (c *testCluster) flags(more ...string) []string {
	return append([]string{"--kubeconfig", c.Kubeconfig, "--environment", "staging", "--confirm", "pods"}, more...)
}

// nothingOfARun is left in the namespace or at the two Redis.
func (c *testCluster) nothingOfARun(t *testing.T) {
	t.Helper()
	for _, addr := range []string{c.locks, c.ledger} {
		if n := asked(t, addr, "DBSIZE"); n != ":0" {
			t.Errorf("keys are left at %s: %s: %s", addr, n, asked(t, addr, "RANDOMKEY"))
		}
	}
}

func TestKubeDrill(t *testing.T) {
	c := drilled(t, kubetest.NodeOptions{})
	o := runDrill(t, c.yaml(), nil, c.flags()...)
	if o.code != exitPass || o.j.Verdict != "pass" {
		t.Errorf("exit %d, verdict %q\n%s", o.code, o.j.Verdict, o.text)
		keep(t, o.dir)
	}
	c.nothingOfARun(t)
	t.Log(o.text)
}

// keep copies the folder of a run that a person wants to look at.
func keep(t *testing.T, dir string) {
	t.Helper()
	to := os.Getenv("LOCKDRILL_TEST_KEEP")
	if to == "" {
		return
	}
	to = filepath.Join(to, strings.ReplaceAll(t.Name(), "/", "_")+time.Now().Format("-150405"))
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Log(err)
	}
}
