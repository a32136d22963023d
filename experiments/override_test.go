package experiments

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A value of the command line stands in the experiment, and so in its resolved file: in a section, in an entry of a list by its name, id,
// lock or number, and where the file has nothing.
func TestOverride(t *testing.T) {
	e, err := ParseWith("good.yaml", []byte(good(t)), []string{
		"system.replicas=5", "system.locks.leader.poll=7s", "slos.0.takeover.max=3m", "faults.kill-leader.at=11s", "limits.max_run=20m", "redis={mode: spawn}", "time_scale=0.5",
	})
	if err != nil {
		t.Fatal(err)
	}
	if e.System.Replicas != 5 || e.Lock("leader").Policy.Loop.Poll != 7*time.Second || *e.SLOs[0].Takeover.Max != 3*time.Minute || e.Faults[0].At != 11*time.Second ||
		e.Limits.MaxRun != 20*time.Minute || e.Redis.Mode != RedisSpawn || e.TimeScale != 0.5 {
		t.Errorf("%+v", e)
	}
	resolved, err := Marshal(e)
	if err != nil || !strings.Contains(string(resolved), "replicas: 5") || !strings.Contains(string(resolved), "at: 11s") {
		t.Errorf("%v\n%s", err, resolved)
	}
}

// What is wrong with such a value has its place in the flag, and a secret in it is not shown.
func TestOverrideProblems(t *testing.T) {
	for set, want := range map[string]string{
		"system.replicas=many":                             "--set:1:17: system.replicas: a whole number is wanted",
		"system.replicas=0":                                "--set:1:17: system.replicas: 0 is too little",
		"system.replica=3":                                 "--set:1:8: system.replica: unknown field: did you mean \"replicas\"?",
		"system.locks.leder.poll=2s":                       "--set:1:14: the list has no entry \"leder\": did you mean \"leader\"?",
		"slos.9.takeover.max=3s":                           "--set:1:6: the list has no entry 9: they go from 0 to 0",
		"system.locks[0].poll=2s":                          "--set:1:13: an entry of a list has a dot before it, and no brackets",
		"system..replicas=3":                               "--set:1:1: is no field and value",
		".name=x":                                          "--set:1:1: is no field and value",
		"description=a\n---\nb":                            "--set:1:13: the value is one YAML document",
		"description=\"\"":                                 "--set:1:13: description: is empty",
		"system.locks.leader.name.first=x":                 "--set:1:26: what is set there is a single value",
		"system.locks.leader.poll=":                        "--set:1:26: the value is missing",
		"system.locks.leader.poll=[":                       "--set:1:26: the value is no YAML: a value is missing",
		"system.replicas":                                  "--set:1:1: is no field and value",
		"redis={mode: external, url: redis://u:hunter2@h}": "--set:1:29: redis.url: user and password do not stand in a file",
		"slos.0.lock=nobody":                               "--set:1:13: slos[0].lock: no lock is called",
		"time_scale=&a 1":                                  "--set:1:12: anchors",
	} {
		_, err := ParseWith("good.yaml", []byte(good(t)), []string{set})
		var problems Problems
		if !errors.As(err, &problems) || !strings.HasPrefix(problems[0].String(), want) || strings.Contains(problems.Error(), "hunter2") {
			t.Errorf("%s: %v\nwant %s", set, err, want)
		}
	}
	twice := strings.Replace(good(t), "slos:\n", "slos:\n  - {lock: leader, fence_lag: {max: 1s}}\n", 1)
	if _, err := ParseWith("good.yaml", []byte(twice), []string{"time_scale=1", "slos.leader.takeover.max=3s"}); err == nil || !strings.HasPrefix(err.Error(), "--set:2:6: 2 entries of the list are called leader") {
		t.Errorf("two of one name: %v", err)
	}
}
