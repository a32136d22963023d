package fault

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Clock moves the wall clock of a replica as its lock core sees it, until its time is up.
type Clock struct {
	Aim
	Offset time.Duration `rule:"required,signed" scale:"yes"` // of the wall clock; may be negative
}

func newClock(string, string) Spec { return &Clock{} }

func (*Clock) Kind() string        { return "clock" }
func (*Clock) Form() string        { return "" }
func (k *Clock) Magnitude() string { return figures.Spell(k.Offset) }

func (*Clock) Traits() Traits {
	return Traits{Noun: "fault", GoesOn: "a clock stays wrong until it is set right", InVictim: true}
}

func (*Clock) Barred(a Around) string {
	if a.Observed {
		return "is done by a worker that is told to, and observed replicas take no commands" + instead
	}
	return ""
}

func (k *Clock) Check(c Checker) {
	k.check(c, k.Whom(), true)
	if k.Offset == 0 {
		c.Check("offset", "0s moves nothing")
	}
}

func (k *Clock) Describe(bool) Description {
	return Description{fmt.Sprintf("the wall clock of the replica's lock core is off by %s", figures.Spell(k.Offset)),
		"the replica reports its offset", "the replica is told to go by its own clock again, and ends that by itself when the time is up"}
}

func (*Clock) Action(s Shot) string {
	return fmt.Sprintf("wall clock of %s off by %s%s", s.Victim, cmp.Or(s.Configured, "an offset"), s.lasting())
}

func (*Clock) Measured(m Measured) string { return m.as("off by") }
