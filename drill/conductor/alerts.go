package conductor

import (
	"regexp"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// alertRow is a row about alerts, as far as it is known how long the run must go on for it.
type alertRow struct {
	*experiments.SLO
	names  *regexp.Regexp
	told   bool            // somebody watches its alerts: nobody does in a rehearsal
	fired  bool            // after the steady state
	firing map[string]bool // by the alert's name
}

// alert takes note of what fires of one alert.
func (c *Conductor) alert(s *history.Sample) {
	for i := range c.alerts {
		r := &c.alerts[i]
		if !r.names.MatchString(s.Target) {
			continue
		}
		fires := false
		for _, v := range s.Values {
			fires = fires || r.Fires(v.Labels)
		}
		if r.told = true; r.firing == nil {
			r.firing = map[string]bool{}
		}
		if delete(r.firing, s.Target); fires {
			r.firing[s.Target] = true
			r.fired = r.fired || c.phase != history.PhaseSteady
		}
	}
}

// alertsAt is until when the settle phase waits for alerts to fire and to go away.
func (c *Conductor) alertsAt() int64 {
	at := c.faultEnd
	for _, r := range c.alerts {
		if r.told {
			at = max(at, c.faultEnd+int64(r.AlertWait(r.fired, len(r.firing) > 0)))
		}
	}
	return at
}
