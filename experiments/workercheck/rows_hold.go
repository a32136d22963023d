package workercheck

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// holdRows are about the work under a key.
var holdRows = []row{
	{"work", "says work.enter when the work begins, and work.exit when it has stopped",
		"work.enter after the grant, work.exit with the same op, and no effect after it",
		"Write work.enter before the first effect, and work.exit when nothing of the work runs any more.", inEvents, checkWork, Jobs},
	{"begin", "writes begin to the ledger first",
		"an entry begin of the epoch, before any other of it",
		"Write the effect begin with the epoch's fence as soon as work is entered: it shuts out older holders, and shows that the successor works.", inEffects, checkBegin, Jobs},
	{"effects", "writes effects with the epoch's fence and an op of their own",
		"entries with the fence and the epoch of the grant, writer = the incarnation, each intended effect with a new op, and a terminal state at the end",
		"Pass ARGV as the section says. A second effect under an op that was used is taken for a repetition, and has no effect.", inEffects, checkEffects, Jobs},
	{"renew-announced", "announces each renewal before the call",
		"the line renew.invoke, then the call",
		"Write renew.invoke before each renewal, and renew.return after it. Unannounced renewals leave no measure of abandonment.", inLines, func(b *bench) finding {
			f := b.unannounced(func(c *call) bool { return c.extended() }, history.RenewInvoke, "has extended")
			if f.result == NotSeen {
				return notSeen("no call extended a key")
			}
			return f
		}, ""},
	{"renew", "keeps the key while it works, as it says",
		"each renewal that is said to be ok extends the key's time to live",
		"Renew every policy.renew_every with a script that compares the token and then extends the key. Say ok only for what the store has answered.", inLocks, checkRenew, Jobs},
}

// grants are the scene's acquires that are said to have succeeded.
func (b *bench) grants(s *scene) []line {
	return slices.DeleteFunc(b.within(s, history.AcquireReturn), func(l line) bool { return l.Outcome != history.OK })
}

func checkWork(b *bench) finding {
	s := &b.acts.first
	enter, exit := b.within(s, history.WorkEnter), b.within(s, history.WorkExit)
	grants := b.grants(s)
	switch {
	case len(grants) == 0:
		return notSeen(unplayed)
	case len(enter) == 0:
		return wrong("no work.enter after %s", quote(grants[0]))
	case enter[0].From < grants[0].To:
		return wrong("work.enter is stamped before the grant: %s", quote(enter[0]))
	case len(exit) == 0:
		return wrong("no work.exit after %s", quote(enter[0]))
	case exit[0].Op != enter[0].Op:
		return wrong("work.enter has the op %s, work.exit %s", enter[0].Op, exit[0].Op)
	}
	for _, e := range b.effects(s) {
		if e.Epoch == exit[0].Epoch && e.From > exit[0].To {
			return wrong("the effect %s was not there yet %s after work.exit: %s", e.State, span(time.Duration(e.From-exit[0].To)), quote(exit[0]))
		}
	}
	return ok("%s of work", span(time.Duration(exit[0].From-enter[0].From)))
}

func checkBegin(b *bench) finding {
	s := &b.acts.first
	all := b.effects(s)
	switch {
	case len(b.grants(s)) == 0:
		return notSeen(unplayed)
	case len(all) == 0:
		return wrong("nothing was written to the ledger")
	case all[0].State != history.StateBegin:
		return wrong("the first effect of the job is %q (op %s, fence %d)", all[0].State, all[0].Op, all[0].Fence)
	}
	return ok("op %s, fence %d", all[0].Op, all[0].Fence)
}

func checkEffects(b *bench) finding {
	s := &b.acts.first
	all := b.effects(s)
	if len(all) == 0 {
		return notSeen("nothing was written to the ledger")
	}
	fences := map[string]int64{}
	for _, l := range b.granted(jobKey) {
		fences[l.Epoch] = l.Fence
	}
	for _, e := range all {
		fence, known := fences[e.Epoch]
		switch {
		case !known:
			return wrong("the effect %s (op %s) names the epoch %q, which was never granted", e.State, e.Op, e.Epoch)
		case e.Fence != fence:
			return wrong("the effect %s (op %s) carries the fence %d; its epoch %s was granted %d", e.State, e.Op, e.Fence, e.Epoch, fence)
		case e.Key != jobKey || e.Loop:
			return wrong("the effect %s (op %s) is of the key %q, loop %v; the job's key is %s", e.State, e.Op, e.Key, e.Loop, jobKey)
		}
	}
	terminal := slices.IndexFunc(all, func(e effect) bool { return e.Terminal && e.Accepted })
	if terminal < 0 {
		return b.late(s, "%s, and none is a terminal state that was accepted; the last: %s (op %s)", figures.Plural(len(all), "effect"), all[len(all)-1].State, all[len(all)-1].Op)
	}
	return ok("%s, up to %s", figures.Plural(len(all), "effect"), all[terminal].State)
}

func checkRenew(b *bench) finding {
	s := &b.acts.first
	if s.life == nil || len(b.within(s, history.WorkEnter)) == 0 {
		return notSeen(unplayed)
	}
	extended, unclear := 0, 0
	for _, c := range b.seen.calls {
		switch {
		case c.Life != s.life.inc || c.At > s.to:
		case c.extended():
			extended++
		case !c.whole():
			unclear++
		}
	}
	said := 0
	for _, l := range b.within(s, history.RenewReturn) {
		if l.Outcome != history.OK {
			continue
		}
		said++
		calls := b.seen.made(l, false)
		kept := could(calls, func(c *call) bool { return c.extended() && c.epoch() == l.Epoch })
		switch {
		case len(calls) == 0:
			return wrong("it says renewed, and sent no call that names the key: %s", quote(l)).but("Send the renewal that you announce, and say ok only for what the store has answered.")
		case !kept && lockcore.Fingerprint(calls[0].After.Token) != l.Epoch:
			return wrong("it says renewed, and the key shows %s: %s", calls[0].After, quote(l))
		case !kept:
			return wrong("it says renewed, and %s left the key as it was (before: %s; after: %s): %s", calls[0].Name, calls[0].Before, calls[0].After, quote(l))
		}
	}
	switch p := b.policy(); {
	case extended == 0 && unclear > 0:
		return notSeen("what its calls did to the key could not be seen: another touched it meanwhile, or a look came too late")
	case extended == 0:
		return b.late(s, "no call has extended the key in %s of work; policy.renew_every is %s, policy.ttl %s", span(b.o.TTL*6/5), span(p.RenewEvery), span(p.TTL))
	case said == 0:
		return ok("%s extended the key; none was announced", figures.Plural(extended, "call"))
	}
	return ok("%s said, %s of the key seen", figures.Plural(said, "renewal"), figures.Plural(extended, "extension"))
}
