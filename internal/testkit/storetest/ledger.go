package storetest

import (
	"testing"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Ledger runs the suite on fresh, empty ledgers.
func Ledger(t *testing.T, open func(t *testing.T) lockcore.Ledger) {
	for _, c := range []struct {
		name string
		run  func(*ledgerCase)
	}{
		{"begin raises the mark, lower fences are refused", beginFences},
		{"every accepted write raises the mark", writeFences},
		{"unfenced writes are not compared", unfenced},
		{"marks are kept per key", marksPerKey},
		{"a repeated operation is answered, not applied", replay},
		{"a refused operation stays refused", replayRefused},
		{"strict refuses a second terminal state", strict},
		{"not strict applies it", notStrict},
		{"begin and tick are no states", noStates},
		{"the receipt has the state before", before},
		{"large fences are exact", largeFences},
		{"an effect without a name is refused", nameless},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(&ledgerCase{T: t, l: open(t)}) })
	}
}

// ledgerCase writes with short words: an effect is on key k, subject s, with an operation id of its own.
type ledgerCase struct {
	*testing.T
	l   lockcore.Ledger
	pos int64 // of the last new entry
}

func effect(op, state string, fence int64) lockcore.Effect {
	return lockcore.Effect{Key: "k", Subject: "s", State: state, Epoch: "e", Fence: fence, Op: op, Writer: "r1.1"}
}

func terminal(op, state string, fence int64) lockcore.Effect {
	e := effect(op, state, fence)
	e.Terminal = true
	return e
}

// write wants the answer: "" = accepted, else the reason; replays are at the position of the first answer.
func (c *ledgerCase) write(e lockcore.Effect, reason string) lockcore.Receipt {
	c.Helper()
	r, err := c.l.Write(c.Context(), e)
	if err != nil {
		c.Fatalf("write %s: %v", e.Op, err)
	}
	if r.Reason != reason || r.Accepted != (reason == "" || reason == "replay") {
		c.Errorf("write %s: accepted %v, reason %q; want reason %q", e.Op, r.Accepted, r.Reason, reason)
	}
	if reason != "replay" && r.Pos > c.pos+1 || r.Pos < 1 {
		c.Errorf("write %s: position %d after %d", e.Op, r.Pos, c.pos)
	}
	c.pos = max(c.pos, r.Pos)
	return r
}

func (c *ledgerCase) wantState(subject string, want lockcore.SubjectState) {
	c.Helper()
	got, err := c.l.Read(c.Context(), subject)
	if err != nil || got != want {
		c.Errorf("read %s: %+v, %v; want %+v", subject, got, err, want)
	}
}

func beginFences(c *ledgerCase) {
	c.write(effect("1", "begin", 10), "")
	c.write(effect("2", "begin", 12), "")
	c.write(terminal("3", "done", 10), "fenced")
	c.write(effect("4", "begin", 11), "fenced")
	c.write(terminal("5", "done", 12), "")
	c.wantState("s", lockcore.SubjectState{State: "done", Terminal: true, Fence: 12})
}

func writeFences(c *ledgerCase) {
	c.write(effect("1", "running", 10), "")
	c.write(effect("2", "tick", 20), "")
	c.write(effect("3", "running", 19), "fenced")
}

func unfenced(c *ledgerCase) {
	c.write(effect("1", "begin", 20), "")
	e := terminal("2", "done", 10)
	e.Unfenced = true
	c.write(e, "")
	c.write(effect("3", "begin", 19), "fenced") // a lower unfenced write must not lower the mark
}

func marksPerKey(c *ledgerCase) {
	c.write(effect("1", "begin", 20), "")
	e := effect("2", "begin", 10)
	e.Key = "other"
	c.write(e, "")
}

func replay(c *ledgerCase) {
	first := c.write(terminal("1", "done", 10), "")
	c.write(terminal("2", "failed", 11), "")
	again := c.write(terminal("1", "done", 10), "replay")
	if again.Pos != first.Pos || again.Before != first.Before {
		c.Errorf("replay %+v, want the first answer %+v", again, first)
	}
	c.wantState("s", lockcore.SubjectState{State: "failed", Terminal: true, Fence: 11})
	if next := c.write(effect("3", "tick", 11), ""); next.Pos != 3 {
		c.Errorf("position %d after a replay, want 3: a replay is no entry", next.Pos)
	}
}

func replayRefused(c *ledgerCase) {
	c.write(effect("1", "begin", 10), "")
	c.write(effect("2", "begin", 9), "fenced")
	c.write(effect("2", "begin", 11), "fenced")
}

func strict(c *ledgerCase) {
	e := terminal("1", "done", 10)
	e.Strict = true
	c.write(e, "")
	e.Op, e.State, e.Fence = "2", "failed", 11
	c.write(e, "terminal")
	c.wantState("s", lockcore.SubjectState{State: "done", Terminal: true, Fence: 10})
	c.write(effect("3", "running", 10), "") // a refused write does not raise the mark
}

func notStrict(c *ledgerCase) {
	c.write(terminal("1", "done", 10), "")
	c.write(terminal("2", "failed", 11), "")
	c.wantState("s", lockcore.SubjectState{State: "failed", Terminal: true, Fence: 11})
}

func noStates(c *ledgerCase) {
	c.write(effect("1", "begin", 10), "")
	c.write(effect("2", "tick", 10), "")
	c.wantState("s", lockcore.SubjectState{})
}

func before(c *ledgerCase) {
	c.write(effect("1", "half done", 10), "")
	if r := c.write(terminal("2", "done", 11), ""); r.Before != (lockcore.SubjectState{State: "half done", Fence: 10}) {
		c.Errorf("before %+v, want half done", r.Before)
	}
	want := lockcore.SubjectState{State: "done", Terminal: true, Fence: 11}
	if r := c.write(effect("3", "begin", 12), ""); r.Before != want {
		c.Errorf("before %+v, want %+v", r.Before, want)
	}
	if r := c.write(effect("4", "begin", 5), "fenced"); r.Before != want {
		c.Errorf("before a refused write %+v, want %+v", r.Before, want)
	}
}

func largeFences(c *ledgerCase) {
	const fence = 1_790_000_000_123_457 // microseconds since 1970, 16 digits
	c.write(terminal("1", "done", fence), "")
	c.wantState("s", lockcore.SubjectState{State: "done", Terminal: true, Fence: fence})
	c.write(effect("2", "begin", fence-1), "fenced")
	c.write(effect("3", "begin", fence+1), "")
}

func nameless(c *ledgerCase) {
	for _, e := range []lockcore.Effect{effect("", "begin", 1), effect("1", "", 1), {Subject: "s", State: "begin", Op: "1"}, {Key: "k", State: "begin", Op: "1"}} {
		_, err := c.l.Write(c.Context(), e)
		wantFailed(c.T, "write", err)
	}
}
