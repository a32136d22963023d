package experiments

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/scenarios"
)

func TestParseGameDay(t *testing.T) {
	const file = "testdata/gamedays/good.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ParseGameDay(file, data)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Steps) != 3 || !g.Steps[1].Optional || g.Roles["watches"] != "Ben" || len(g.StopWhen.Exit) != 2 {
		t.Errorf("read %+v", g)
	}
	schema, err := GameDaySchema()
	if problem, ok := against(t, compiled(t, schema, err), data); !ok || problem != nil {
		t.Errorf("the schema does not take it: %v", problem)
	}
}

func TestShippedGameDays(t *testing.T) {
	names := scenarios.GameDays()
	for _, name := range names {
		data, _ := scenarios.GameDay(name)
		if g, err := ParseGameDay(name, data); err != nil || g.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(names) == 0 {
		t.Error("no game day is shipped")
	}
}

func TestBadGameDays(t *testing.T) {
	badFiles(t, "gamedays", 3, func(file string, data []byte) error { _, err := ParseGameDay(file, data); return err })
}

// badFiles holds the problems of each file of testdata/KIND/bad to the text beside it.
func badFiles(t *testing.T, kind string, n int, parse func(file string, data []byte) error) {
	t.Helper()
	files, err := filepath.Glob("testdata/" + kind + "/bad/*.yaml")
	if err != nil || len(files) != n {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var problems Problems
		if err := parse(filepath.Base(file), data); !errors.As(err, &problems) {
			t.Fatalf("%s: %v, want Problems", file, err)
		}
		golden, got := strings.TrimSuffix(file, ".yaml")+".txt", problems.Error()+"\n"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || got != string(want) {
			t.Errorf("messages of %s (%v):\n%s", file, err, got)
		}
		if strings.Contains(got, "hunter2") {
			t.Error("a message carries a secret")
		}
	}
}

func TestKindOf(t *testing.T) {
	for text, want := range map[string]string{"kind: GameDay\n": KindGameDay, "# x\nkind: Experiment\nname: x\n": KindExperiment, "name: x\n": "", "kind: [": "", "": ""} {
		if got := KindOf([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
