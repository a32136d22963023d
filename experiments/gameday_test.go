package experiments

import (
	"os"
	"testing"

	"github.com/lockdrill/lockdrill/scenarios"
)

func TestParseGameDay(t *testing.T) {
	const file = "testdata/gamedays/good.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ParseGameDay(file, data, nil)
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
		if g, err := ParseGameDay(name, data, nil); err != nil || g.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(names) == 0 {
		t.Error("no game day is shipped")
	}
}

func TestKindOf(t *testing.T) {
	for text, want := range map[string]string{"kind: GameDay\n": KindGameDay, "# x\nkind: Experiment\nname: x\n": KindExperiment, "name: x\n": "", "kind: [": "", "": ""} {
		if got := KindOf([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
