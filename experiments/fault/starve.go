package fault

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Starve takes the processor from a replica for Share of each Period, by SIGSTOP and SIGCONT: a quota that is too small, or a host
// that is too full.
type Starve struct {
	Aim
	Share  float64       `rule:"required,positive,max=0.99"` // of each period that the replica stands still
	Period time.Duration `rule:"positive" scale:"yes"`       // as that of a container's quota
}

// leastPeriod is what can still be divided by signals, and seen in /proc.
const leastPeriod = 20 * time.Millisecond

func newStarve(string, string) Spec { return &Starve{Period: 100 * time.Millisecond} }

func (*Starve) Kind() string { return "starve" }
func (*Starve) Form() string { return "" }
func (s *Starve) Magnitude() string {
	return fmt.Sprintf("%.3g%% of each %s", 100*s.Share, figures.Spell(s.Period))
}

// Stood is for how long of each period the replica stands still.
func (s *Starve) Stood() time.Duration { return time.Duration(s.Share * float64(s.Period)) }

// Traits: it never stands still the whole time, and which instants were its nobody knows afterwards.
func (s *Starve) Traits() Traits {
	return Traits{Class: ClassPause, Noun: "starvation", GoesOn: "a replica is starved until it is ended", InVictim: true, Stands: min(max(s.Share, 0.01), 0.99)}
}

// Whom: a record undoes one process.
func (*Starve) Whom() string { return "holder_of or replica" }

func (*Starve) Barred(a Around) string { return notStopped(a, "the starvation") }

func (s *Starve) Check(c Checker) {
	s.check(c, s.Whom(), true)
	if s.All && s.HolderOf == "" && s.Replica == "" {
		c.Check("all", "one replica is starved at a time: %s", s.Whom())
	}
	around := c.Around()
	if took := vocab.Scaled(s.Period, around.TimeScale); s.Period > 0 && took < leastPeriod {
		c.Check("period", "%s, after time_scale, is under %s, the least that signals can divide", figures.Spell(took), figures.Spell(leastPeriod))
	}
	if around.For > 0 && s.Period > around.For {
		c.Check("period", "%s is over for %s: no period would come to its end", figures.Spell(s.Period), figures.Spell(around.For))
	}
}

func (s *Starve) Describe(bool) Description {
	return Description{fmt.Sprintf("the replica stands still for %s of each %s (SIGSTOP and SIGCONT), as one without its share of the processor", figures.Spell(s.Stood()), figures.Spell(s.Period)),
		"how long all its threads were seen to stand still, added up: at least 80% of what was asked for", "SIGCONT; the process goes on, which is read back"}
}

func (*Starve) Action(s Shot) string {
	return "starved " + s.Victim + s.held() + " (stopped for " + s.Configured + ")" + s.lasting()
}

func (*Starve) Measured(m Measured) string { return m.as("stood still for") }
