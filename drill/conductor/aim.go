package conductor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// target is whom a shot strikes: the holder of a key, incarnations, or nobody and why. The zero target is the store.
type target struct {
	key     string
	victims []string
	why     string
	word    history.VoidReason // for why; "" = there was nobody
	said    string             // of victims: why they are fewer than declared
}

// kill fires an armed kill when its moment has come.
func (c *Conductor) kill(s *series, now int64) {
	if s.timing() == fault.BeforeRenew && s.target != nil && c.world.held[s.target.key] != s.target {
		s.target, s.due = nil, s.until // its renewal will not come: whoever has the key now is at another moment
	}
	switch {
	case s.rolling != nil:
		c.roll(s, now)
	case s.lock == nil:
		c.fire(s, now, c.some(s))
	case s.target != nil && (s.timing() != fault.BeforeRenew || now >= s.due):
		c.fire(s, now, target{key: s.target.key})
	case now >= s.due && s.random():
		if keys := c.world.heldKeys(s.lock.Name); len(keys) > 0 {
			c.fire(s, now, target{key: c.aim(s, keys)})
			return
		}
		t := c.nobody(s)
		if t.word == history.HolderUnknown && s.until == 0 { // whoever has to ask may know soon
			s.until = now + int64(s.patience())
		}
		if now < s.until {
			s.due = min(s.until, now+int64(nameAgain))
			return
		}
		c.fire(s, now, t)
	case now >= s.due:
		c.fire(s, now, c.nobody(s))
	}
}

// strike fires an armed fault that is no kill. A holder is waited for; a replica is not.
func (c *Conductor) strike(s *series, now int64) {
	aim := s.f.Aim()
	switch {
	case aim.HolderOf != "":
		if keys := c.world.heldKeys(s.lock.Name); len(keys) > 0 {
			c.fire(s, now, target{key: c.aim(s, keys)})
		} else if now >= s.due {
			c.fire(s, now, c.nobody(s))
		}
	case aim.Some != fault.Some{}:
		c.fire(s, now, c.some(s))
	case aim != fault.Aim{}:
		c.fire(s, now, c.living(aim.Replica))
	default:
		c.fire(s, now, target{})
	}
}

// living are the incarnations that are alive and ready, in the order of their names: all of them, or the one of a replica.
func (c *Conductor) living(replica string) target {
	var t target
	for _, r := range c.world.replicas {
		if r.alive && r.ready && (replica == "" || r.name == replica) {
			t.victims = append(t.victims, r.inc)
		}
	}
	switch {
	case len(t.victims) > 0:
	case replica != "":
		t.why = fmt.Sprintf("replica %s had no incarnation that was alive and ready", replica) + c.unfound()
	default:
		t.why = "no replica was alive and ready" + c.unfound()
	}
	return t
}

// aim chooses among the held keys of the lock: any of them for a kill, the one granted last for other faults, since a job that is
// nearly done would end before the fault is felt.
func (c *Conductor) aim(s *series, keys []string) string {
	if s.does.Kills {
		return keys[c.rng.IntN(len(keys))]
	}
	return slices.MaxFunc(keys, func(a, b string) int { return cmp.Compare(c.world.held[a].granted, c.world.held[b].granted) })
}

func (c *Conductor) fire(s *series, now int64, t target) {
	ep := c.world.held[t.key]
	struck := t.victims
	if ep != nil {
		struck = []string{ep.inc}
	}
	if ep != nil && s.does.WholeNode {
		struck = c.world.besides(ep.inc)
		t.victims = struck
	}
	if t.why == "" && (c.capped(s, len(struck)) || c.tooMany(s, struck)) { // several series may be armed when the last kill is spent
		if !s.does.Apart || len(struck) == 1 || c.capped(s, 1) {
			s.state = spent
			return
		}
		t.why = fmt.Sprintf("it strikes %d replicas, and limits.max_kills and limits.max_targets do not leave as many", len(struck))
	}
	if t.why == "" {
		t.why = cmp.Or(c.inTheWay(s), c.lastOne(s, struck))
	}
	s.discount()
	s.shot++
	s.state, s.fired, s.ended, s.exposed, s.blank, s.hit = flying, now, 0, nil, t.why != "", false
	f := &Fire{Fault: s.f, Shot: s.shot, Timing: string(s.timing()), For: c.limit(s), Why: t.why, Word: t.word}
	c.out = append(c.out, Action{Fire: f})
	if s.blank {
		return
	}
	f.Key, f.Victims, f.Said = t.key, t.victims, t.said
	if ep != nil {
		f.Epoch = ep.id
		if s.timing() == fault.BeforeRenew {
			f.Anchor = s.anchor
		}
		c.expose(s, ep.inc, ep.key)
	}
	if s.does.Kills {
		for _, inc := range t.victims {
			if ep == nil || inc != ep.inc {
				c.expose(s, inc, "")
			}
		}
		c.kills += max(1, len(struck))
	}
	if s.rolling != nil {
		s.round.struck(t.victims, s.does.Kills)
	} else if s.does.Kills {
		return
	}
	for _, inc := range struck {
		c.struck[inc] = true
	}
}

// expose notes the keys whose takeover is to be seen: all that a killed replica held, the one that a burst strikes. Other faults
// are over when they have ended, whether the lock has moved or not.
func (c *Conductor) expose(s *series, inc, key string) {
	for k, held := range c.world.held {
		if held.inc == inc && (s.does.Kills || s.does.Fails != "" && k == key) {
			x := &exposure{epoch: held, barren: s.does.Kills && c.world.terminal[c.job(held)] > 0}
			if l := c.world.loops[held.lock]; l != nil {
				x.last = l.lastTick
			}
			s.exposed = append(s.exposed, x)
		}
	}
}

// inTheWay says which fault that is in effect keeps s from being fired, or "": the file's times rule it out, but a shot may be late.
func (c *Conductor) inTheWay(s *series) string {
	for _, o := range c.series {
		if o == s || o.blank || o.state != flying && o.state != lasting {
			continue
		}
		if why := fault.Collide(o.f.Spec, s.f.Spec); why != "" {
			return fmt.Sprintf("%s was still in effect: %s", o.f.ID, why)
		}
	}
	return ""
}

// lastOne says why a fault that stops its victims may not strike these, or "": of a system that is somebody's own one replica goes on,
// unless the file says otherwise.
func (c *Conductor) lastOne(s *series, victims []string) string {
	if !c.world.observed || c.e.Limits.LastReplica || len(victims) == 0 || !s.does.Kills && (s.does.Stands == 0 || !s.does.InVictim) {
		return ""
	}
	for _, r := range c.world.replicas {
		if r.alive && !slices.Contains(victims, r.inc) {
			return ""
		}
	}
	return strings.Join(victims, ", ") + " is the last replica that lives, and the file does not say limits.last_replica: true"
}

// capped: limits.max_kills holds whatever the faults ask for.
func (c *Conductor) capped(s *series, victims int) bool {
	return s.does.Kills && c.e.Limits.MaxKills > 0 && c.kills+max(1, victims) > c.e.Limits.MaxKills
}

// tooMany: so does limits.max_targets. Who was struck before is not counted again.
func (c *Conductor) tooMany(s *series, victims []string) bool {
	most := c.e.Limits.MaxTargets
	if s.does.Kills && s.rolling == nil || most == 0 {
		return false
	}
	n := len(c.struck)
	for _, inc := range victims {
		if !c.struck[inc] {
			n++
		}
	}
	return n > most
}

// limit is how long a fault may last: as declared, or, of a burst with a count, long enough for the operations that it is to hit.
func (c *Conductor) limit(s *series) time.Duration {
	if s.f.For > 0 || s.does.Fails == "" {
		return s.f.For
	}
	var each time.Duration
	for i := range c.e.System.Locks {
		l := &c.e.System.Locks[i]
		if name := cmp.Or(s.f.Lock(), s.does.Lock); name == "" || name == l.Name {
			each = max(each, c.period(s.does.Fails, l))
		}
	}
	count := float64(s.does.Count+1) / cmp.Or(s.does.Share, 1)
	return min(time.Duration(count*float64(each+s.does.Delay)), c.e.Limits.MaxRun)
}

// period is about how long it takes until the next operation of the kind comes under the lock.
func (c *Conductor) period(op lockcore.Op, l *experiments.Lock) time.Duration {
	p := &l.Policy
	if op == lockcore.OpRenew {
		return time.Duration(float64(p.RenewEvery)*(1+p.RenewJitter)) + p.OpTimeout
	}
	each := p.Acquire.Timeout
	if op == lockcore.OpRelease {
		each = p.Release.Timeout
	}
	if p.Loop != nil {
		return each + p.Loop.Tick + time.Duration(float64(p.Loop.Poll)*(1+p.Loop.Jitter))
	}
	if w := c.e.WorkUnder(l.Name); w != nil {
		each += w.Longest() + time.Duration(float64(time.Second)/w.Rate)
	}
	return each
}

// timing is the moment within the lease at which a kill strikes; other faults strike at their `at`, and have none.
func (s *series) timing() fault.Phase {
	return s.f.Moment()
}

func (s *series) random() bool { return s.timing() == fault.RandomPhase }

// arm waits for the shot's moment: random kills get an instant within one cycle of the lock, the others wait for an event and give
// up when it has not come for so long that it ought to. A fault that is no kill strikes at once, if there is whom to strike.
func (c *Conductor) arm(s *series, now int64) {
	if c.capped(s, 1) && s.round.lost == "" {
		s.state = spent
		return
	}
	s.state, s.target = armed, nil
	if !s.does.Kills {
		s.due = now
		if s.lock != nil {
			s.due = now + int64(s.patience())
		}
		c.strike(s, now)
		return
	}
	if s.lock == nil {
		s.due = now
		if s.rolling != nil {
			s.due += int64(c.turnWithin(s))
		}
		c.kill(s, now)
		return
	}
	if s.random() {
		cycle := int64(s.cycle())
		s.until, s.turn = 0, now+cycle
		s.due = now + c.rng.Int64N(cycle)
		return
	}
	s.until = now + int64(s.patience())
	s.due = s.until
}

// nameAgain is how soon a shot asks again who holds, where somebody of whom no source knows yet does.
const nameAgain = 10 * time.Millisecond

// cycle is the time in which a lock's states recur.
func (s *series) cycle() time.Duration { return cycleOf(s.lock) }

func cycleOf(l *experiments.Lock) time.Duration {
	p := &l.Policy
	cycle := p.TTL
	if p.Loop != nil {
		cycle += time.Duration(float64(p.Loop.Poll) * (1 + p.Loop.Jitter))
	}
	return max(cycle, time.Millisecond)
}

// moment is told of every grant and renewal: it is what event-timed shots wait for.
func (c *Conductor) moment(ep *epoch, e history.Event) {
	for _, s := range c.series {
		if s.state != armed || !s.does.Kills || s.lock == nil || ep.lock != s.lock.Name {
			continue
		}
		kept := s.target != nil && c.world.held[s.target.key] == s.target
		if s.target != nil && (s.timing() != fault.BeforeRenew || kept && s.target != ep) { // a later renewal moves the moment
			continue
		}
		granted := e.Kind == history.AcquireReturn
		switch s.timing() {
		case fault.AfterGrant, fault.Acquired:
			if granted {
				s.target = ep
			}
		case fault.AfterRenew:
			if !granted {
				s.target = ep
			}
		case fault.BeforeRenew:
			// Just before the earliest instant at which the next renewal may be sent.
			p := &s.lock.Policy
			s.target, s.anchor, s.due = ep, e.To, e.From+int64(forecast.BeforeRenew*(1-p.RenewJitter)*float64(p.RenewEvery))
		}
	}
}

// nobody is a shot without a target, and why.
func (c *Conductor) nobody(s *series) target {
	if why := c.unlooked(s.lock); why != "" {
		return target{why: why, word: history.HolderUnknown}
	}
	if word, why := c.world.unnamedHolder(s.lock.Name); word != "" {
		return target{why: why, word: word}
	}
	switch s.timing() {
	case fault.AfterRenew, fault.BeforeRenew:
		return target{why: fmt.Sprintf("nobody held a key of lock %s: no renewal was seen for %s", s.lock.Name, s.patience())}
	case fault.RandomPhase:
		which := s.lock.Name
		if c.world.observed && !s.lock.Loop() && !s.lock.Keyless() { // which nobody may ever have had
			which += " (" + s.lock.Pattern() + ")"
		}
		return target{why: fmt.Sprintf("nobody held a key of lock %s at the moment of the shot", which)}
	}
	return target{why: fmt.Sprintf("nobody held a key of lock %s: no grant was seen for %s", s.lock.Name, s.patience())}
}

// patience is how long a shot waits for its event: long enough for several to come.
func (s *series) patience() time.Duration { return 3*s.cycle() + time.Second }
