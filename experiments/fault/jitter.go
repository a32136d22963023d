package fault

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Jitter delays by anything from nothing to twice By.
type Jitter struct {
	Aim
	By     time.Duration `rule:"required,positive" scale:"yes"`  // delays from nothing to twice this
	Stream Stream        `rule:"words=upstream|downstream|both"` // upstream: requests; downstream: replies
}

func newJitter(form, _ string) Spec { return &Jitter{Stream: cmp.Or(Stream(form), StreamDown)} }

func (*Jitter) Kind() string        { return "jitter" }
func (j *Jitter) Form() string      { return string(j.Stream) }
func (j *Jitter) Magnitude() string { return "± " + figures.Spell(j.By) + " " + string(j.Stream) }

func (j *Jitter) Wire() Wire     { return Wire{Stream: j.Stream, Add: j.By, Jitter: j.By} }
func (j *Jitter) Traits() Traits { return onWays(j.Wire()) }

func (*Jitter) Barred(a Around) string { return noProxy(a) }

func (j *Jitter) Check(c Checker) {
	checkFine(c, "by", j.By)
	j.checkWay(c)
}

func (j *Jitter) Describe(bool) Description {
	return Description{fmt.Sprintf("%s are delayed by anything up to %s", j.Stream.words(), figures.Spell(2*j.By)), slower, toxicOff}
}

func (j *Jitter) Action(s Shot) string     { return onTheWay(j, s) }
func (*Jitter) Measured(m Measured) string { return m.onWay("the slowest round trip was") }
