package selftest

import (
	"context"
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
