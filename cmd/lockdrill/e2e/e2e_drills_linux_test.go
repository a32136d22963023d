package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/deploy"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// e2eDrill is a leader among three workers in pods. Image, mode and faults are filled in.
const e2eDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: pods
environment: e2e
redis: {mode: external, url: "redis://%s"}
ledger: {url: "redis://%s"}
kubernetes: {namespace: drills, pods: %s, image: "%s", grace: 3s}
system:
  mode: embedded
  replicas: 3
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 2s
        renew_every: 600ms
        class: standard
        op_timeout: 200ms
        stop_budget: 100ms
        release: {mode: bounded_retry, attempts: 2, timeout: 200ms, after_abandon: if_work_stopped}
        acquire: {mode: try, timeout: 200ms}
        loop: {poll: 200ms, mode: renewed, tick: 50ms}
steady_state: {for: 1s, timeout: 60s}
faults:
%s
probes:
  lock_keys: {every: 5ms, max_gap: 2s}
  ledger: {every: 5ms, max_gap: 2s}
limits: {max_run: 3m}
slos:
  - {lock: loop, takeover: {max: 10s}}
  - {lock: loop, overlap: {level: belief, max: 0s}}
  - {lock: loop, overlap: {level: effect, max: 0}}
`

// drillOfAppliedPods: the run makes three workers from the image, kills the leader in each of the three ways, and removes them. It may
// do no more than the Role that is shipped.
func (c *realCluster) drillOfAppliedPods(t *testing.T) {
	s := &site{Env: c.env, namespace: "drills", kubeconfig: c.env.Kubeconfig}
	faults := `  - {id: crash, at: 0s, kill: {holder_of: loop, phase: random, form: crash}}
  - {id: graceful, at: 8s, kill: {holder_of: loop, phase: random, form: graceful}}
  - {id: forced, at: 16s, kill: {holder_of: loop, phase: random, form: force_delete}}`
	locks, ledger := c.redis(t), c.redis(t)
	yaml := fmt.Sprintf(e2eDrill, locks, ledger, "apply", c.image, faults)
	s.shippedRole(t, yaml)
	before := s.objects(t)
	ends := c.witness(t)
	o := runDrill(t, yaml, nil, "--kubeconfig", s.kubeconfig, "--environment", "e2e", "--confirm", "pods", "--seed", "1", "--summary-configmap", deploy.SummaryName("pods"))
	t.Log(o.text)
	if o.code != verdict.ExitPass || o.j.Verdict != "pass" {
		keep(t, o.dir)
		t.Fatalf("exit %d, verdict %q", o.code, o.j.Verdict)
	}
	deaths := c.deaths(t, o.dir, ends())
	s.roleFits(t)
	if len(deaths) != 3 {
		t.Errorf("%d kills are confirmed, want 3", len(deaths))
	}
	if after := s.objects(t); !slices.Equal(after, before) {
		t.Errorf("before the run: %q, after it: %q", before, after)
	}
	for _, addr := range []string{locks, ledger} {
		if left := keysAt(t, &redis.Options{Addr: addr}); len(left) > 0 {
			t.Errorf("keys are left at %s: %s", addr, left)
		}
	}
}

// keysAt are the keys of a Redis that stay. Those of a fleet go by themselves, where a worker that was told to end has been started again
// before its Deployment went.
func keysAt(t *testing.T, o *redis.Options) []string {
	t.Helper()
	client := redis.NewClient(o)
	defer client.Close()
	var left []string
	for keys := client.Scan(t.Context(), 0, "*", 0).Iterator(); keys.Next(t.Context()); {
		if ttl, err := client.PTTL(t.Context(), keys.Val()).Result(); err != nil || ttl < 0 || !strings.HasPrefix(keys.Val(), "lockdrill:fleet:") {
			left = append(left, fmt.Sprint(keys.Val(), " ", ttl))
		}
	}
	slices.Sort(left)
	return left
}

// witness watches every container of the namespace as the node's kernel does. What it returns tells when each life ended, by the pod's
// UID and the restarts before it, and stops watching.
func (c *realCluster) witness(t *testing.T) func() map[string]time.Time {
	t.Helper()
	lives, ends := map[string]<-chan time.Time{}, map[string]time.Time{}
	stop := c.watch(t, nil, func(ch kube.Change) {
		life := lifeOf(ch.Pod.UID, ch.Pod.Container.Restarts)
		if ch.Pod.Container.Running && lives[life] == nil {
			if end, err := processOf(ch.Pod); err == nil {
				lives[life] = end
			}
		}
	})
	return func() map[string]time.Time {
		stop()
		for life, end := range lives {
			select {
			case at, ok := <-end:
				if ok {
					ends[life] = at
				}
			default: // it lives
			}
		}
		return ends
	}
}

func lifeOf(uid string, restarts int32) string { return fmt.Sprint(uid, " after ", restarts) }

// slack is what the wall clock, by which the witness's times are put beside a history's, and waking up may add.
const slack = 20 * time.Millisecond

// deaths are those of the confirmed kills, each held against what the kernel saw: the process was alive at the last sign, and dead at
// the end.
func (c *realCluster) deaths(t *testing.T, dir string, ends map[string]time.Time) []*history.Death {
	t.Helper()
	h := historyIn(t, dir)
	origin, err := time.Parse(time.RFC3339Nano, h.Header.Started)
	must(t, err)
	lives := map[string]string{} // by incarnation
	for _, e := range h.Events {
		if e.Kind == history.ReplicaExit && e.Replica.Pod != nil {
			lives[e.Replica.Incarnation] = lifeOf(e.Replica.Pod.UID, e.Replica.Pod.Restarts)
		}
	}
	var deaths []*history.Death
	for _, e := range h.Events {
		if e.Kind != history.FaultConfirmed {
			continue
		}
		d := e.Fault.Death
		end, seen := ends[lives[e.Fault.Victim]]
		if d == nil || d.End == nil || !seen {
			t.Errorf("%s of %s: death %+v, seen by the kernel: %v; want both", e.Fault.ID, e.Fault.Victim, d, seen)
			continue
		}
		deaths = append(deaths, d)
		truth := int64(end.Sub(origin))
		t.Logf("%s of %s, after the call: object gone %s, last sign %s, end by %s (%s); the kernel saw it at %s", e.Fault.ID, e.Fault.Victim,
			after(d.Call, spanEnd(d.Object)), after(d.Call, &d.Sign), after(d.Call, &d.End.To), d.By, after(d.Call, &truth))
		if truth < d.Sign-int64(slack) || truth > d.End.To+int64(slack) {
			t.Errorf("%s of %s: the process ended %s after the call, and neither after its last sign nor before its end", e.Fault.ID, e.Fault.Victim, after(d.Call, &truth))
		}
	}
	return deaths
}

func spanEnd(s *history.Span) *int64 {
	if s == nil {
		return nil
	}
	return &s.To
}

// after is how long after the beginning of a call an instant was.
func after(call history.Span, at *int64) string {
	if at == nil {
		return "never"
	}
	return ms(time.Duration(*at - call.From)).String()
}
