package experiments

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// neverRenewed says why no holder of the lock ever renews it, or "".
func (c *checker) neverRenewed(l *Lock) string {
	p := &l.Policy
	first := time.Duration(float64(p.RenewEvery) * (1 - p.RenewJitter))
	if p.RenewEvery == 0 {
		return fmt.Sprintf("lock %s is not renewed (renew_every 0s)", l.Name)
	}
	if l.Loop() {
		if p.Loop.Mode != lockcore.LoopRenewed && p.Loop.Tick <= first {
			return fmt.Sprintf("lock %s is renewed only during a tick, and a tick of %s ends before the first renewal after %s",
				l.Name, figures.Spell(p.Loop.Tick), figures.Spell(first))
		}
		return ""
	}
	if w := c.e.WorkUnder(l.Name); w != nil {
		if constant, longest := w.constant(), w.Longest(); constant && longest > 0 && longest <= first {
			return fmt.Sprintf("work of %s under lock %s ends before the first renewal after %s",
				figures.Spell(longest), l.Name, figures.Spell(first))
		}
	}
	return ""
}
