package conductor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// series is one fault of the file with all its shots.
type series struct {
	f       *experiments.Fault
	lock    *experiments.Lock
	state   state
	due     int64 // waiting: when to arm; armed: when to fire, or (event-timed) when to give up
	shot    int   // shots so far, void ones included
	valid   int   // confirmed ones
	fired   int64
	target  *epoch // set by moment: fire at it
	exposed []*exposure
}

type state int

const (
	waiting  state = iota // until due
	armed                 // for its moment within the lease
	flying                // fired; the injector answers with confirmed or void
	settling              // until the system is itself again
	spent
)

// exposure is a key that the victim held when the fault struck.
type exposure struct {
	epoch  *epoch
	closed bool // its x was seen
}

func (s *series) wait(until int64) { s.state, s.due = waiting, until }

// stepFaults moves every series on and ends the phase when all are spent.
func (c *Conductor) stepFaults(now int64) {
	all := true
	for _, s := range c.series {
		c.stepSeries(s, now)
		all = all && s.state == spent
	}
	if all {
		c.faultEnd = max(c.faultEnd, c.lastFired())
		c.enter(now, history.PhaseRevert, "", nil)
	}
}

func (c *Conductor) lastFired() int64 {
	var t int64
	for _, s := range c.series {
		t = max(t, s.fired)
	}
	return t
}

func (c *Conductor) stepSeries(s *series, now int64) {
	switch s.state {
	case waiting:
		if now >= s.due {
			c.arm(s, now)
		}
	case armed:
		switch {
		case s.target != nil && (s.timing() != experiments.KillBeforeRenew || now >= s.due):
			c.fire(s, now, s.target.key)
		case now >= s.due && s.random():
			keys := c.world.heldKeys(s.lock.Name)
			if len(keys) == 0 {
				c.fire(s, now, "")
				return
			}
			c.fire(s, now, c.aim(s, keys))
		case now >= s.due:
			c.fire(s, now, "")
		}
	case settling:
		if c.settled(s, now) {
			c.again(s, now, now)
		}
	}
}

// aim chooses among the held keys of the lock: any of them for an instant, the one granted last for a fault that lasts, since a job
// that is nearly done would end before the fault is felt.
func (c *Conductor) aim(s *series, keys []string) string {
	if s.f.Kill != nil {
		return keys[c.rng.IntN(len(keys))]
	}
	return slices.MaxFunc(keys, func(a, b string) int { return cmp.Compare(c.world.held[a].granted, c.world.held[b].granted) })
}

// timing is the moment within the lease; bursts strike at a random one.
func (s *series) timing() experiments.KillPhase {
	if s.f.Kill != nil && s.f.Kill.Phase != "" {
		return s.f.Kill.Phase
	}
	return experiments.KillRandom
}

func (s *series) random() bool { return s.timing() == experiments.KillRandom }

// arm waits for the shot's moment: random ones get an instant within one cycle of the lock, the others wait for an event and
// give up when it has not come for so long that it ought to.
func (c *Conductor) arm(s *series, now int64) {
	if c.capped(s) {
		s.state = spent
		return
	}
	s.state, s.target = armed, nil
	if s.random() {
		s.due = now + c.rng.Int64N(int64(s.cycle()))
		return
	}
	s.due = now + int64(s.patience())
}

// cycle is the time in which a lock's states recur.
func (s *series) cycle() time.Duration {
	p := &s.lock.Policy
	cycle := p.TTL
	if p.Loop != nil {
		cycle += time.Duration(float64(p.Loop.Poll) * (1 + p.Loop.Jitter))
	}
	return max(cycle, time.Millisecond)
}

// moment is told of every grant and renewal: it is what event-timed shots wait for.
func (c *Conductor) moment(ep *epoch, e history.Event) {
	for _, s := range c.series {
		if s.state != armed || s.target != nil || ep.lock != s.lock.Name {
			continue
		}
		granted := e.Kind == history.AcquireReturn
		switch s.timing() {
		case experiments.KillAfterGrant, experiments.KillAcquired:
			if granted {
				s.target = ep
			}
		case experiments.KillAfterRenew:
			if !granted {
				s.target = ep
			}
		case experiments.KillBeforeRenew:
			// Just before the earliest instant at which the next renewal may be sent.
			p := &s.lock.Policy
			s.target, s.due = ep, e.From+int64(analysis.BeforeRenew*(1-p.RenewJitter)*float64(p.RenewEvery))
		}
	}
}

func (c *Conductor) fire(s *series, now int64, key string) {
	if key != "" && c.capped(s) { // several series may be armed when the last kill is spent
		s.state = spent
		return
	}
	s.shot++
	s.state, s.fired, s.exposed = flying, now, nil
	f := &Fire{Fault: s.f, Shot: s.shot, Key: key, Timing: string(s.timing()), For: c.limit(s)}
	if ep := c.world.held[key]; ep != nil {
		f.Epoch = ep.id
		for k, held := range c.world.held {
			if held.inc == ep.inc && (s.f.Kill != nil || k == key) {
				s.exposed = append(s.exposed, &exposure{epoch: held})
			}
		}
	}
	if key != "" && s.f.Kill != nil {
		c.kills++
	}
	if key == "" {
		f.Why = s.nobody()
	}
	c.out = append(c.out, Action{Fire: f})
}

// nobody says why a shot has no target.
func (s *series) nobody() string {
	switch s.timing() {
	case experiments.KillAfterGrant, experiments.KillAcquired:
		return fmt.Sprintf("nobody held a key of lock %s: no grant was seen for %s", s.lock.Name, s.patience())
	case experiments.KillAfterRenew, experiments.KillBeforeRenew:
		return fmt.Sprintf("nobody held a key of lock %s: no renewal was seen for %s", s.lock.Name, s.patience())
	}
	return fmt.Sprintf("nobody held a key of lock %s at the moment of the shot", s.lock.Name)
}

// patience is how long an event-timed shot waits for its event: long enough for several to come.
func (s *series) patience() time.Duration { return 3*s.cycle() + time.Second }

// limit is how long a burst may last: as declared, or long enough for the renewals that it is to hit.
func (c *Conductor) limit(s *series) time.Duration {
	b := s.f.Failures()
	if s.f.For > 0 || b == nil || s.lock == nil {
		return s.f.For
	}
	p := &s.lock.Policy
	each := time.Duration(float64(p.RenewEvery)*(1+p.RenewJitter)) + p.OpTimeout
	return time.Duration(b.Count+1) * each
}

// effect closes the exposed keys of which an effect of another epoch is seen.
func (s *series) effect(e history.Event) {
	for _, x := range s.exposed {
		if x.epoch.key == e.Key && x.epoch.id != e.Epoch && e.From >= s.fired {
			x.closed = true
		}
	}
}

// landed takes note of the injector's answer.
func (c *Conductor) landed(e history.Event) {
	for _, s := range c.series {
		if s.f.ID != e.Fault.ID || s.state != flying {
			continue
		}
		if e.Kind == history.FaultConfirmed {
			s.valid++
			c.faultEnd = max(c.faultEnd, e.To)
		}
		s.state = settling
		switch {
		case e.Kind == history.FaultVoid && len(s.exposed) == 0: // nothing was struck, nothing has to settle
			c.again(s, e.At, e.At)
		case !s.f.Repeat.Settled && s.valid < s.f.Repeat.Count:
			c.again(s, e.At, s.fired+int64(s.f.Repeat.Every))
		}
	}
}

// again plans the next shot, or ends the series: enough confirmed, or twice as many tried.
func (c *Conductor) again(s *series, now, at int64) {
	count := max(s.f.Repeat.Count, 1)
	if s.valid >= count || s.shot >= 2*count || c.capped(s) {
		s.state = spent
		return
	}
	s.wait(max(now, at))
}

// capped: limits.max_kills holds whatever the faults ask for.
func (c *Conductor) capped(s *series) bool {
	return s.f.Kill != nil && c.e.Limits.MaxKills > 0 && c.kills >= c.e.Limits.MaxKills
}

// settled: every exposed key has its x or is closed, the replacement is ready and the steady state holds again; or the
// horizon is over, and the trial stays open.
func (c *Conductor) settled(s *series, now int64) bool {
	if now-s.fired > int64(c.horizon+min(c.e.System.Restart, restartWithin)+time.Second) {
		return true
	}
	for _, x := range s.exposed {
		job := x.epoch.key[min(len(s.prefix(c, x.epoch)), len(x.epoch.key)):]
		if !x.closed && !c.world.finished[job] {
			return false
		}
	}
	return c.missing(now) == ""
}

// prefix is the key prefix of an epoch's lock: what follows it is the job.
func (s *series) prefix(c *Conductor, ep *epoch) string {
	if l := lockOf(c.e, ep.lock); l != nil && !l.Loop() {
		return l.KeyPrefix
	}
	return ""
}
