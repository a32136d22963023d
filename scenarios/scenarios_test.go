package scenarios_test

import (
	"os"
	"path/filepath"
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
		if info.Group == "" {
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

// A part of a runbook that is about one drill is called like it and says what to read, and the index leads to it.
func TestRunbooksAreOfScenarios(t *testing.T) {
	pages, err := filepath.Glob("../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile("../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := 0
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(page), "\n## `")[1:] {
			name, said, _ := strings.Cut(part, "`")
			parts++
			if _, ok := scenarios.Get(name); !ok {
				t.Errorf("%s is about %s, which is no scenario", path, name)
			}
			if !strings.Contains(said, "**Read**") {
				t.Errorf("%s: %s does not say what to read", path, name)
			}
			if !strings.Contains(string(index), "[`"+name+"`]("+filepath.Base(path)+"#"+name+")") {
				t.Errorf("the index of the runbooks does not have %s", name)
			}
		}
	}
	if parts < 10 {
		t.Errorf("%d parts are about one drill, want at least 10", parts)
	}
}

func TestGetUnknown(t *testing.T) {
	for _, name := range []string{"", "no-such", "../go", "first-drill.yaml"} {
		if _, ok := scenarios.Get(name); ok {
			t.Errorf("Get(%q) found something", name)
		}
	}
}
