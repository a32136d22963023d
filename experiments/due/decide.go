package due

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Verb is what becomes of a drill that is due.
type Verb string

const (
	Start      Verb = "start"
	Wait       Verb = "wait"
	Missed     Verb = "missed"     // nobody was there to start it
	Skipped    Verb = "skipped"    // the schedule, or a run that has the target, leaves it out
	Blocked    Verb = "blocked"    // a condition was not quiet
	Unapproved Verb = "unapproved" // nobody approved its plan
)

// Facts are what is known of a drill that is due. Each question gives "" where nothing is in the way; the later ones are asked only if
// the earlier ones have nothing against it.
type Facts struct {
	Now        time.Time
	Waiting    bool          // it was due before, and has waited since
	Frozen     func() string // why nothing may start
	Unapproved func() string // why its plan counts as not approved
	Busy       func() string // which run has its target
	Loud       func() string // which condition is not quiet
}

// late is how much later than its time a drill is still on time.
const late = time.Minute

// Decide says what becomes of a drill that is due at a slot's time, and why.
func Decide(s *experiments.Schedule, p *experiments.Planned, slot Slot, f Facts) (Verb, string) {
	over := f.Now.Sub(slot.At) >= p.Wait
	if !f.Waiting && f.Now.Sub(slot.At) > max(p.Wait, late) {
		return Missed, fmt.Sprintf("the server was away when it was due; it was seen %s later", figures.Spell(f.Now.Sub(slot.At).Truncate(time.Second)))
	}
	if why := f.Frozen(); why != "" {
		return Skipped, why
	}
	if why := s.Shut(f.Now); why != "" {
		return Skipped, why
	}
	hold := func(instead Verb, why string) (Verb, string) {
		if !over {
			return Wait, why
		}
		if p.Wait > 0 {
			why += fmt.Sprintf(", and that was so after a wait of %s", figures.Spell(p.Wait))
		}
		return instead, why
	}
	if why := f.Unapproved(); why != "" {
		return hold(Unapproved, why)
	}
	if run := f.Busy(); run != "" {
		why := run + " has the target"
		if p.Overlap == experiments.OverlapSkip {
			return Skipped, why
		}
		return hold(Skipped, why)
	}
	if why := f.Loud(); why != "" {
		return hold(Blocked, why)
	}
	return Start, ""
}
