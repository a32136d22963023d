package conductor

import (
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// series is one fault of the file with all its shots.
type series struct {
	f       *experiments.Fault
	does    fault.Traits
	lock    *experiments.Lock
	after   *series       // due when that is spent, and offset has passed; nil = by its time
	offset  time.Duration //
	state   state
	due     int64 // waiting: when to arm; armed: when to fire, or (event-timed) when to give up
	shot    int   // shots so far, void ones included
	valid   int   // confirmed ones, but for barren ones
	fired   int64
	ended   int64  // when the last shot's effect was over; 0 = not yet, or not known
	until   int64  // event-timed kills, armed: when to give up; random ones: likewise, once nobody knew who holds
	turn    int64  // random ones: when the cycle is over in which this shot is tried
	anchor  int64  // before_renew: end of the success that due is counted from
	target  *epoch // kills, set by moment: fire at it
	blank   bool   // the last shot had no target
	hit     bool   // the last shot was confirmed
	rolling *fault.RollingRestart
	round   round
	exposed []*exposure
	struck  history.Span      // when the last shot was felt
	asks    []*verdict.Sample // until they are answered, the series goes on
}

type state int

const (
	waiting  state = iota // until due
	armed                 // for its moment within the lease
	flying                // fired; the injector answers with confirmed or void
	lasting               // confirmed, and in effect until it is reverted and verified
	settling              // until the system is itself again
	spent
)

// exposure is a key that the victim held when the fault struck.
type exposure struct {
	epoch  *epoch
	closed bool // its x was seen
	x      history.Span
	last   int64        // loops: the end of the last tick before the fault; 0 = none was seen
	tick   history.Span // loops: the first tick after it; zero = not yet
	barren bool         // it gives no trial: nothing was owed under it any more, or it had been given back
}

func (s *series) wait(until int64) { s.state, s.due = waiting, until }

// stepFaults moves every series on and ends the phase when all are spent.
func (c *Conductor) stepFaults(now int64) {
	all := true
	for _, s := range c.series {
		c.stepSeries(s, now)
		all = all && s.state == spent
	}
	for _, s := range c.series { // what has come to its end just now lets others begin
		if s.state == waiting && s.after != nil && s.due == never && s.after.state == spent {
			s.wait(now + int64(s.offset))
		}
		c.note(c.seriesNext(s, now))
	}
	if all {
		c.faultEnd = max(c.faultEnd, c.lastFired())
		c.enter(now, history.PhaseRevert, c.answers(), nil)
	}
}

// answers says how the percentiles stand for which faults were repeated; "" where none were.
func (c *Conductor) answers() string {
	var all []string
	for _, s := range c.series {
		for _, q := range s.asks {
			all = append(all, s.f.ID+": "+q.Question.Measure+" "+q.Says())
		}
	}
	return strings.Join(all, "; ")
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
		if now >= s.due && !c.mustWait(s, now) {
			c.arm(s, now)
		}
	case armed:
		if !s.does.Kills {
			c.strike(s, now)
		} else {
			c.kill(s, now)
		}
	case lasting:
		if now >= c.overdue(s) {
			c.over(s, now)
		}
	case settling:
		if c.settled(s, now) {
			c.again(s, now, c.rollOn(s, now))
		}
	}
}

// overdue is when the end of a fault is waited for no longer.
func (c *Conductor) overdue(s *series) int64 { return s.fired + int64(c.limit(s)+revertWithin) + 1 }

// mustWait keeps faults apart that the file does not allow together: its times do, but a shot may be late, or be another try of a void
// one. A try also leaves room for a first shot that is due before it would be over.
func (c *Conductor) mustWait(s *series, now int64) bool {
	return slices.ContainsFunc(c.series, func(o *series) bool {
		if o == s || c.e.MayMeet(s.f, o.f) {
			return false
		}
		on := (o.state == flying || o.state == lasting) && !o.blank
		soon := s.shot > s.valid && o.state == waiting && o.shot == 0 && o.due < now+int64(c.limit(s))
		return on || soon
	})
}

// effect closes the exposed keys of which an effect of another epoch is seen; or of the same, once a burst is over. What a victim had
// finished by itself is owed by nobody.
// effect takes note of what happened under a key: whether it is the exposed epoch's own, or ends the trial. shown is the epoch that looks
// show there; nil = they show none, or nobody looks.
func (s *series) effect(e history.Event, shown *epoch) {
	for _, x := range s.exposed {
		again := shown != nil && shown != x.epoch && shown.id == x.epoch.id // another was granted the key with the same value
		own := x.epoch.id == e.Epoch && !again
		x.barren = x.barren || s.does.Kills && own && e.Entry != nil && e.Entry.Terminal
		if x.epoch.key == e.Key && (!own && e.From >= s.fired || !s.does.Kills && s.ended > 0 && e.From >= s.ended) {
			if !x.closed {
				x.closed, x.x = true, e.Span
			}
			if x.tick == (history.Span{}) && ticks(e) {
				x.tick = e.Span
			}
		} else if own && ticks(e) {
			x.last = e.To
		}
	}
}

func ticks(e history.Event) bool {
	return e.Entry != nil && e.Entry.Loop && e.Entry.State == history.StateTick
}

// revertWithin is how long after its own time the end of a fault is waited for.
const revertWithin = 30 * time.Second

// landed takes note of the injector's answer, and of the end of the fault.
func (c *Conductor) landed(e history.Event) {
	for _, s := range c.series {
		if s.f.ID != e.Fault.ID || s.shot != e.Fault.Shot {
			continue
		}
		switch e.Kind {
		case history.FaultReverted:
			s.ended, c.faultEnd = max(s.ended, e.To), max(c.faultEnd, e.To)
		case history.FaultVerified:
			if s.state == lasting {
				c.over(s, e.At)
			}
		case history.FaultConfirmed, history.FaultVoid:
			if s.state != flying {
				continue
			}
			if e.Kind == history.FaultVoid {
				c.over(s, e.At)
				continue
			}
			s.valid, s.hit = s.valid+1, true
			s.struck = history.Span{From: s.fired, To: e.To}
			if d := e.Fault.Death; d != nil {
				s.struck.From = max(s.fired, d.Sign)
			}
			c.rolled(s, e.Fault.Victim)
			c.faultEnd = max(c.faultEnd, e.To)
			if e.Fault.Death != nil { // a pod's process ends later than the call, and the system gets over it from then on
				s.ended = e.To
			}
			if s.does.AtKey { // its holder does not know it yet; the next shot is not for a key that is free
				c.world.drop(e.Key, e.Epoch, e.To)
			}
			if s.state = lasting; s.does.Kills && s.f.For == 0 { // there is nothing to undo
				c.over(s, e.At)
			}
		}
	}
}

// over: the fault itself has ended, and what is left is that the system gets over it.
func (c *Conductor) over(s *series, now int64) {
	s.state = settling
	switch {
	case s.blank: // nothing was struck, nothing has to settle
		c.again(s, now, max(now+int64(s.pause()), s.turn))
	case !s.f.Repeat.Settled && s.valid < s.f.Repeat.Count:
		c.again(s, now, s.fired+int64(s.f.Repeat.Every))
	}
}

// pause is how long after a shot without a target the next is tried. Those that wait for a holder have waited already, and those at
// random moments have one try in each cycle: else all tries could fall into one gap between two holders.
func (s *series) pause() time.Duration {
	if s.lock != nil {
		return 0
	}
	return time.Second
}

// again plans the next shot, or ends the series: enough confirmed that show something, or twice as many tried.
func (c *Conductor) again(s *series, now, at int64) {
	s.discount()
	c.tell(s)
	count := s.count()
	spends := s.valid >= count || s.shot >= 2*count || c.capped(s, 1) || len(s.asks) > 0 && forecast.Answered(s.asks)
	if s.round.lost != "" { // one more shot says so, also after the last replica
		spends = s.blank
	}
	if spends {
		s.state = spent
		return
	}
	s.wait(max(now, at))
}

// tell counts a kill that has settled for the percentiles that are asked about its lock, by the worst of its keys. What was not seen to end
// may have missed any limit.
func (c *Conductor) tell(s *series) {
	if !s.does.Kills || !s.hit {
		return
	}
	for _, o := range c.series {
		for _, q := range o.asks {
			var worst history.Span
			for _, x := range s.exposed {
				if x.epoch.lock == q.Question.Lock && !x.barren {
					v := s.took(x, q.Question.Measure == "tick_gap")
					worst = history.Span{From: max(worst.From, v.From), To: max(worst.To, v.To)}
				}
			}
			if worst.To > 0 {
				q.Note(time.Duration(worst.From), time.Duration(worst.To))
			}
		}
	}
}

// took is how long it took, at least and at most, from the fault to the first effect of a successor, or from tick to tick.
func (s *series) took(x *exposure, gap bool) history.Span {
	from, to := s.struck, x.x
	if gap {
		from, to = history.At(x.last), x.tick
	}
	if to == (history.Span{}) {
		return history.Span{To: never}
	}
	return history.Span{From: max(0, to.From-from.To), To: to.To - from.From}
}

// barren reports a confirmed kill that came between the end of the work and that of the lease: no key of its lock gives a trial.
func (s *series) barren() bool {
	if !s.does.Kills || s.lock == nil || !s.hit {
		return false
	}
	some := false
	for _, x := range s.exposed {
		if x.epoch.lock == s.lock.Name {
			if some = true; !x.barren {
				return false
			}
		}
	}
	return some
}

// discount takes a barren shot off those that count, once. With a repeat by the clock it may show only after the next one was planned.
func (s *series) discount() {
	if s.barren() {
		s.valid, s.hit = s.valid-1, false
	}
}

// gaveBack notes that the release of an exposed key was on its way when its holder was killed. A pod lives on after the call, and so does
// a process that is asked to end: what it gives back is handed over.
func (c *Conductor) gaveBack(epoch string) {
	if c.e.Kubernetes != nil {
		return
	}
	for _, s := range c.series {
		for _, x := range s.exposed {
			x.barren = x.barren || s.does.Kills && s.does.Class != fault.ClassHandOver && x.epoch.id == epoch
		}
	}
}

// settled: every exposed key has its x or is closed, the replacement is ready and the steady state holds again, after a fault other
// than a kill with what was seen since its end; or the horizon is over, and the trial stays open.
func (c *Conductor) settled(s *series, now int64) bool {
	if now >= c.leftOpen(s) {
		return true
	}
	if s.rolling != nil && !c.whole(s) {
		return false
	}
	for _, x := range s.exposed {
		if !x.closed && !c.world.finished[c.job(x.epoch)] {
			return false
		}
	}
	return c.missing(now) == (unmet{}) && (s.does.Kills || c.fresh(s.ended))
}

// leftOpen is when a trial that has not settled is waited for no longer.
func (c *Conductor) leftOpen(s *series) int64 {
	if s.rolling != nil && !c.whole(s) {
		return max(s.fired, s.ended) + int64(s.rolling.Within) + 1
	}
	back := min(c.e.System.Restart, restartWithin)
	if c.e.Kubernetes != nil || c.world.observed {
		back = podBackWithin
	}
	return max(s.fired, s.ended) + int64(c.horizon+back+time.Second) + 1
}

// fresh reports whether every loop whose ticks are seen has ticked since then, and some job of every stream that still has jobs has finished.
func (c *Conductor) fresh(since int64) bool {
	for name, l := range c.world.loops {
		if l.lastTick < since && (!c.world.observed || c.world.begun[name]) {
			return false
		}
	}
	for _, st := range c.streams {
		if st.owed() > 0 && c.world.lastDone[st.work.Lock] < since {
			return false
		}
	}
	return true
}

// job is the one under an epoch's key, by the pattern of its lock.
func (c *Conductor) job(ep *epoch) string {
	if l := c.e.Lock(ep.lock); l != nil && !l.Loop() {
		if job, ok := l.JobOf(ep.key); ok {
			return job
		}
	}
	return ep.key
}
