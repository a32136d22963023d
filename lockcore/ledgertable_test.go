package lockcore_test

import (
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// The ledger speaks the history's words, without importing it.
func TestLedgerSpeaksTheHistorysWords(t *testing.T) {
	l := lockcore.NewLedgerTable()
	write := func(op, state string, fence int64, terminal bool) lockcore.Receipt {
		t.Helper()
		r, err := l.Write(lockcore.Effect{Key: "k", Subject: "s", State: state, Terminal: terminal, Fence: fence, Op: op, Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	write("1", history.StateBegin, 10, false)
	write("2", history.StateTick, 10, false)
	if s := l.Read("s"); s.State != "" {
		t.Errorf("begin and tick became the state %q", s.State)
	}
	if r := write("3", "done", 9, true); r.Reason != history.ReasonFenced {
		t.Errorf("reason %q, want %q", r.Reason, history.ReasonFenced)
	}
	write("4", "done", 10, true)
	if r := write("5", "done", 11, true); r.Reason != history.ReasonTerminal {
		t.Errorf("reason %q, want %q", r.Reason, history.ReasonTerminal)
	}
	if r := write("4", "done", 10, true); r.Reason != history.ReasonReplay {
		t.Errorf("reason %q, want %q", r.Reason, history.ReasonReplay)
	}
}
