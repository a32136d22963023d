package experiments

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// inPods moves e into pods, of lockdrill's workers or of somebody's, and leaves out what cannot be done there.
func (g generator) inPods(e *Experiment) {
	labels := map[string]string{"app.kubernetes.io/name": g.name("a"), "tier": pick(g, "", "true", "12")}
	k := &Kubernetes{Context: g.text(), Namespace: "shop", Container: pick(g, "", "server"), Secret: pick(g, "", "stores"), Pods: PodsUse, Selector: labels}
	e.Kubernetes, e.System.Worker, e.System.Restart, e.Probes.Metrics = k, nil, 0, nil
	e.Limits.Namespaces = pick(g, nil, []string{"drills", "shop"})
	e.Probes.Logs = pick(g, nil, &Logs{Preset: "lockdrill", MaxGap: shortest + g.duration(), Patterns: map[string]string{"p-1": g.text() + "x"}})
	kill := func(f Fault) bool { return !f.Traits().Kills }
	observed := g.IntN(2) == 0 && slices.ContainsFunc(e.System.Locks, func(l Lock) bool { return l.Loop() })
	if observed {
		g.observed(e)
	} else {
		e.Redis = Redis{Mode: RedisExternal, URL: "rediss://127.0.0.1:6379/2"}
		if e.Probes.Logs != nil {
			e.Probes.Logs.Preset = "" // its words are not those of lockdrill's workers
		}
		e.Ledger = LedgerStore{URL: "rediss://127.0.0.2:6379", UsernameEnv: "U", PasswordEnv: "P_2", CA: g.text() + "x"}
		k.Workers = pick(g, WorkersDeployment, WorkersStatefulSet)
		k.Grace, k.Redis, k.Ledger = time.Duration(1+g.IntN(60))*time.Second, "redis:6379", pick(g, "", "ledger:6379")
		if g.IntN(2) == 0 {
			k.Pods, k.Selector, k.Image = PodsApply, nil, "registry.example/lockdrill:"+g.name("v")
		}
	}
	e.Faults = slices.DeleteFunc(e.Faults, kill)
	for i := range e.Faults {
		if observed {
			e.Faults[i].Spec = &fault.Kill{HolderOf: e.System.Locks[0].Name, Phase: fault.RandomPhase, How: pick(g, fault.Graceful, fault.ForceDelete)}
		}
	}
	e.Faults = append(e.Faults,
		Fault{ID: "exec", At: 3, Repeat: Repeat{Count: 1, Settled: true}, Spec: &fault.Kill{Pods: labels, Pick: pick(g, fault.PickRandom, fault.PickOldest), How: fault.Crash}})
	if last := e.Faults[len(e.Faults)-1].Spec.(*fault.Kill); observed {
		last.Exec = []string{"kill", g.text() + "x"}
	}
	e.Faults = append(e.Faults, Fault{ID: "object", At: 4, For: 1 + g.duration(), Repeat: Repeat{Count: 1, Settled: true}, Spec: &fault.Object{
		Aim: fault.Aim{HolderOf: e.System.Locks[0].Name}, Confirm: "{.status." + g.name("x") + "}", Equals: pick(g, "", "True", "1"), Within: 1 + g.duration()%time.Minute,
		Resource: pick(g, "", "things"), Manifest: vocab.JSON(`{"apiVersion":"v1","kind":"Thing","spec":{"n":` + pick(g, "1", `"1"`, `["${pod}",true,null]`) + `}}`),
	}})
	k.Allow = pick(g, nil, []string{"Node"})
	e.AllowOverlap = nil
	for i := range e.Faults {
		for j := range i {
			e.AllowOverlap = append(e.AllowOverlap, [2]string{e.Faults[i].ID, e.Faults[j].ID})
		}
	}
	e.SLOs = []SLO{{Lock: e.System.Locks[0].Name, Takeover: Within(g.duration())}}
	if e.Probes.Logs != nil {
		e.SLOs = append(e.SLOs, SLO{Lock: e.System.Locks[0].Name, Logs: &LogLimit{Pattern: pick(g, "p-1", e.Probes.Logs.Named()[0].Name), Bound: g.bound()}})
	}
}

// observed makes e one of somebody's own system.
func (g generator) observed(e *Experiment) {
	e.System.Mode, e.System.Work, e.TimeScale, e.AbortWhen, e.Redis = ModeObserve, nil, 1, nil, Redis{Mode: RedisAuto}
	e.System.Locks = slices.DeleteFunc(e.System.Locks, func(l Lock) bool { return !l.Loop() })
	leases := 0
	if len(e.Limits.Namespaces) == 0 {
		e.Kubernetes.Namespaces = pick(g, nil, []string{"other", "third"})
	}
	for i := range e.System.Locks {
		if l := &e.System.Locks[i]; g.IntN(2) == 0 {
			l.Lease = g.name("lease")
			if len(e.Kubernetes.Namespaces) > 0 {
				l.Lease = pick(g, "", "third/") + l.Lease
			}
			l.Key, leases = l.Lease, leases+1
		}
	}
	if leases > 0 {
		e.Probes.Leases = g.probe()
		e.Probes.Leases.Every += minLeaseEvery
		e.Probes.Leases.MaxGap += minLeaseEvery
	}
	if leases < len(e.System.Locks) {
		e.Redis = Redis{Mode: RedisExternal, URL: "redis://127.0.0.1"}
	}
	e.Limits.LastReplica = e.System.Replicas == 1 || g.IntN(2) == 0
	e.Kubernetes.Holder = pick(g, nil, &HolderNames{Name: "{pod}_*"}, &HolderNames{Label: "x/who"}, &HolderNames{Annotation: "who"})
}

// onThisHost makes e one of somebody's own processes.
func (g generator) onThisHost(e *Experiment) {
	g.inPods(e)
	if !e.Observed() || e.Probes.Leases != (ProbeSettings{}) {
		return
	}
	e.Kubernetes, e.Limits.Namespaces, e.Probes.Logs, e.SLOs = nil, nil, nil, e.SLOs[:1]
	e.System.Processes = pick(g,
		&Processes{Match: g.name("m") + `--port (?P<port>\d+)`, Metrics: "http://127.0.0.1:{port}/metrics"},
		&Processes{PIDFiles: "/run/{name}.pid", Log: "/var/log/{name}.log"}, &Processes{Unit: "a@{name}.service"}, &Processes{Cgroup: "/a/{name}"},
		&Processes{Command: []string{"./replicas", g.text() + "x"}})
	e.System.Processes.Grace = g.duration()
	e.System.Holder = pick(g, []HolderSource{{Value: &HolderValue{Is: "{pid}-*"}}, {Command: &HolderCommand{Run: []string{"who", "{key}"}, Within: 1}}},
		[]HolderSource{{Proxy: &HolderProxy{API: "unix:" + g.text() + "x"}}})
	for i := range e.Faults {
		e.Faults[i].For, e.Faults[i].Spec = 0, &fault.Kill{HolderOf: e.System.Locks[0].Name, Phase: fault.RandomPhase, How: fault.Crash}
	}
}

// The sources that say who holds stand in the resolved file as they were read, patterns that look like secrets too.
func TestHoldersAreResolvedAsTheyStand(t *testing.T) {
	e, err := Load("testdata/holders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("experiment.yaml", data)
	if err != nil || !reflect.DeepEqual(again.System.Holder, e.System.Holder) {
		t.Errorf("%v: %s", err, data)
	}
}

// What a run writes down of a rollout, it reads again: judge and export rest on it.
func TestARolloutComesBack(t *testing.T) {
	e, err := Parse("rollout.yaml", []byte(`apiVersion: lockdrill/v1
kind: Experiment
name: rollout
kubernetes: {namespace: shop, selector: {app: shop}}
system:
  mode: observe
  replicas: 3
  locks:
    - {name: leader, profile: kubernetes/leader-election, lease: leader}
faults:
  - {id: roll, at: 10s, rolling_restart: {rollout: deployment/shop}}
slos:
  - {lock: leader, takeover: {max: 95s}}
`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse("resolved.yaml", text); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}
