package scenarios_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/scenarios"
)

func TestEveryScenarioIsValid(t *testing.T) {
	list := scenarios.List()
	if len(list) < 4 {
		t.Fatalf("%d scenarios, want at least 4", len(list))
	}
	for _, info := range list {
		data, ok := scenarios.Get(info.Name)
		if !ok {
			t.Fatalf("%s is listed and not there", info.Name)
		}
		e, err := experiments.Parse(info.Name+".yaml", data)
		if err != nil {
			t.Errorf("%s:\n%v", info.Name, err)
			continue
		}
		if !strings.HasPrefix(string(data), experiments.Modeline) {
			t.Errorf("%s does not begin with the line by which editors find the schema:\n%s", info.Name, experiments.Modeline)
		}
		if !slices.Contains(scenarios.Groups(), info.Group) {
			t.Errorf("%s is in no group of the list", info.Name)
		}
		if e.Name != info.Name {
			t.Errorf("%s calls itself %s", info.Name, e.Name)
		}
		if strings.Contains(info.Title+info.Summary, "\n") || len(info.Summary) > 140 {
			t.Errorf("%s: title and summary are one line each", info.Name)
		}
		hooks := slices.ContainsFunc(e.Faults, func(f experiments.Fault) bool { return f.Kind() == "hook" })
		if foreign := e.Kubernetes != nil || e.Redis.Mode == experiments.RedisExternal; (foreign || hooks) != (info.Needs != "") {
			t.Errorf("%s needs %q, foreign targets: %t, hooks: %t", info.Name, info.Needs, foreign, hooks)
		}
		if !slices.Contains([]int{0, 10, 11, 20}, info.Expect) {
			t.Errorf("%s expects exit code %d", info.Name, info.Expect)
		}
	}
}

func TestFirstDrillKillsTenHolders(t *testing.T) {
	data, _ := scenarios.Get("first-drill")
	e, err := experiments.Parse("first-drill.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	kills, loops := 0, 0
	for _, f := range e.Faults {
		kills += f.Repeat.Count
	}
	for _, l := range e.System.Locks {
		if l.Loop() {
			loops++
		}
	}
	if kills < 10 || loops != 1 || len(e.System.Work) != 1 || !e.System.Work[0].Fenced {
		t.Errorf("%d kills, %d loops, work %+v: want at least 10 kills, one loop, one fenced stream of jobs", kills, loops, e.System.Work)
	}
}

// A page of a runbook that is about one drill is called like it, and the index has it.
func TestRunbookPagesAreOfScenarios(t *testing.T) {
	index, err := os.ReadFile("../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, info := range scenarios.List() {
		page, err := os.ReadFile("../docs/runbooks/" + info.Name + ".md")
		if err != nil {
			continue // the drills of the profiles share their pages
		}
		pages++
		if !strings.HasPrefix(string(page), "# `"+info.Name+"`: ") || !strings.Contains(string(page), "**Replaces** ") || !strings.Contains(string(page), "**Read**") {
			t.Errorf("%s.md does not say what it is about, what it replaces and what to read", info.Name)
		}
		if !strings.Contains(string(index), "[`"+info.Name+"`]("+info.Name+".md)") {
			t.Errorf("the index of the runbooks does not have %s", info.Name)
		}
	}
	if pages < 10 {
		t.Errorf("%d pages are about one drill, want at least 10", pages)
	}
}

func TestGetUnknown(t *testing.T) {
	for _, name := range []string{"", "no-such", "../go", "first-drill.yaml"} {
		if _, ok := scenarios.Get(name); ok {
			t.Errorf("Get(%q) found something", name)
		}
	}
}
