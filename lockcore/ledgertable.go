package lockcore

import (
	"fmt"
)

// LedgerTable is what a ledger answers, as pure data: the rules that every Ledger follows, and that the in-memory ledger is.
// A LedgerTable is not safe for concurrent use.
type LedgerTable struct {
	marks    map[string]int64 // lock key: the highest fence of an accepted write
	subjects map[string]SubjectState
	answers  map[string]Receipt // operation id: the first answer
	entries  []LedgerEntry
}

// LedgerEntry is one write in the ledger's own order, refused ones included. A repeated operation is no new entry.
type LedgerEntry struct {
	Pos int64 // 1, 2, 3 ...
	Effect
	Accepted bool
	Reason   string
}

// The ledger's words, as they stand in histories (package history, which this package does not import).
const (
	stateBegin     = "begin"
	stateTick      = "tick"
	reasonFenced   = "fenced"
	reasonTerminal = "terminal"
	reasonReplay   = "replay"
)

// NewLedgerTable returns a ledger without entries.
func NewLedgerTable() *LedgerTable {
	return &LedgerTable{marks: map[string]int64{}, subjects: map[string]SubjectState{}, answers: map[string]Receipt{}}
}

// Reset forgets everything.
func (t *LedgerTable) Reset() {
	clear(t.marks)
	clear(t.subjects)
	clear(t.answers)
	clear(t.entries)
	t.entries = t.entries[:0]
}

// Read follows Ledger.Read.
func (t *LedgerTable) Read(subject string) SubjectState { return t.subjects[subject] }

// Write follows Ledger.Write.
func (t *LedgerTable) Write(e Effect) (Receipt, error) {
	if err := e.Check(); err != nil {
		return Receipt{}, err
	}
	if first, again := t.answers[e.Op]; again {
		if first.Accepted {
			first.Reason = reasonReplay
		}
		return first, nil
	}
	r := Receipt{Pos: int64(len(t.entries)) + 1, Before: t.subjects[e.Subject]}
	r.Reason = t.refuse(e)
	r.Accepted = r.Reason == ""
	if r.Accepted {
		t.apply(e)
	}
	t.answers[e.Op] = r
	t.entries = append(t.entries, LedgerEntry{Pos: r.Pos, Effect: e, Accepted: r.Accepted, Reason: r.Reason})
	return r, nil
}

// refuse returns the reason against the effect, or "".
func (t *LedgerTable) refuse(e Effect) string {
	switch {
	case !e.Unfenced && e.Fence < t.marks[e.Key]:
		return reasonFenced
	case e.Strict && e.Terminal && t.subjects[e.Subject].Terminal:
		return reasonTerminal
	}
	return ""
}

func (t *LedgerTable) apply(e Effect) {
	t.marks[e.Key] = max(t.marks[e.Key], e.Fence)
	if e.State != stateBegin && e.State != stateTick {
		t.subjects[e.Subject] = SubjectState{State: e.State, Terminal: e.Terminal, Fence: e.Fence}
	}
}

// Entries returns the entries after position after (0 = all), in order. They are the table's own: good until Reset, and not to be
// changed.
func (t *LedgerTable) Entries(after int64) []LedgerEntry {
	return t.entries[min(max(after, 0), int64(len(t.entries))):]
}

// Check refuses an effect that no ledger could order or tell apart; the error wraps ErrNotSent.
func (e Effect) Check() error {
	for _, f := range []struct{ name, value string }{
		{"key", e.Key}, {"subject", e.Subject}, {"state", e.State}, {"op", e.Op},
	} {
		if f.value == "" {
			return fmt.Errorf("effect without %s: %w", f.name, ErrNotSent)
		}
	}
	return nil
}
