// Package mutants is locks that are wrong on purpose: each is the core with one mistake that locks in the field have, or that a worker's
// report of itself has. They show that a drill can tell.
//
// A mutant departs from the core at the seams that lockcore.Variant names, so that the core has no flag for it. The package knows no
// drill and judges nothing: where a mutant shows, and by what, it says by name. Its one invariant: but for its one mistake a mutant is
// the core.
package mutants

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/work"
)

// Mutant is one lock with one mistake.
type Mutant struct {
	Name string
	Does string // the mistake, in a sentence without its subject

	Shows   []Show
	Told    string                   // the drill worker-check names it by one of these rules of the worker protocol; "" = by none for sure
	Policy  func(p *lockcore.Policy) // nil = as it is; what a team might write into its file
	Variant lockcore.Variant
	Work    work.Wrong // what its worker does around the lock
	// What Variant.Rules are in virtual time, for a real Redis: scripts in place of the core's, on the lock's key and its fence's, with the
	// token and the TTL in ms, or the core's store with something done to its calls.
	Lua   map[lockcore.Op]string
	Store func(core lockcore.Store, now func() time.Time) lockcore.Store
	// Tell is how a replica tells of itself: made for each life, it hands on what is to be heard of an event. nil = the truth.
	Tell func() func(e history.Event, hand func(history.Event))
	// Edit changes what probes show of what else the service tells: its metrics, its logs, its alerts. nil = the truth.
	Edit func(e *history.Event)
}

// Show is what reveals a mutant, and exactly what a verdict then holds against it. Rows are divided by spaces.
type Show struct {
	Class string // the shipped class that the mutant is made of; "" = critical
	Scene string // what befalls it, by the name that package selftest has for it
	Red   string // these must turn red, each time
	Also  string // these may, since they follow; no others
}

// All are the mutants, those of the lock before those that lie.
func All() []Mutant {
	return slices.Concat(policies(), attempts(), stores(), drivers(), liars())
}

// Find is the mutant of that name.
func Find(name string) (Mutant, bool) {
	for _, a := range All() {
		if a.Name == name {
			return a, true
		}
	}
	return Mutant{}, false
}

// Names are the names of all mutants, in order.
func Names() []string {
	var names []string
	for _, a := range All() {
		names = append(names, a.Name)
	}
	return names
}
