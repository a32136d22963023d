package fault

import (
	"cmp"
	"fmt"
)

// Bandwidth limits what goes through.
type Bandwidth struct {
	Aim
	Rate   int    `rule:"required,min=1,max=2e5"`         // kB/s
	Stream Stream `rule:"words=upstream|downstream|both"` // upstream: requests; downstream: replies
}

func newBandwidth(form, _ string) Spec { return &Bandwidth{Stream: cmp.Or(Stream(form), StreamDown)} }

func (*Bandwidth) Kind() string        { return "bandwidth" }
func (b *Bandwidth) Form() string      { return string(b.Stream) }
func (b *Bandwidth) Magnitude() string { return fmt.Sprintf("%d kB/s %s", b.Rate, b.Stream) }

func (b *Bandwidth) Wire() Wire     { return Wire{Stream: b.Stream, Rate: max(1, b.Rate)} }
func (b *Bandwidth) Traits() Traits { return onWays(b.Wire()) }

func (*Bandwidth) Barred(a Around) string { return noProxy(a) }
func (b *Bandwidth) Check(c Checker)      { b.checkWay(c) }

func (b *Bandwidth) Describe(bool) Description {
	return Description{fmt.Sprintf("%s pass at no more than %d kB/s", b.Stream.words(), b.Rate),
		"the time that some data takes through the proxy is measured before and during it, and the replica is connected through it", toxicOff}
}

func (b *Bandwidth) Action(s Shot) string     { return onTheWay(b, s) }
func (*Bandwidth) Measured(m Measured) string { return m.onWay("an echo of some data took") }
