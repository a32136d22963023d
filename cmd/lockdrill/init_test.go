package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/scenarios"
)

func TestInitWritesWhatValidates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, args := range map[string]string{
		"a.lockdrill.yaml":           `--redis redis://h:6379 --lock leader=sched:leader --ttl 60s --renew-every 20s --poll 30s --match sched\.py --replicas 5`,
		"b.lockdrill.yaml":           `--redis rediss://h:6379/2 --password-env P --ca ca.pem --lock sched:leader --profile cordum/scheduler-reconciler --unit sched@{name}.service`,
		"c.lockdrill.yaml":           `--namespace shop --selector app=web,tier=front --lease billing --ttl 15s --renew-every 2s`,
		"d.lockdrill.yaml":           `--redis redis://h:6379 --lock job=sched:job:* --effects-stream jobs:log --effects-map job=id,state=status,terminal=DONE|FAILED --pid-files /run/{name}.pid`,
		"e.lockdrill.yaml":           `--redis redis://h:6379 --lock job=sched:job:*`, // who tells of the jobs is assumed
		"first-drill.lockdrill.yaml": `--from first-drill`,
	} {
		command := append([]string{"init"}, strings.Fields(args)...)
		if !strings.HasPrefix(args, "--from") { // its file has the scenario's name
			command = append(command, file)
		}
		if got := tryIn(t, dir, command...); got.code != verdict.ExitPass || got.stdout != "" || !strings.Contains(got.stderr, "wrote "+file) {
			t.Errorf("init %s: %+v", args, got)
			continue
		}
		data := read(t, filepath.Join(dir, file))
		unsaid := experiments.UnsaidIn(data) > 0
		if _, err := experiments.Parse(file, data); (err != nil) != unsaid || !strings.HasPrefix(string(data), experiments.Modeline) {
			t.Errorf("init %s: %v\n%s", args, err, data)
		}
		if got := tryIn(t, dir, command...); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, file+" is there already") {
			t.Errorf("init %s, again: %+v", args, got)
		}
		if got := tryIn(t, dir, append(command, "--force")...); got.code != verdict.ExitPass {
			t.Errorf("init %s --force: %+v", args, got)
		}
		if again, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(again) != string(data) {
			t.Errorf("init %s: the same flags give another file (%v)", args, err)
		}
	}
	isThere(t, filepath.Join(dir, experiments.SchemaFile))
	if got := tryIn(t, dir, "validate", "e.lockdrill.yaml"); got.code != verdict.ExitUsage || strings.Count(got.stderr, "still to be said") != 2 {
		t.Errorf("a draft with what nobody said: %+v", got)
	}
	if got := tryIn(t, dir, "init", "--from", "first-drill", "mine.lockdrill.yaml"); got.code != verdict.ExitPass || !strings.Contains(string(read(t, filepath.Join(dir, "mine.lockdrill.yaml"))), "\nname: mine\n") {
		t.Errorf("init --from has the name of its scenario: %+v", got)
	}
}

func TestInitStartsFromEveryScenario(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, s := range scenarios.List() {
		file := filepath.Join(dir, s.Name+".yaml")
		var e *experiments.Experiment
		err := copyScenario(streams{Err: new(strings.Builder)}, s.Name, "mine", file, false)
		if err == nil {
			e, err = experiments.Load(file)
		}
		if err != nil || e.Name != "mine" {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}
