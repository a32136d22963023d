package forecast

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// classes are those of which there are faults.
type Classes struct {
	At         string // a lock
	aimed, any []string
}

func (c *Classes) Note(class, lock string) {
	c.any = append(c.any, class)
	if lock == c.At {
		c.aimed = append(c.aimed, class)
	}
}

// first is the class that comes first of those aimed at the lock, else of any.
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

// thingWord is what one fault of the kind is called in a count.
func ThingWord(kind string) string {
	switch kind {
	case experiments.KindKill, experiments.KindPause:
		return kind
	case experiments.KindRenewFailures:
		return "burst"
	case experiments.KindDeleteKey:
		return "deletion"
	}
	return "fault"
}

func ClassOf(kind, form string) string {
	switch kind {
	case experiments.KindKill:
		if form == experiments.FormGraceful {
			return verdict.ClassHandOver
		}
		return verdict.ClassCrash
	case experiments.KindDeleteKey:
		return verdict.ClassTheft
	case experiments.KindAcquireFailures, experiments.KindReleaseFailures, experiments.KindClock:
		return ""
	case experiments.KindStore:
		if do := experiments.StoreDo(form); do != experiments.StorePause && do != experiments.StoreFreeze {
			return verdict.ClassStore
		}
	}
	return verdict.ClassPause
}

// declaredClass is the class of the faults that are aimed at the holder of the lock, else of any that the file declares.
func declaredClass(faults []experiments.Fault, lock string) (class string, aimed bool) {
	declared := Classes{At: lock}
	for i := range faults {
		f := &faults[i]
		declared.Note(ClassOf(f.Kind(), f.Form()), f.Lock())
	}
	return declared.First()
}
