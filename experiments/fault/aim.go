package fault

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Aim says whom a fault strikes: at most one of HolderOf, Replica, All, Some and Pods is set, but pods may be some as well. The zero Aim
// is the locks' store itself, or, of a fault of the network, every replica.
type Aim struct {
	HolderOf string // whoever holds this lock when the fault is fired
	Replica  string `rule:"ident"` // by its name, such as r2
	All      bool   `rule:"omit"`  // every replica

	Pods string `file:"-"` // labels of the pods of which one is struck, as Labels spells them
	Pick Pick   `file:"-"` // with Pods: which of them

	Some Some `file:"-"` // any so many of the replicas, or of those pods
}

// Some is how many replicas are struck at once: Count of them, or Percent; neither = as the rest of the Aim says.
type Some struct {
	Count   int
	Percent float64
}

// Of is how many of n that is: a share is rounded up, and is at least one.
func (s Some) Of(n int) int {
	if s.Percent > 0 {
		return max(1, int(math.Ceil(s.Percent*float64(n)/100-1e-9)))
	}
	return s.Count
}

func (s Some) String() string {
	if s.Percent > 0 {
		return fmt.Sprintf("%g%%", s.Percent)
	}
	return fmt.Sprint(s.Count)
}

// Several reports whether a fault may strike more than one replica at once, each by itself.
func (a Aim) Several() bool { return a.All || a.Some != (Some{}) }

// Pick says which of several pods is struck.
type Pick string

const (
	PickRandom Pick = "random"
	PickOldest Pick = "oldest"
	PickNewest Pick = "newest"
)

// Aimed is a fault that leaves a choice of whom it strikes.
type Aimed interface {
	Spec
	AimAt() *Aim
}

// AimAt is the choice itself.
func (a *Aim) AimAt() *Aim { return a }

// Target is whom the fault strikes.
func (a *Aim) Target() Aim { return *a }

// Whom a file may name; those with a question mark may be left out.
const (
	anybody = "holder_of, replica or all: true"
	ways    = "?" + anybody
	one     = "holder_of or replica"
	group   = "holder_of, replica, all: true, count or percent"
	nobody  = "?holder_of, replica or neither"
)

// check holds whom a section names against whom it may.
func (a *Aim) check(c Checker, section any, whom string) {
	words, open := strings.CutPrefix(whom, "?")
	given := said(section, "holder_of", "replica", "all")
	if words == group {
		given = append(given, said(section, "count", "percent")...)
	}
	switch {
	case len(given) > 1:
		c.Check("", "has %s: a fault strikes one of %s", strings.Join(given, " and "), words)
	case len(given) == 0 && whom == ways && c.Given("all"):
		c.Check("all", "false strikes nobody: leave it out, or say holder_of or replica")
	case len(given) == 0 && !open:
		c.Check("", "does not say whom it strikes: %s", words)
	}
	if a.HolderOf != "" {
		c.Lock("holder_of", a.HolderOf)
	}
	if names := c.Around().Replicas; a.Replica != "" && names != nil && !slices.Contains(names, a.Replica) {
		c.Check("replica", "no replica is called %q: there are r1 to r%d", a.Replica, len(names))
	}
}

// only is the law of a fault that strikes one at a time.
func only[F any](says, words string, aim func(*F) *Aim) Constraint {
	return breaks("all", says+": "+words, func(f *F, _ Checker) bool {
		a := aim(f)
		return a.All && (words != one || a.HolderOf == "" && a.Replica == "")
	})
}

// whom are the words of a form for one replica, or for several.
func (a Aim) whom() map[string]string {
	v := map[string]string{"whom": "the replica", "they_hold": "it holds", "their": "its"}
	if a.Several() {
		v = map[string]string{"whom": "every replica at once", "they_hold": "they hold", "their": "their"}
	}
	if a.Some != (Some{}) {
		v["whom"] = a.Some.String() + " of the replicas at once"
	}
	return v
}

// InWords is whom the fault strikes, in a person's words.
func (a Aim) InWords() string {
	switch {
	case a.HolderOf != "":
		return "whoever holds " + a.HolderOf + " then"
	case a.Replica != "":
		return "replica " + a.Replica
	case a.Pods != "" && a.All:
		return "all pods with " + a.Pods
	case a.Pods != "" && a.Some != (Some{}) && a.Pick != PickRandom:
		return "the " + a.Some.String() + " " + string(a.Pick) + " of the pods with " + a.Pods
	case a.Pods != "" && a.Some != (Some{}):
		return "any " + a.Some.String() + " of the pods with " + a.Pods
	case a.Some != (Some{}):
		return "any " + a.Some.String() + " of the replicas"
	case a.Pods != "" && (a.Pick == PickOldest || a.Pick == PickNewest):
		return "the " + string(a.Pick) + " of the pods with " + a.Pods
	case a.Pods != "":
		return "any one of the pods with " + a.Pods
	case a.All:
		return "every replica"
	}
	return "the locks' store"
}

// Fits reports whether a pod with these labels is one of those that the fault chooses among.
func (a Aim) Fits(labels map[string]string) bool {
	for pair := range strings.SplitSeq(a.Pods, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok && labels[key] != value {
			return false
		}
	}
	return true
}

// Labels spells labels as kubectl's -l does: "app=web,tier=front", in the order of their names.
func Labels(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ",")
}
