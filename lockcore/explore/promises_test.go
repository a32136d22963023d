package explore

import (
	"bytes"

	"github.com/lockdrill/lockdrill/lockcore"
)

// owns reports whether the store keeps the key for a contender's epoch.
func (s *state) owns(i int, c *contender) bool { return s.holder == i && s.epoch == c.used }

// safe reports whether the policy's class promises to fence.
func (w *World) safe() bool {
	return w.Policy.Class == lockcore.Critical || w.Policy.Class == lockcore.Standard
}

// promisesOwnedWork: a pause between a look and the work that follows is beyond any lock, and so is a store that forgets. Of the legacy
// classes only the count promises it, where its sum holds.
func (w *World) promisesOwnedWork() bool {
	switch {
	case w.Pauses || w.Flush || w.Delete:
		return false
	case w.OwnsWork:
		return true
	case w.Policy.Class == lockcore.LegacyCount:
		return lockcore.GiveUpSum(w.Policy) <= w.Policy.TTL
	}
	return w.safe()
}

// waits reports whether a caller waits for the key.
func (w *World) waits() bool { return w.Policy.Acquire.Mode == lockcore.AcquireWait }

// patience is how many steps of time are left of a caller's budget.
func (w *World) patience(s *state, c *contender) int {
	budget := w.Policy.Acquire.Budget
	if w.Policy.Acquire.LastTry == lockcore.LastTryWhole {
		budget += w.Policy.Acquire.Timeout
	}
	return c.asked + int(budget/w.step()) - (s.now - c.lag)
}

// check is the promise that a state breaks by itself.
func (w *World) check(s *state) string {
	for i, c := range s.who {
		if c.m == nil {
			continue
		}
		if !w.Flush && !w.Delete && c.m.Held(w.clock(s, c)) && !s.owns(i, c) {
			return HeldIsOwned
		}
		if w.Variant.Attempt == nil || w.Ignores {
			if broken := w.idle(s, c); broken != "" {
				return broken
			}
		}
	}
	return ""
}

// idle holds a machine to ignoring what is none of its business: a tick before its time, and a reply, of whatever kind, to a call that was
// answered or whose deadline is past. That is why a state need not carry such replies along: they may come at any time, again and again.
func (w *World) idle(s *state, c *contender) string {
	now := w.clock(s, c)
	at, ok := c.m.Next()
	due := ok && at <= now.Mono
	k := keyer{w: w, s: s, exact: w.exact()}
	k.machine(c.m, now.Mono)
	k.flags(c.open)
	if w.calm[string(k.b)] {
		return ""
	}
	w.calm[string(k.b)] = true
	after := func(in lockcore.Input) ([]byte, int) {
		m := w.change(&state{who: []*contender{c}}, 0).m
		did := len(m.Step(now, in, nil))
		k.b = nil
		k.machine(m, now.Mono)
		return k.b, did
	}
	ticked, did := after(lockcore.Input{Kind: lockcore.Tick, Rand: 0.5})
	if !due {
		k.b = nil
		k.machine(c.m, now.Mono)
		if did > 0 || !bytes.Equal(ticked, k.b) {
			return EarlyIsIgnored
		}
	}
	last := c.call.ID
	if c.open {
		last--
	}
	if last < 1 {
		return ""
	}
	for _, r := range []lockcore.Result{lockcore.OK, lockcore.Absent, lockcore.Unknown} {
		stale, does := after(lockcore.Input{Kind: lockcore.Reply, Call: last, Result: r, Fence: 1, Rand: 0.5})
		if does != did || !bytes.Equal(ticked, stale) {
			return StaleIsIgnored
		}
	}
	return ""
}

// settle drops what can make no difference any more: a reply that nobody waits for (see idle), and a request of the holder's that nobody
// waits for, where the key has gone for good (see strangers). A table that is wrong on purpose is asked all the same.
func (w *World) settle(s *state) {
	dead := 0
	for _, m := range s.messages {
		if w.dead(s, m) {
			dead++
		}
	}
	if dead == 0 {
		return
	}
	kept := make([]message, 0, len(s.messages)-dead)
	for _, m := range s.messages {
		if !w.dead(s, m) {
			kept = append(kept, m)
		}
	}
	s.messages = kept
}

func (w *World) dead(s *state, m message) bool {
	if m.kind == effect || s.who[m.who].awaits(m) {
		return false
	}
	if m.kind == reply {
		return true
	}
	if m.op == lockcore.OpAcquire || w.Variant.Rules != nil || s.holder == m.who && s.epoch == m.epoch {
		return false
	}
	for _, other := range s.messages { // an acquire that comes late would bring the token back
		if other.kind == request && other.op == lockcore.OpAcquire && other.who == m.who && other.epoch == m.epoch {
			return false
		}
	}
	return true
}

// strangers holds the store to refusing every token that the key does not carry: neither ends nor extends it. Rules that are wrong on
// purpose get such requests from the network: see dead.
func (t *turn) strangers(m message) {
	s, now := t.s, t.w.storeTime(t.s)
	holder, ends, held := s.store.table.Holder(now, key)
	stranger := func(who, epoch int) {
		token := t.w.token(who, epoch)
		if held && token == holder {
			return
		}
		store := s.store.table.Snapshot()
		unchanged := func(err error) bool {
			after, until, still := store.Holder(now, key)
			return err != nil && after == holder && until.Equal(ends) && still == held
		}
		t.breaks(NoForeignRenewal, !unchanged(store.Renew(now, key, token, t.w.Policy.TTL)))
		t.breaks(NoForeignRelease, !unchanged(store.Release(now, key, token)))
	}
	stranger(m.who, m.epoch)
	for who, c := range s.who {
		if who != m.who || c.used != m.epoch {
			stranger(who, c.used)
		}
	}
}
