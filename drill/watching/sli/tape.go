// Package sli turns what a watch sees of locks into service level indicators for Prometheus, for as long as the watch runs: how long locks
// are held, how their leases end, how long natural takeovers take, how often leases are renewed, who holds, and what looking costs.
//
// Its one invariant: the figures of an epoch are those that a drill's judge reads from the same looks. Of each key it keeps the few looks
// that its present lease needs, so its memory does not grow with the time for which it runs.
package sli

import (
	"fmt"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/drill/watching"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/history"
)

// tape is what is kept of a key: the looks at its present lease, or at its last one until the next.
type tape struct {
	lock    string          // label
	holder  string          // label
	looks   []history.Event // the grant, the last extension, one that told no more, and the end; nil = the next grant takes nothing over
	epoch   string          // the present one, or the last
	held    bool
	leased  bool  // it was seen with an expiry, or is a Lease object: else it is no lock
	early   bool  // the last lease ended before its time
	told    bool  // how it ended
	renewed int64 // the middle of the last grant or extension; 0 = it was not seen
	at      int64 // the last look
	until   int64 // of a Lease object, which stays when its holder dies: when it surely runs out; 0 = a key goes by itself
}

// news is what a look says of its key beyond itself.
type news struct {
	granted  bool
	renewal  int64 // ns since the grant, or the extension before; 0 = none
	ending   *facts.Ending
	takeover *facts.Ending // it was taken over
	returned bool          // the token of a lease that ended before its time stands there again
}

// see takes in a look at the key. longer says that it shows an extension.
func (t *tape) see(s *watching.Seen, longer bool, cover *coverage) (n news, err error) {
	e := &s.Event
	from := e.From
	if e.Look.Prev != nil {
		from = e.Look.Prev.From
	}
	middle := from + (e.To-from)/2
	if t.until = 0; leaseObject(e) && e.Look.Present {
		t.until = e.To + e.Look.PTTL
	}
	t.at, t.leased = e.To, t.leased || e.Look.Present && e.Look.PTTL >= 0
	switch {
	case !t.held && !e.Look.Present:
		return n, nil
	case t.held && e.Look.Present && e.Epoch == t.epoch:
		if !longer {
			t.looks = append(t.looks[:min(len(t.looks), 2)], *e)
			return n, nil
		}
		if t.looks = append(t.looks[:1], *e); t.renewed != 0 {
			n.renewal = middle - t.renewed
		}
		t.renewed = middle
		return n, nil
	case len(t.looks) > 0:
		if err := t.read(&n, e, cover); err != nil {
			return n, err
		}
	}
	if !e.Look.Present {
		t.held, t.holder = false, ""
		return n, nil
	}
	n.granted = e.Look.Prev != nil
	n.returned = t.early && e.Epoch == t.epoch && s.Values == draft.Tokens
	*t = tape{lock: t.lock, holder: s.Holder, looks: []history.Event{*e}, epoch: e.Epoch, held: true, leased: t.leased, at: t.at, until: t.until}
	if n.granted {
		t.renewed = middle
	}
	return n, nil
}

// theLock is how the files below call the lock of a tape.
const theLock = "lock"

// read reads, with what e shows, how the lease on the tape ended and whether it was taken over, as the judge of a drill does.
func (t *tape) read(n *news, e *history.Event, cover *coverage) error {
	file := &experiments.Experiment{System: experiments.System{Mode: experiments.ModeObserve, Locks: []experiments.Lock{{Name: theLock, Key: e.Key}}}}
	if leaseObject(e) {
		file.System.Locks[0].Lease = e.Key
	}
	file.Probes.LockKeys.MaxGap, file.Probes.Leases.MaxGap = watching.LookWithin, watching.LookWithin
	t.looks = append(t.looks, *e)
	h := history.History{Events: append(cover.events(history.Span{From: t.looks[0].From, To: e.To}, e.Span), t.looks...)}
	for i := range h.Events {
		h.Events[i].Lock, h.Events[i].N = theLock, int64(i+1)
	}
	read, err := facts.Read(file, file, h.Source())
	if err != nil {
		return fmt.Errorf("read the looks at %s: %w", e.Key, err)
	}
	ends := read.EndingsOf(theLock)
	if len(ends) == 0 {
		return nil
	}
	if ends[0].Takeover != nil {
		n.takeover = &ends[0]
	}
	if !t.told {
		n.ending, t.told, t.early = &ends[0], true, ends[0].How == facts.EndEarly
	}
	if ends[0].How != facts.EndRanOut {
		t.looks = nil
	}
	return nil
}

// coverage is when the probe looked: stretches without a gap that is not tolerated, and what the probe says that it missed. What is older than
// all of it was not watched, as far as anybody remembers.
type coverage struct{ good, gaps []history.Span }

const mostStretches = 64

// looked adds a look that succeeded.
func (c *coverage) looked(at history.Span) {
	if n := len(c.good); n > 0 && at.From-c.good[n-1].To <= int64(watching.LookWithin) {
		c.good[n-1].To = at.To
		return
	}
	c.good = latest(append(c.good, at))
}

func latest(all []history.Span) []history.Span { return all[max(0, len(all)-mostStretches):] }

// events are what the record of a drill says of w. now is the look that goes on.
func (c *coverage) events(w, now history.Span) (all []history.Event) {
	with := coverage{good: append([]history.Span{}, c.good...)}
	with.looked(now)
	for kind, spans := range map[history.Kind][]history.Span{history.CoverageKind: with.good, history.GapKind: c.gaps} {
		for _, s := range spans {
			if _, in := s.Intersect(w); !in {
				continue
			}
			for _, probe := range []string{experiments.ProbeKeys, experiments.ProbeLeases} {
				all = append(all, history.Event{Kind: kind, Span: s, Source: "runner", Coverage: &history.Coverage{Probe: probe, Largest: int64(watching.LookWithin)}})
			}
		}
	}
	return all
}
