package workercheck

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// troubleRows are about a key that another has, a key that is lost, a store that is silent, and a process that stands still.
var troubleRows = []row{
	{"refused", "leaves another's key alone, and says held",
		"acquire.return fail, result held; the key as it was",
		"Set the key only where it is free (NX). Answer fail where the store says that another holds it.", inLocks, checkRefused, Jobs},
	{"holder", "names as holder whoever holds the key",
		"call.holder = the fingerprint of the token that the key carries, or no holder at all",
		"Take holder and pttl of a refusal from the key itself, in the same script; leave them out where they are not known.", inEvents, checkHolder, Jobs},
	{"busy", "answers an offer whose key is another's with job.ack busy",
		"job.ack with ack busy",
		"Write job.ack busy when the key was not to be had. The job is then offered again.", inCommands, checkBusy, Jobs},
	{"unanswered", "gives back a key whose acquire was not answered",
		"acquire.return unknown after policy.acquire.timeout, and soon a free key (undo.invoke, undo.return)",
		"Where no reply came the key may be yours: run the script that compares the token and deletes, with the token of the attempt, until it is answered.", inLocks, checkUnanswered, Jobs},
	{"lost", "stops the work when its key is another's",
		"fence.observed and work.exit with the next renewal, at the latest at the lease's end",
		"Compare the token in the renewal's script. A definite \"not yours\" ends the work at once; it is no failure to be counted.", inLocks, checkLost, Jobs},
	{"fence-observed", "says fence.observed when it no longer relies on a lock",
		"fence.observed of the lost epoch, before or with the end of its work",
		"Write fence.observed (and abandon, where work is given up) at that instant. Without it a holder is believed to hold until its death.", inEvents, checkObserved, Jobs},
	{"stranger", "neither extends nor deletes a key with another's token",
		"the stranger's token, and the time that it had",
		"Compare the token in the scripts of renewal and release, never a belief of your own.", inLocks, checkStranger, Jobs},
	{"silent-store", "stops the work before its lease ends when the store does not answer",
		"work.exit at most policy.ttl after the sending of the last renewal that was answered",
		"Count the lease from the sending of the last answered call. Stop the work at its end less policy.stop_budget, whatever a call in flight does.", inLocks, checkSilentStore, Jobs},
	{"unknown", "calls a renewal unknown that was not answered, after policy.op_timeout",
		"renew.return unknown, about policy.op_timeout after its invoke",
		"Bound each call by policy.op_timeout. A timeout is unknown, never fail: the store may have done it.", inEvents, checkUnknown, Jobs},
	{"pause", "notices after a pause that its lease is over",
		"work.exit as soon as it runs again",
		"Before every effect, and when a timer fires late, compare CLOCK_MONOTONIC with the end of the lease.", inLocks, checkPause, Jobs},
	{"stale-effect", "writes nothing for a lost epoch",
		"no accepted effect of the epoch after the pause",
		"Write with the fence that was minted with the epoch, never with one that is fetched when writing.", inEffects, checkStale, Jobs},
	{"arm", "makes armed calls fail, or says that it cannot",
		"fault.reverted of the shot, after as many fault.hit as it has said; or at once",
		"Answer every arm by fault.reverted with the shot as op. A worker that makes no faults says it at once: the shot is then void.", inFaults, checkArm, Jobs},
	{"disarm", "answers disarm by fault.reverted",
		"fault.reverted of the shot",
		"Write fault.reverted when a shot is disarmed, unless it was said before.", inFaults, checkDisarm, Jobs},
}

func checkRefused(b *bench) finding {
	s := &b.acts.refused
	said := b.within(s, history.AcquireReturn)
	switch {
	case !s.played():
		return notSeen(unplayed)
	case s.after.Token != stranger:
		return wrong("the key was a stranger's, and shows %s", s.after)
	case len(said) == 0:
		return b.late(s, "no acquire.return for the job %s, whose key is a stranger's", s.job)
	case said[0].Outcome != history.Fail || said[0].Call.Result != history.ResultHeld:
		return wrong("the answer is not fail and held: %s", quote(said[0]))
	}
	return ok("held")
}

func checkHolder(b *bench) finding {
	said := b.within(&b.acts.refused, history.AcquireReturn)
	who := lockcore.Fingerprint(stranger)
	switch {
	case len(said) == 0 || said[0].Outcome != history.Fail:
		return notSeen("no refusal")
	case said[0].Call.Holder == "":
		return ok("it names none")
	case said[0].Call.Holder != who:
		return wrong("the key was held by %s: %s", who, quote(said[0]))
	}
	return ok("%s", who)
}

func checkBusy(b *bench) finding {
	s := &b.acts.refused
	acks := b.acks(s)
	switch {
	case !s.played():
		return notSeen(unplayed)
	case len(acks) == 0:
		return b.late(s, "no job.ack within %s", span(2*b.o.TTL))
	case acks[0].Job.Ack != history.AckBusy:
		return wrong("the answer is not busy: %s", quote(acks[0]))
	}
	return ok("busy")
}

func checkUnanswered(b *bench) finding {
	s := &b.acts.unanswered
	if !s.played() {
		return notSeen(unplayed)
	}
	i := slices.IndexFunc(b.seen.calls, func(c *call) bool { return c.Life == s.life.inc && c.At >= s.done && c.At <= s.undone && c.set() })
	said := b.within(s, history.AcquireReturn)
	switch {
	case i < 0:
		return notSeen("no call set the key while replies were held back")
	case len(said) == 0:
		return b.late(s, "this acquire was not given up in %s; policy.acquire.timeout is %s; %s", span(time.Duration(s.undone-s.done)), span(b.policy().Acquire.Timeout), b.lastOf(s))
	case said[0].Outcome != history.Unknown:
		return wrong("no reply could reach it, and it says %s: %s", said[0].Outcome, quote(said[0]))
	case lockcore.Fingerprint(s.after.Token) == b.seen.calls[i].epoch():
		return b.late(s, "%s after its acquire.return the key still shows %s: %s", span(time.Duration(s.after.From-said[0].Arrived)), s.after, quote(said[0]))
	}
	return ok("the key was free %s after acquire.return", span(time.Duration(s.after.To-said[0].Arrived)))
}

// validUntil is the end of the lease that an epoch's holder may rely on, as of an instant: the sending of its last answered call + TTL.
func (b *bench) validUntil(s *scene, at int64) int64 {
	last := int64(0)
	for _, l := range b.within(s, history.AcquireReturn, history.RenewReturn) {
		if l.Outcome == history.OK && l.Arrived <= at {
			last = l.From
		}
	}
	for _, c := range b.seen.calls { // also what nobody told of
		if s.life != nil && c.Life == s.life.inc && c.extended() && c.Replied <= at {
			last = max(last, c.At)
		}
	}
	return last + int64(b.o.TTL)
}

// early is the finding where the work had ended before anything was done to it.
func (b *bench) early(s *scene) *finding {
	f := notSeen(unplayed)
	if s.played() {
		exits := slices.DeleteFunc(b.within(s, history.WorkExit), func(l line) bool { return l.Arrived > s.done })
		if len(exits) == 0 {
			return nil
		}
		f = notSeen("its work had ended before: %s", quote(exits[0]))
	}
	return &f
}

func checkLost(b *bench) finding {
	s := &b.acts.theft
	if f := b.early(s); f != nil {
		return *f
	}
	exit := b.after(s, history.WorkExit)
	for _, e := range b.effects(s) {
		if e.Terminal && e.From > s.done {
			return b.late(s, "the terminal effect %s was written after its key had become a stranger's", e.State)
		}
	}
	if len(exit) == 0 {
		return b.late(s, "no work.exit within %s of the loss; %s", span(4*b.o.TTL), b.lastOf(s))
	}
	if late := exit[0].From - b.validUntil(s, s.done); late > 0 {
		return b.late(s, "it worked on for %s past the end of its lease: %s", span(time.Duration(late)), quote(exit[0]))
	}
	return ok("%s after the loss", span(time.Duration(exit[0].From-s.done)))
}

// after lists the lines that came when the thing had been done.
func (b *bench) after(s *scene, kinds ...history.Kind) []line {
	return slices.DeleteFunc(b.within(s, kinds...), func(l line) bool { return l.Arrived < s.done })
}

func (b *bench) lastOf(s *scene) string {
	if all := b.within(s); len(all) > 0 {
		return "its last line: " + quote(all[len(all)-1])
	}
	return "it wrote nothing"
}

func checkObserved(b *bench) finding {
	n := 0
	for _, s := range []*scene{&b.acts.theft, &b.acts.hang, &b.acts.pause} {
		if !s.played() || len(b.after(s, history.WorkExit)) == 0 {
			continue
		}
		if n++; len(b.after(s, history.FenceObserved)) == 0 {
			return b.late(s, "it gave up its lock without a word: %s", quote(b.after(s, history.WorkExit)[0]))
		}
	}
	if n == 0 {
		return notSeen("it gave up no lock")
	}
	return ok("%s", figures.Plural(n, "lost lock"))
}

func checkStranger(b *bench) finding {
	n := 0
	for _, part := range []struct {
		s    *scene
		what string
	}{{&b.acts.theft, "had lost its key to a stranger"}, {&b.acts.pause, "had stood still, and its key was a stranger's"}} {
		if !part.s.played() {
			continue
		}
		n++
		left := 6*b.o.TTL - time.Duration(part.s.after.From-part.s.done)
		if part.s.after.Token != stranger || part.s.after.PTTL > left+b.o.TTL/5 || part.s.after.PTTL < left-b.o.TTL {
			return b.late(part.s, "the worker %s; then the key shows %s, and about %s were left%s", part.what, part.s.after, span(left), b.whoDid(part.s))
		}
	}
	if n == 0 {
		return notSeen(unplayed)
	}
	return ok("untouched")
}

// whoDid names the call that changed a stranger's key.
func (b *bench) whoDid(s *scene) string {
	for _, c := range b.seen.calls {
		if c.Life == s.life.inc && c.At >= s.done && c.whole() && c.Before.Token == stranger && (c.After.Token != stranger || c.extended() || c.After.PTTL < c.Before.PTTL-b.o.TTL) {
			return fmt.Sprintf("; the call %s did it", c.Name)
		}
	}
	return ""
}

func checkSilentStore(b *bench) finding {
	s := &b.acts.hang
	if f := b.early(s); f != nil {
		return *f
	}
	exit := b.after(s, history.WorkExit)
	if len(exit) == 0 {
		return b.late(s, "no work.exit within %s of silence; %s", span(time.Duration(s.undone-s.done)), b.lastOf(s))
	}
	left := b.validUntil(s, exit[0].Arrived) - exit[0].From
	if left < 0 {
		return b.late(s, "it worked on for %s past the end of its lease: %s", span(time.Duration(-left)), quote(exit[0]))
	}
	return ok("%s before the end of its lease", span(time.Duration(left)))
}

func checkUnknown(b *bench) finding {
	s := &b.acts.hang
	if f := b.early(s); f != nil {
		return *f
	}
	limit := b.policy().OpTimeout
	for _, l := range b.after(s, history.RenewReturn) {
		if l.To > s.undone || l.From < s.done {
			continue
		}
		switch took := time.Duration(l.To - l.From); {
		case l.Outcome != history.Unknown:
			return wrong("no reply could reach it, and it says %s: %s", l.Outcome, quote(l))
		case took > limit+b.o.TTL/4:
			return b.late(s, "it waited %s; policy.op_timeout is %s: %s", span(took), span(limit), quote(l))
		}
		return ok("after %s", span(time.Duration(l.To-l.From)))
	}
	if asked := b.after(s, history.RenewInvoke); len(asked) > 0 {
		return b.late(s, "this renewal was not given up in %s: %s", span(time.Duration(s.undone-asked[0].From)), quote(asked[0]))
	}
	return notSeen("it announced no renewal while the store was silent")
}

func checkPause(b *bench) finding {
	s := &b.acts.pause
	if f := b.early(s); f != nil {
		return *f
	}
	exit := b.after(s, history.WorkExit)
	if len(exit) == 0 {
		return b.late(s, "no work.exit within %s of its return; %s", span(3*b.o.TTL), b.lastOf(s))
	}
	if after := time.Duration(exit[0].From - s.done); after > b.o.TTL/2 {
		return b.late(s, "it worked on for %s: %s", span(after), quote(exit[0]))
	}
	return ok("%s after it ran again", span(time.Duration(exit[0].From-s.done)))
}

func checkStale(b *bench) finding {
	s := &b.acts.pause
	if !s.played() {
		return notSeen(unplayed)
	}
	for _, e := range b.effects(s) {
		if e.From > s.done && e.Accepted {
			return wrong("the effect %s (op %s, epoch %s) with the fence %d was accepted; a stranger had written with %d", e.State, e.Op, e.Epoch, e.Fence, b.acts.ledgerFence)
		}
	}
	return ok("none")
}

// shot lists what was said of one.
func (b *bench) shot(n int, kind history.Kind) (all []line) {
	for _, l := range b.within(&b.acts.arm, kind) {
		if l.Fault.ID == checkFault && l.Fault.Shot == n {
			all = append(all, l)
		}
	}
	return all
}

func checkArm(b *bench) finding {
	if !b.acts.arm.played() {
		return notSeen(unplayed)
	}
	hits, over := b.shot(1, history.FaultHit), b.shot(1, history.FaultReverted)
	const op = checkFault + "#1"
	switch {
	case len(over) == 0:
		return b.late(&b.acts.arm, "armed with 2 renewals to fail: no fault.reverted; %s; %s", figures.Plural(len(hits), "fault.hit"), b.lastOf(&b.acts.arm))
	case over[0].Op != op:
		return wrong("the op of a shot is %s: %s", op, quote(over[0]))
	case len(over) > 1:
		return wrong("fault.reverted came %d times: %s", len(over), quote(over[1]))
	case len(hits) == 0:
		return ok("it makes no faults: such shots are void")
	case len(hits) != 2 || over[0].Fault.Hits != 2:
		return b.late(&b.acts.arm, "armed with 2 renewals to fail: %s, and %s", figures.Plural(len(hits), "fault.hit"), quote(over[0]))
	}
	for _, l := range b.within(&b.acts.arm, history.RenewReturn) {
		if l.Call.Fault == op && (l.Outcome != history.Fail || len(b.seen.made(l, true)) > 0) {
			return wrong("mode error: the call is not sent, and its outcome is fail: %s", quote(l))
		}
	}
	return ok("2 renewals failed")
}

func checkDisarm(b *bench) finding {
	switch over := b.shot(2, history.FaultReverted); {
	case !b.acts.arm.played():
		return notSeen(unplayed)
	case len(over) == 0:
		return b.late(&b.acts.arm, "no fault.reverted of the shot %s#2", checkFault)
	case len(over) > 1:
		return wrong("fault.reverted came %d times: %s", len(over), quote(over[1]))
	}
	return ok("reverted")
}
