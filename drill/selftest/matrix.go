package selftest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/mutants"
)

// Case is one row of the matrix: who meets what, and what must be said of it.
type Case struct {
	Animal string // a mutant; "" = a control: the class itself
	Class  string // the shipped profile lockdrill/CLASS that the animal is made of
	Scene  Scene
	Flag   string   // what must turn red: a row of the verdict by its name; "" = nothing may
	follow []string // with it: all that may, but for what the fault turns red in any lock
}

// Name is what --only knows the case by.
func (c *Case) Name() string {
	if c.Animal == "" {
		return c.Class
	}
	return c.Animal
}

const critical = "critical"

// classes are the shipped ones: the controls.
var classes = []string{critical, "standard", "continuity"}

// Matrix is the whole table: each animal with the fault that reveals it, and each control with every fault.
func Matrix() []Case {
	cases := animals()
	for _, class := range classes {
		for _, s := range scenes() {
			if s.Frame == nil || class == critical { // a frame has a policy of its own
				cases = append(cases, Case{Class: class, Scene: s})
			}
		}
	}
	return cases
}

// animals are the mutants, each where it shows, once for each row that must turn red there.
func animals() (cases []Case) {
	for _, m := range mutants.All() {
		for _, show := range m.Shows {
			for flag := range strings.FieldsSeq(show.Red) {
				cases = append(cases, Case{Animal: m.Name, Class: cmp.Or(show.Class, critical), Scene: sceneOf(show.Scene), Flag: flag,
					follow: strings.Fields(show.Red + " " + show.Also)})
			}
		}
	}
	return cases
}

// Experiment is the drill of the case, as loaded.
func (c *Case) Experiment() (*experiments.Experiment, error) {
	e, err := experiments.Parse("selftest", c.Scene.file(c.Class))
	if err != nil {
		return nil, err
	}
	if a, known := mutants.Find(c.Animal); known && a.Policy != nil {
		a.Policy(&e.System.Locks[0].Policy)
	}
	return e, nil
}

// Excused are the rows that may turn red all the same: those that the scene's faults redden in any lock and, of a control, those that
// its class does not promise.
func (c *Case) Excused(e *experiments.Experiment) []string {
	var rows []string
	for i := range e.Faults {
		rows = append(rows, e.Faults[i].Traits().Reddens()...)
	}
	if c.Animal == "" && c.Class == "continuity" { // its work goes on without the lock, and says so
		rows = append(rows, "abandonment", "fence_lag", "not_owned", "overlap.effect", "overlap.work", "unowned_work")
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}
