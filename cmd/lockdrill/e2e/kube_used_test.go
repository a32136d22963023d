package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// usedWorkers: an exported Deployment of workers serves a drill that kills them, and then one whose faults are of the network, through a
// Toxiproxy of somebody's, and stays as it was.
func usedWorkers(t *testing.T, s *site) {
	yaml := edit(t, s.yaml(), "pods: apply", "pods: use")
	dir := folder(t, "pods.yaml", yaml)
	s.exportedWorkers(t, dir)
	s.planned(t, dir, 3)
	api := theirProxies(t)
	kills := yaml
	yaml = edit(t, yaml, "ledger: {", "proxy: {mode: external, url: \""+api+"\"}\nledger: {",
		"at: 0s, repeat: {count: 2, every: settled}, kill: {holder_of: loop, form: crash}", "at: 0s, for: 2s, latency: {all: true, add: 20ms, stream: both}",
		"takeover: {max: 5s}", "overlap: {level: effect, max: 0}")
	s.shippedRole(t, yaml)
	before := s.objects(t)
	s.drill(t, kills, verdict.ExitPass)
	s.planned(t, dir, 3)
	o := s.drill(t, yaml, verdict.ExitPass)
	s.roleFits(t)
	if !strings.Contains(o.text, "workers that are there, in pods of kubernetes kubetest/"+s.namespace) {
		t.Errorf("it does not say whose pods they are:\n%s", o.text)
	}
	onlyTheirs(t, api)
	s.clean(t, before...)
}

// exportedWorkers applies what export deployment prints of pods.yaml in dir.
func (s *site) exportedWorkers(t *testing.T, dir string) {
	t.Helper()
	s.applyAll(t, tryIn(t, dir, "export", "deployment", "pods.yaml").stdout)
}

// statefulWorkers: the one whose ordinal is 0 is force-deleted twice, and both times the same replica comes back in a new pod of its name; by
// the shipped Role and no more.
func statefulWorkers(t *testing.T, s *site) {
	yaml := edit(t, s.yaml(), "pods: apply", "pods: apply, workers: statefulset",
		"kill: {holder_of: loop, form: crash}", `kill: {pods: {apps.kubernetes.io/pod-index: "0"}, form: force_delete}`,
		"takeover: {max: 5s}", "overlap: {level: effect, max: 0}")
	s.shippedRole(t, yaml)
	before := s.objects(t)
	o := runDrill(t, yaml, nil, s.runFlags()...)
	if o.code != verdict.ExitPass && o.code != verdict.ExitInconclusive || len(o.j.Faults) != 2 || !o.j.Faults[0].Confirmed || !o.j.Faults[1].Confirmed { // that one of them holds the lock is luck
		t.Fatalf("exit %d, verdict %q, faults %+v\n%s", o.code, o.j.Verdict, o.j.Faults, o.text)
	}
	s.roleFits(t)
	for _, f := range o.j.Faults {
		if !strings.HasPrefix(f.Victim, "r1.") {
			t.Errorf("%s#%d struck %q", f.ID, f.Shot, f.Victim)
		}
	}
	h := historyIn(t, o.dir)
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
	s.clean(t, before...)
}

// interrupted: the first Ctrl-C removes what the run has made.
func interrupted(t *testing.T, s *site) {
	o := runDrill(t, edit(t, s.yaml(), "at: 0s", "at: 1h", "max_run: 3m", "max_run: 2h"), func(pid int) {
		until(t, "three workers", func() bool { return strings.Count(strings.Join(s.objects(t), "\n"), "pod lockdrill-") == 3 })
		must(t, syscall.Kill(pid, syscall.SIGINT))
	}, s.flags()...)
	o.ends(t, verdict.ExitAborted)
	s.clean(t)
}
