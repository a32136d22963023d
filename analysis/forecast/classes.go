package forecast

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// Classes are those of which there are faults.
type Classes struct {
	At         string // a lock
	aimed, any []string
}

// Note takes a fault of a class that is aimed at the holder of a lock, or, "", at none.
func (c *Classes) Note(class, lock string) {
	c.any = append(c.any, class)
	if lock == c.At {
		c.aimed = append(c.aimed, class)
	}
}

// First is the class that comes first of those aimed at the lock, else of any.
func (c *Classes) First() (class string, aimed bool) {
	for _, of := range [][]string{c.aimed, c.any} {
		for _, class := range []string{verdict.ClassCrash, verdict.ClassHandOver, verdict.ClassPause, verdict.ClassTheft, verdict.ClassStore} {
			if slices.Contains(of, class) {
				return class, len(c.aimed) > 0
			}
		}
	}
	return verdict.ClassPause, false
}

// declaredClass is the class of the faults that are aimed at the holder of the lock, else of any that the file declares.
func declaredClass(faults []experiments.Fault, lock string) (class string, aimed bool) {
	declared := Classes{At: lock}
	for i := range faults {
		f := &faults[i]
		declared.Note(f.Traits().Class, f.Lock())
	}
	return declared.First()
}
