package workercheck

import (
	"slices"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// releaseRows are about giving a key back, and the answer to an offer.
var releaseRows = []row{
	{"release-announced", "announces each release before the call",
		"the line release.invoke (or undo.invoke), then the call",
		"Write release.invoke before the key is deleted.", inLines, func(b *bench) finding {
			return b.unannounced(func(c *call) bool { return c.deleted() }, history.ReleaseInvoke, "has deleted")
		}, ""},
	{"release", "says truly whether a release has freed the key",
		"a release that is said to be ok deletes the key with the epoch's token",
		"Send the release that you announce: a script that compares the token, then deletes. Say ok only for what the store has answered.", inLocks, checkRelease, ""},
	{"release-order", "stops the work, then the renewals, and only then releases",
		"work.exit, then release.invoke, and no renew.invoke behind it",
		"Wait until the work has stopped, end the renewals, then release. A lock given back under running work is two holders.", inLocks, checkOrder, Jobs},
	{"free", "leaves a free key behind a finished job",
		"no key after the job, as policy.release.mode says (bounded_retry)",
		"Release the key before the answer job.ack; try again where a release fails.", inLocks, func(b *bench) finding {
			s := &b.acts.first
			switch {
			case s.life == nil || len(b.within(s, history.WorkEnter)) == 0:
				return notSeen(unplayed)
			case s.after.Token != "":
				return b.late(s, "%s after its answer the key shows %s", span(b.o.TTL/5), s.after)
			}
			return ok("%s", s.after)
		}, Jobs},
	{"ack", "answers a finished offer with job.ack done",
		"one job.ack with the job's id and ack done",
		"Write job.ack when the terminal state was accepted and the key is given back. Without it the job is offered again.", inCommands, checkAck, Jobs},
	{"offered-again", "does a job once that is offered again while it is under way",
		"one answer, one terminal effect",
		"Keep the ids of the jobs that are under way, and take an offer of one of them for a repetition.", inCommands, checkAgain, Jobs},
	{"skipped", "skips a job that is finished already",
		"begin, whose reply says that the job is terminal; then work.exit, release, and job.ack skipped",
		"Read reply 5 of begin (terminal before). Where it is 1 and the lock's no_look is false, do not do the job again.", inEffects, checkSkipped, Jobs},
}

func checkRelease(b *bench) finding {
	n := 0
	for _, l := range b.seen.of("", 0, history.ReleaseReturn) {
		if l.Outcome != history.OK {
			continue
		}
		n++
		calls := b.seen.made(l, false)
		freed := could(calls, func(c *call) bool { return c.After.Token == "" && lockcore.Fingerprint(c.Before.Token) == l.Epoch })
		switch {
		case len(calls) == 0:
			return wrong("it says released, and sent no call that names the key %s: %s", l.Key, quote(l))
		case !freed:
			return wrong("it says released, and %s did not delete its epoch's key (before: %s; after: %s): %s", calls[0].Name, calls[0].Before, calls[0].After, quote(l))
		}
	}
	if n == 0 {
		return notSeen("no release.return ok")
	}
	return ok("%s", figures.Plural(n, "release"))
}

func checkOrder(b *bench) finding {
	type epoch struct{ exited, released bool }
	state, n := map[string]*epoch{}, 0
	for _, l := range b.seen.lines {
		if l.Kind == history.WorkEnter {
			state[l.Epoch] = &epoch{}
		}
		e := state[l.Epoch]
		if e == nil {
			continue
		}
		switch l.Kind {
		case history.WorkExit:
			e.exited = true
		case history.ReleaseInvoke:
			if !e.exited {
				return wrong("release.invoke before the work.exit of its epoch: %s", quote(l))
			}
			e.released = true
			n++
		case history.RenewInvoke:
			if e.released {
				return wrong("a renewal after the release of its epoch: %s", quote(l))
			}
		}
	}
	if n == 0 {
		return notSeen("no release after work")
	}
	return ok("%s", figures.Plural(n, "release"))
}

// acks are the answers to the scene's job.
func (b *bench) acks(s *scene) (all []line) {
	for _, l := range b.within(s, history.JobAck) {
		if l.Job.ID == s.job {
			all = append(all, l)
		}
	}
	return all
}

func checkAck(b *bench) finding {
	s := &b.acts.first
	if s.life == nil || len(b.within(s, history.WorkEnter)) == 0 {
		return notSeen(unplayed)
	}
	acks := b.acks(s)
	switch {
	case len(acks) == 0 && len(b.within(s, history.JobAck)) > 0:
		return wrong("the job's id is %s: %s", s.job, quote(b.within(s, history.JobAck)[0]))
	case len(acks) == 0:
		return b.late(s, "no job.ack within %s", span(4*b.o.TTL))
	case acks[0].Job.Ack != history.AckDone:
		return wrong("the answer is not done: %s", quote(acks[0]))
	}
	return ok("done")
}

func checkAgain(b *bench) finding {
	s := &b.acts.first
	if s.life == nil || len(b.within(s, history.WorkEnter)) == 0 {
		return notSeen(unplayed)
	}
	terminal := 0
	for _, e := range b.effects(s) {
		if e.Terminal && e.Accepted {
			terminal++
		}
	}
	acks := slices.DeleteFunc(b.acks(s), func(l line) bool { return l.Job.Ack == history.AckSkipped }) // it was done when it was offered again
	if len(acks) > 1 || terminal > 1 {
		return b.late(s, "%s and %s", figures.Plural(len(acks), "answer"), figures.Plural(terminal, "terminal effect"))
	}
	return ok("one answer")
}

func checkSkipped(b *bench) finding {
	s := &b.acts.repeat
	if first := b.acks(&b.acts.first); !s.played() || len(first) == 0 || first[0].Job.Ack != history.AckDone {
		return notSeen("the job was not finished the first time")
	}
	for _, e := range b.effects(s) {
		if e.From > s.from && e.Terminal && e.Accepted {
			return wrong("a second terminal effect: %s (op %s)", e.State, e.Op)
		}
	}
	switch acks := b.acks(s); {
	case len(acks) == 0:
		return b.late(s, "no job.ack within %s", span(2*b.o.TTL))
	case acks[0].Job.Ack != history.AckSkipped:
		return wrong("the answer is not skipped: %s", quote(acks[0]))
	}
	return ok("skipped")
}
