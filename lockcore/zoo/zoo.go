// Package zoo is locks that are wrong on purpose: each is the core with one mistake that locks in the field have, or that a worker's
// report of itself has. They show that a drill can tell.
//
// An animal departs from the core at the seams that lockcore.Variant names, so that the core has no flag for it. The package knows no
// drill and judges nothing. Its one invariant: but for its one mistake an animal is the core.
package zoo

import (
	"slices"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Animal is one lock with one mistake.
type Animal struct {
	Name string
	Does string // the mistake, in a sentence without its subject

	Policy  func(p *lockcore.Policy) // nil = as it is; what a team might write into its file
	Variant lockcore.Variant
	Store   Store // what its store does in place of the core's; "" = the core's. Variant.Rules are the same in virtual time
	// Tell is how a replica tells of itself: made for each life, it hands on what is to be heard of an event. nil = the truth.
	Tell func() func(e history.Event, hand func(history.Event))
}

// Store names the rules that a store has in place of the core's.
type Store string

// All are the animals, those of the lock before those that lie.
func All() []Animal {
	return slices.Concat(policies(), attempts(), stores(), drivers(), liars())
}

// Find is the animal of that name.
func Find(name string) (Animal, bool) {
	for _, a := range All() {
		if a.Name == name {
			return a, true
		}
	}
	return Animal{}, false
}

// Names are the names of all animals, in order.
func Names() []string {
	var names []string
	for _, a := range All() {
		names = append(names, a.Name)
	}
	return names
}
