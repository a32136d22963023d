package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// usedWorkers: an exported Deployment of workers serves a drill whose faults are of the network, through a Toxiproxy of somebody's, and
// stays as it was.
func usedWorkers(t *testing.T, s *site) {
	yaml := edit(t, s.yaml(), "pods: apply", "pods: use")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pods.yaml"), []byte(yaml))
	got := tryIn(t, dir, "export", "deployment", "pods.yaml")
	if got.code != verdict.ExitPass {
		t.Fatalf("export: %+v", got)
	}
	admin, err := kube.Open(kube.Options{Kubeconfig: s.Kubeconfig, Namespace: s.namespace})
	if err != nil {
		t.Fatal(err)
	}
	applyAll(t, admin, got.stdout)
	until(t, "three pods that are ready", func() bool {
		plan := tryIn(t, dir, append([]string{"plan", "pods.yaml"}, s.flags()...)...)
		return plan.code == verdict.ExitPass && strings.Count(plan.stdout, "Running, ready") == 3
	})
	before := s.objects(t)
	api := theirProxies(t)
	o := s.drill(t, edit(t, yaml, "ledger: {", "proxy: {mode: external, url: \""+api+"\"}\nledger: {",
		"at: 0s, repeat: {count: 2, every: settled}, kill: {holder_of: loop, form: crash}", "at: 0s, for: 2s, latency: {all: true, add: 20ms, stream: both}",
		"takeover: {max: 5s}", "overlap: {level: effect, max: 0}"), verdict.ExitPass)
	if !strings.Contains(o.text, "workers that are there, in pods of kubernetes kubetest/"+s.namespace) {
		t.Errorf("it does not say whose pods they are:\n%s", o.text)
	}
	onlyTheirs(t, api)
	s.clean(t, before...)
}

// statefulWorkers: the one whose ordinal is 0 is force-deleted twice, and both times the same replica comes back in a new pod of its name.
func statefulWorkers(t *testing.T, s *site) {
	o := s.drill(t, edit(t, s.yaml(), "pods: apply", "pods: apply, workers: statefulset",
		"kill: {holder_of: loop, form: crash}", `kill: {pods: {apps.kubernetes.io/pod-index: "0"}, form: force_delete}`,
		"takeover: {max: 5s}", "overlap: {level: effect, max: 0s}"), verdict.ExitPass)
	for _, f := range o.j.Faults {
		if !strings.HasPrefix(f.Victim, "r1.") {
			t.Errorf("%s#%d struck %q", f.ID, f.Shot, f.Victim)
		}
	}
	h, err := readHistory(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	uids := map[string]bool{} // of r1
	for _, e := range h.Events {
		if e.Kind != history.ReplicaStart {
			continue
		}
		ordinal := e.Replica.Pod.Name[strings.LastIndex(e.Replica.Pod.Name, "-")+1:]
		if n, err := strconv.Atoi(ordinal); err != nil || e.Replica.Name != fmt.Sprintf("r%d", n+1) {
			t.Errorf("%s is in pod %s", e.Replica.Incarnation, e.Replica.Pod.Name)
		}
		if e.Replica.Name == "r1" {
			uids[e.Replica.Pod.UID] = true
		}
	}
	if len(uids) != 3 {
		t.Errorf("%d pods of r1, want 3", len(uids))
	}
	s.clean(t)
}

// interrupted: the first Ctrl-C removes what the run has made.
func interrupted(t *testing.T, s *site) {
	o := runDrill(t, edit(t, s.yaml(), "at: 0s", "at: 1h", "max_run: 3m", "max_run: 2h"), func(pid int) {
		until(t, "three workers", func() bool { return strings.Count(strings.Join(s.objects(t), "\n"), "pod lockdrill-") == 3 })
		if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}, s.flags()...)
	if o.code != verdict.ExitAborted {
		t.Errorf("exit %d, want %d\n%s", o.code, verdict.ExitAborted, o.text)
	}
	s.clean(t)
}
