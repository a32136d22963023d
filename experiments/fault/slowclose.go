package fault

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// SlowClose keeps connections from closing for Delay.
type SlowClose struct {
	Aim
	Delay  time.Duration `rule:"required,positive" scale:"yes"`  // so much later connections close
	Stream Stream        `rule:"words=upstream|downstream|both"` // upstream: requests; downstream: replies
}

func newSlowClose(form, _ string) Spec { return &SlowClose{Stream: cmp.Or(Stream(form), StreamDown)} }

func (*SlowClose) Kind() string        { return "slow_close" }
func (s *SlowClose) Form() string      { return string(s.Stream) }
func (s *SlowClose) Magnitude() string { return figures.Spell(s.Delay) + " " + string(s.Stream) }

func (s *SlowClose) Wire() Wire     { return Wire{Stream: s.Stream, Linger: s.Delay} }
func (s *SlowClose) Traits() Traits { return onWays(s.Wire()) }

func (*SlowClose) Barred(a Around) string { return noProxy(a) }

func (s *SlowClose) Check(c Checker) {
	checkFine(c, "delay", s.Delay)
	s.checkWay(c)
}

func (s *SlowClose) Describe(bool) Description {
	return Description{fmt.Sprintf("connections stay open for %s after one side has closed them", figures.Spell(s.Delay)),
		"the close of a connection through the proxy is measured before and during it, and the replica is connected through it", toxicOff}
}

func (s *SlowClose) Action(shot Shot) string  { return onTheWay(s, shot) }
func (*SlowClose) Measured(m Measured) string { return m.onWay("closing took") }
