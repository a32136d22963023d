package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
)

// Each fault that can be done to somebody's processes on this host is done, seen and undone: asked to end, its key taken away as its Redis
// allows by name, and by commands of its owner's.
func TestLiveSomebodysProcessesAreStruckInEachWay(t *testing.T) {
	t.Parallel()
	service := startElectors(t)
	dir, hook := hookFolder(t)
	yaml := edit(t, fmt.Sprintf(foreignDrill, service.port), "  - {id: crash, at: 0s, kill: {holder_of: leader}, repeat: {count: 3, every: settled}}\n",
		"  - {id: asked, at: 0s, kill: {holder_of: leader, form: graceful}}\n  - {id: taken, at: 3s, delete_key: {holder_of: leader}}\n"+
			"  - {id: hooked, at: 6s, for: 2s, "+strings.Replace(hook, "holder_of: loop", "holder_of: leader", 1)+"}\nallow_overlap: [[asked, taken], [asked, hooked], [taken, hooked]]\n",
		fmt.Sprintf("127.0.0.1:%s\"}", service.port), fmt.Sprintf("127.0.0.1:%s\", allow: [delete_key]}", service.port))
	s := readStruck(t, runDrill(t, yaml, nil, foreignConsent...))
	confirmed := map[string]*history.Fault{}
	for _, e := range s.events {
		if e.Kind == history.FaultConfirmed {
			confirmed[e.Fault.ID] = e.Fault
		}
	}
	for _, id := range []string{"asked", "taken", "hooked"} {
		if confirmed[id] == nil {
			t.Fatalf("%s was not confirmed\n%s", id, s.text)
		}
	}
	if d := confirmed["asked"].Death; d == nil || d.End == nil || d.Means != "signal" || d.By != history.ByKernel {
		t.Errorf("death %+v", d)
	}
	if service.died() != 1 {
		t.Errorf("%d of somebody's processes have died, want the one that was asked to end", service.died())
	}
	if steps := stepsOf(t, dir); !strings.Contains(steps, "do hooked#1 sched-") || !strings.Contains(steps, "undo hooked#1 sched-") {
		t.Errorf("steps of the hook:\n%s", steps)
	}
	if _, err := os.Stat(filepath.Join(dir, "on")); err == nil {
		t.Error("the hook was not undone")
	}
}
