package selftest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/lockcore/zoo"
)

// The whole table, in virtual time.
func TestEveryAnimalIsFoundOutAndNoControlIsAccused(t *testing.T) {
	results, err := Run(context.Background(), Matrix(), Rehearsed{Seeds: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Outcome != Right {
			t.Errorf("%s: %s, %s: want %s %s; saw %s (%s)", r.Outcome, r.Animal, r.Fault, r.Measure, r.Expected, r.Seen, r.Evidence)
		}
	}
}

// A measure that the fault turns red in any lock would show nothing of the animal.
func TestNoAnimalIsFoundOutByWhatItsFaultDoesToAnyLock(t *testing.T) {
	for _, c := range animals() {
		e, err := c.Experiment()
		if err != nil {
			t.Fatal(err)
		}
		if excused(c.Excused(e), c.Flag) {
			t.Errorf("%s: %s turns %s red in any lock", c.Animal, c.Scene.Name, c.Flag)
		}
	}
}

func TestEveryAnimalOfTheZooHasACase(t *testing.T) {
	named := map[string]bool{}
	for _, c := range animals() {
		if _, known := zoo.Find(c.Animal); !known {
			t.Errorf("no animal is called %s", c.Animal)
		}
		named[c.Animal] = true
	}
	for _, name := range zoo.Names() {
		if !named[name] {
			t.Errorf("%s has no case", name)
		}
	}
}

// The table of docs/selftest.md is the matrix.
func TestTheDocumentHasTheTable(t *testing.T) {
	const path = "../../docs/selftest.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const head, tail = "| animal | its mistake | fault | measure |\n|---|---|---|---|\n", "\n## Add an animal"
	before, rest, found := strings.Cut(string(doc), head)
	_, after, closed := strings.Cut(rest, tail)
	if !found || !closed {
		t.Fatalf("%s has no table", path)
	}
	var b strings.Builder
	for _, c := range animals() {
		a, _ := zoo.Find(c.Animal)
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", a.Name, a.Does, c.Scene.Name, c.Flag)
	}
	want := before + head + b.String() + tail + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(doc) != want {
		t.Errorf("%s: its table is not the matrix: go test ./experiments/selftest -update", path)
	}
}

var update = flag.Bool("update", false, "write the table of docs/selftest.md")
