package workercheck

import (
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// endRows are about how a replica ends, in the midst of a job.
var endRows = []row{
	{"stop", "ends on the command stop: work, release, exit status 0",
		"work.exit, a free key, and the end with status 0 within " + span(endLimit),
		"On stop end the work, release what is held, and exit with status 0. A drill kills what is left after " + span(endLimit) + ".", inEnds,
		func(b *bench) finding { return b.checkEnd(&b.acts.stop, true) }, Jobs},
	{"sigterm", "ends on SIGTERM as on stop",
		"work.exit, a free key, and the end within " + span(endLimit),
		"Take SIGTERM for stop: it is how a pod, and the shell of whoever tries your worker, tells it to end.", inEnds,
		func(b *bench) finding { return b.checkEnd(&b.acts.term, false) }, Jobs},
	{"input-end", "ends when its standard input is closed",
		"the end within " + span(endLimit),
		"Take the end of standard input for stop: the runner is dead, and nobody else will end this worker.", inEnds,
		func(b *bench) finding { return b.checkEnd(&b.acts.hangUp, false) }, Jobs},
}

func (b *bench) checkEnd(s *scene, zero bool) finding {
	if f := b.early(s); f != nil {
		return *f
	}
	exit := b.seen.exits[s.life.inc]
	switch {
	case !s.ended:
		return b.late(s, "it still ran %s later, and was killed; %s", span(s.took), b.lastOf(s))
	case zero && exit.State != "exit status 0":
		return wrong("it ended with %s%s", exit.State, b.last(s.life))
	case s.after.Token != "":
		return b.late(s, "it ended with %s, and left the key behind: %s", exit.State, s.after)
	case len(b.after(s, history.WorkExit)) == 0:
		return b.late(s, "it ended without work.exit; %s", b.lastOf(s))
	}
	return ok("%s, %s later", exit.State, span(s.took.Round(time.Millisecond)))
}

// loopRows are about leader loops: two lives, of which one leads and is killed.
var loopRows = []row{
	{"loop", "ticks once every policy.loop.poll while it leads",
		"an effect tick every poll, loop 1, with the lock's name as subject",
		"One work.enter, effect tick, work.exit every poll; renewals go beside them, and are no ticks.", inLoops, checkTicks, Loops},
	{"loop-begin", "writes begin once for each epoch of a loop",
		"one begin, then ticks",
		"Write begin before the first tick of an epoch, and not again: it is the end of a takeover.", inLoops, checkLoopBegin, Loops},
	{"loop-follower", "asks for the key once every poll while another leads",
		"an acquire.invoke every policy.loop.poll",
		"Ask at every poll, also while another is known to hold. A follower that does not ask shows no demand, and its takeover only counts from its first attempt.", inLoops, checkFollower, Loops},
	{"loop-takeover", "leads when the leader is dead",
		"a begin of the follower within a TTL, a poll and an op timeout",
		"Ask at every poll, and begin to tick with the grant.", inLoops, checkTakeover, Loops},
}

const noLoop = "no tick of a loop: a worker of jobs only need not"

// ticks are the loop's effects in the stretch in which nothing was done to it.
func (b *bench) ticks(states ...string) (all []effect) {
	s := &b.acts.loops
	for _, e := range b.seen.effects {
		if e.Key == loopKey && b.acts.leader != nil && e.Writer == b.acts.leader.inc && e.To <= s.done {
			for _, state := range states {
				if e.State == state {
					all = append(all, e)
				}
			}
		}
	}
	return all
}

func checkTicks(b *bench) finding {
	s := &b.acts.loops
	if b.acts.leader == nil {
		return notSeen(noLoop)
	}
	poll, n := b.loop().Policy.Loop.Poll, 0
	for _, e := range b.ticks(history.StateTick) {
		if !e.Loop || e.Subject != loopLock {
			return wrong("a tick (op %s) with loop %v and the subject %q", e.Op, e.Loop, e.Subject)
		}
		if e.From >= s.from {
			n++
		}
	}
	want := int(time.Duration(s.done-s.from) / poll)
	if n < want/2 || n > want*2 {
		return b.late(s, "%s in %s; policy.loop.poll is %s, so about %d", figures.Plural(n, "tick"), span(time.Duration(s.done-s.from)), span(poll), want)
	}
	return ok("%s in %s", figures.Plural(n, "tick"), span(time.Duration(s.done-s.from)))
}

func checkLoopBegin(b *bench) finding {
	if b.acts.leader == nil {
		return notSeen(noLoop)
	}
	begun := map[string]bool{}
	for _, e := range b.ticks(history.StateBegin, history.StateTick) {
		switch {
		case e.State == history.StateBegin && begun[e.Epoch]:
			return wrong("a second begin of the epoch %s (op %s)", e.Epoch, e.Op)
		case e.State == history.StateTick && !begun[e.Epoch]:
			return wrong("the first effect of the epoch %s is a tick (op %s)", e.Epoch, e.Op)
		}
		begun[e.Epoch] = true
	}
	return ok("%s", figures.Plural(len(begun), "epoch"))
}

func checkFollower(b *bench) finding {
	s := &b.acts.loops
	if b.acts.leader == nil {
		return notSeen(noLoop)
	}
	n := 0
	for _, l := range b.seen.of(b.acts.follower.inc, s.from, history.AcquireInvoke) {
		if l.From <= s.done {
			n++
		}
	}
	poll := b.loop().Policy.Loop.Poll
	if want := int(time.Duration(s.done-s.from) / poll); n < want/2 {
		return b.late(s, "%s in %s; policy.loop.poll is %s, so about %d", figures.Plural(n, "acquire.invoke"), span(time.Duration(s.done-s.from)), span(poll), want)
	}
	return ok("%s in %s", figures.Plural(n, "attempt"), span(time.Duration(s.done-s.from)))
}

func checkTakeover(b *bench) finding {
	s := &b.acts.loops
	if b.acts.leader == nil {
		return notSeen(noLoop)
	}
	for _, e := range b.seen.effects {
		if e.Key == loopKey && e.Accepted && e.Writer == b.acts.follower.inc && e.From >= s.done {
			took := time.Duration(e.To - s.done)
			if p := b.loop().Policy; took > p.TTL+p.Loop.Poll+p.OpTimeout+b.o.TTL {
				return b.late(s, "it took %s", span(took))
			}
			return ok("%s after the kill", span(took))
		}
	}
	return b.late(s, "no effect of the follower within %s of the leader's death", span(time.Duration(s.to-s.done)))
}
