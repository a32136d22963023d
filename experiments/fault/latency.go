package fault

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Latency delays what goes through by Add, give or take Jitter: in each direction that Stream names (default downstream).
type Latency struct {
	Aim
	Add    time.Duration `rule:"positive" scale:"yes"`           // delay
	Jitter time.Duration `rule:"positive" scale:"yes"`           // the delay varies by this, up and down
	Stream Stream        `rule:"words=upstream|downstream|both"` // upstream: requests; downstream: replies
}

func newLatency(form, _ string) Spec { return &Latency{Stream: cmp.Or(Stream(form), StreamDown)} }

func (*Latency) Kind() string   { return "latency" }
func (l *Latency) Form() string { return string(l.Stream) }

func (l *Latency) Magnitude() string {
	text := "+" + figures.Spell(l.Add)
	if l.Jitter > 0 {
		text += " ± " + figures.Spell(l.Jitter)
	}
	return text + " " + string(l.Stream)
}

func (l *Latency) Wire() Wire     { return Wire{Stream: l.Stream, Add: l.Add, Jitter: l.Jitter} }
func (l *Latency) Traits() Traits { return onWays(l.Wire()) }

func (*Latency) Barred(a Around) string { return noProxy(a) }

func (l *Latency) Check(c Checker) {
	checkFine(c, "add", l.Add)
	checkFine(c, "jitter", l.Jitter)
	l.checkWay(c)
	if l.Add == 0 && l.Jitter == 0 {
		c.Check("", "delays nothing: needs add, jitter, or both")
	}
}

func (l *Latency) Describe(bool) Description {
	does := fmt.Sprintf("%s are delayed by %s", l.Stream.words(), figures.Spell(l.Add))
	if l.Jitter > 0 {
		does += ", give or take " + figures.Spell(l.Jitter)
	}
	return Description{does, slower, toxicOff}
}

func (l *Latency) Action(s Shot) string     { return onTheWay(l, s) }
func (*Latency) Measured(m Measured) string { return m.onWay("") }
