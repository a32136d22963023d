package rehearsal

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// promises holds what every lock did against the rules of its policy, as docs/policies.md and lockcore state them. A lock that breaks one is
// measured as truly as any other: the ranges cannot tell.
type promises struct {
	e       *experiments.Experiment
	net     sim.Net
	t       *sim.Truth
	holders map[string]*holder // by epoch
	order   []*holder
	wrong   []string
}

// standing of a holder with its lock, by what was told so far.
type standing string

const (
	asking    standing = "asking"
	undoing   standing = "undoing"
	holding   standing = "holding"
	left      standing = "left to its ttl"
	fenced    standing = "fenced"
	releasing standing = "releasing"
	finished  standing = "finished"
)

// holder follows one epoch through its events.
type holder struct {
	*promises
	id, replica string
	policy      *lockcore.Policy
	is          standing
	valid       int64 // the validity end: send time of the last success + TTL - drift
	since       int64 // it was left to its ttl: a class that never fences may have worked on past the validity end
	failures    int
	unowned     bool
	lost        bool  // the store said that the key is not ours
	limit       int64 // of the renewal in flight
	tries       int   // of the undo or the release
	working     int   // stretches of work under way
	owed        owed
}

// owed is something that must come by an instant.
type owed struct {
	what string
	by   int64
}

// keepPromises gives the broken ones. What happens from final on is the taking down of the run.
func keepPromises(e *experiments.Experiment, net sim.Net, d *Drill, final int64) []string {
	p := &promises{e: e, net: net, t: d.Truth, holders: map[string]*holder{}}
	for i := range d.History.Events {
		ev := &d.History.Events[i]
		if ev.At >= final {
			break
		}
		if ev.Epoch == "" || ev.Clock != history.ClockShared || ev.Fault != nil {
			continue
		}
		h := p.holders[ev.Epoch]
		if h == nil {
			h = &holder{promises: p, id: ev.Epoch, replica: ev.Source, policy: policyOf(e, ev.Lock), is: asking}
			p.holders[ev.Epoch] = h
			p.order = append(p.order, h)
		}
		h.overdue(ev.At)
		h.sees(ev)
	}
	for _, h := range p.order {
		end := final
		if died, dead := p.t.Deaths[h.replica]; dead {
			end = min(end, died)
		}
		h.overdue(end)
	}
	p.storeRules()
	p.ledgerRules()
	return p.wrong
}

func (p *promises) broken(format string, args ...any) {
	p.wrong = append(p.wrong, "promise broken: "+fmt.Sprintf(format, args...))
}

func (h *holder) broken(at int64, format string, args ...any) {
	h.promises.broken("epoch %s, %s, at %s: %s", h.id, h.is, time.Duration(at), fmt.Sprintf(format, args...))
}

// by is until when what is due at an instant has happened: timers are late, and a process that stands still does it when it goes on.
func (h *holder) by(at int64) int64 {
	at += int64(h.net.Late)
	for _, s := range h.t.Stops {
		if s.Replica == h.replica && s.From <= at && s.To >= at {
			at = s.To
			if at == sim.Never {
				break
			}
			at += int64(20 * time.Microsecond)
		}
	}
	return at
}

func (h *holder) safe() bool {
	return h.policy.Class == lockcore.Critical || h.policy.Class == lockcore.Standard
}

func (h *holder) announces() bool { return h.policy.Class == lockcore.Continuity }

func (h *holder) counts() bool {
	return (h.policy.Class == lockcore.Critical || h.policy.Class == lockcore.LegacyCount) && h.policy.MaxFailures > 0
}

// deadline is when a safe class fences.
func (h *holder) deadline() int64 { return h.valid - int64(h.policy.StopBudget) }

// overdue is what should have come before now.
func (h *holder) overdue(now int64) {
	switch {
	case h.owed.what != "" && now > h.owed.by:
		h.broken(now, "%s was due at %s", h.owed.what, time.Duration(h.owed.by))
	case h.is == holding && h.safe() && now > h.by(h.deadline()):
		h.broken(now, "relied on after its validity end - stop budget, %s", time.Duration(h.deadline()))
	case h.is == holding && h.announces() && !h.unowned && now > h.by(h.valid):
		h.broken(now, "not announced as unowned at its validity end, %s", time.Duration(h.valid))
	case h.is == left && now > h.by(max(h.valid, h.since)):
		h.broken(now, "relied on after its validity end, %s", time.Duration(h.valid))
	}
}

func (h *holder) owes(what string, by int64) { h.owed = owed{what, by} }

func (h *holder) sees(ev *history.Event) {
	now := ev.At
	switch ev.Kind {
	case history.AcquireReturn:
		h.acquired(ev)
	case history.UndoInvoke, history.ReleaseInvoke:
		h.givesBack(ev)
	case history.UndoReturn, history.ReleaseReturn:
		h.gaveBack(ev)
	case history.RenewInvoke:
		h.renews(now)
	case history.RenewReturn:
		h.renewed(ev)
	case history.FenceObserved:
		h.fence(ev)
	case history.UnownedEnter:
		if ev.Abandon.Reason == string(lockcore.ReasonDeadline) && now < h.valid {
			h.broken(now, "unowned before its validity end, %s", time.Duration(h.valid))
		}
		h.unowned, h.owed = true, owed{}
	case history.ReleaseSkipped:
		h.skips(ev)
	case history.WorkEnter:
		if h.working++; h.is != holding {
			h.broken(now, "work begins")
		}
	case history.WorkExit:
		if h.working--; h.is == holding && (h.policy.Loop == nil || h.policy.Loop.Mode == lockcore.LoopExplicit) {
			h.owes("giving it back when its work had stopped", now)
		}
	case history.WriteInvoke:
		if h.is != holding || h.safe() && now >= h.valid {
			h.broken(now, "an effect is sent, its validity end was %s", time.Duration(h.valid))
		}
	}
}

// acquired: an answer that came too late begins nothing, and a grant that may be ours is given back.
func (h *holder) acquired(ev *history.Event) {
	switch ev.Outcome {
	case history.OK:
		if h.valid = ev.From + int64(h.policy.TTL-h.policy.Drift); ev.At < h.deadline() {
			h.is = holding
			return
		}
		fallthrough
	case history.Unknown:
		h.is = undoing
		h.owes("its undo", ev.At)
	default:
		h.is = finished
	}
}

// undoTries is how often an undo is tried, as lockcore says.
const undoTries = 3

func (h *holder) triesAllowed() int {
	switch {
	case h.is == undoing:
		return undoTries
	case h.policy.Release.Mode == lockcore.ReleaseBoundedRetry:
		return h.policy.Release.Attempts
	}
	return 1
}

func (h *holder) givesBack(ev *history.Event) {
	h.owed = owed{}
	if ev.Kind == history.ReleaseInvoke && h.is != releasing {
		abandoned := h.is == fenced && h.policy.Release.AfterAbandon == lockcore.AfterAbandonSkip
		if h.is != holding && h.is != fenced || abandoned || h.lost || h.policy.Release.Mode == lockcore.ReleaseNone {
			h.broken(ev.At, "released, which its policy forbids")
		}
		h.is = releasing
	}
	if h.working > 0 {
		h.broken(ev.At, "released while its work went on")
	}
	if h.tries++; h.tries > h.triesAllowed() {
		h.broken(ev.At, "given back %d times, %d are allowed", h.tries, h.triesAllowed())
	}
}

func (h *holder) gaveBack(ev *history.Event) {
	surely := ev.Outcome == history.OK || ev.Call.Result == history.ResultAbsent || ev.Call.Result == history.ResultOther
	if surely || h.tries >= h.triesAllowed() {
		h.is = finished
		return
	}
	timeout := h.policy.Release.Timeout
	if h.is == undoing {
		timeout = h.policy.Acquire.Timeout
	}
	h.owes("another try to give it back", h.by(ev.At+int64(timeout/10)))
}

func (h *holder) renews(now int64) {
	if h.is != holding || h.lost {
		h.broken(now, "a renewal is sent")
	}
	limit := int64(h.policy.OpTimeout)
	if rest := h.valid - now; rest > 0 && (h.safe() || h.announces()) {
		limit = min(limit, rest)
	}
	h.limit = h.by(now + limit)
}

func (h *holder) renewed(ev *history.Event) {
	now := ev.At
	if h.is == holding && now > h.limit {
		h.broken(now, "a renewal was waited for beyond %s", time.Duration(h.limit))
	}
	notOwned := ev.Outcome == history.Fail && (ev.Call.Result == history.ResultAbsent || ev.Call.Result == history.ResultOther)
	switch {
	case h.is == left && notOwned:
		h.owes("a fence, because the key is not its own", now)
	case h.is != holding && h.is != left:
	case ev.Outcome == history.OK:
		h.valid, h.failures, h.unowned = ev.From+int64(h.policy.TTL-h.policy.Drift), 0, false
	case h.is == left:
	case notOwned && h.safe():
		h.lost = true
		h.owes("a fence, because the key is not its own", now)
	case notOwned && h.announces():
		if h.lost = true; !h.unowned {
			h.owes("being announced as unowned", now)
		}
	default:
		if h.failures++; h.counts() && h.failures >= h.policy.MaxFailures {
			h.owes("a fence, by the count of failures", now)
		}
	}
}

// fence: each for its reason, and not before it.
func (h *holder) fence(ev *history.Event) {
	h.owed = owed{}
	ok := false
	switch r := lockcore.Reason(ev.Abandon.Reason); {
	case h.is == undoing: // a grant that came too late
		h.owes("its undo", ev.At)
		return
	case r == lockcore.ReasonDeadline:
		ok = h.is == holding && h.safe() && ev.At >= h.deadline()
	case r == lockcore.ReasonCount:
		ok = h.is == holding && h.counts() && h.failures == h.policy.MaxFailures
	case r == lockcore.ReasonNotOwned:
		ok = h.is == left || h.lost
	case r == lockcore.ReasonExpired:
		ok = h.is == left && ev.At >= h.valid
	}
	if !ok {
		h.broken(ev.At, "fenced for %q after %d failures, its validity end was %s", ev.Abandon.Reason, h.failures, time.Duration(h.valid))
	}
	if h.is == left {
		h.is = finished
		return
	}
	h.is = fenced
	h.owes("giving it back, or saying that it is not, once the work had stopped", h.by(ev.At+int64(time.Millisecond)))
}

func (h *holder) skips(ev *history.Event) {
	h.owed = owed{}
	switch {
	case ev.Call.Why == string(lockcore.ReasonTTLHold) && h.is == holding:
		h.is, h.since = left, ev.At
	case h.is == fenced, h.is == holding && h.lost:
		h.is = finished
	default:
		h.broken(ev.At, "its release is skipped: %s", ev.Call.Why)
	}
}

func policyOf(e *experiments.Experiment, lock string) *lockcore.Policy {
	for i := range e.System.Locks {
		if e.System.Locks[i].Name == lock {
			return &e.System.Locks[i].Policy
		}
	}
	return nil
}
