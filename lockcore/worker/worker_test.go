package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/work"
)

// shakyLedger loses replies: what it does with a write is the test's choice.
type shakyLedger struct {
	lockcore.Ledger
	calls  int
	ops    []string
	lose   func(call int) bool // the reply, after the write
	refuse func(call int) bool // the write, before it is sent
}

var errNoReply = errors.New("no reply")

func (l *shakyLedger) Write(ctx context.Context, e lockcore.Effect) (lockcore.Receipt, error) {
	l.calls++
	l.ops = append(l.ops, e.Op)
	if l.refuse != nil && l.refuse(l.calls) {
		return lockcore.Receipt{}, lockcore.ErrNotSent
	}
	r, err := l.Ledger.Write(ctx, e)
	if l.lose != nil && l.lose(l.calls) {
		return lockcore.Receipt{}, errNoReply
	}
	return r, err
}

// newTask is a job on a lock in memory, with its effects in ledger; it ends the lock where the test says so.
func newTask(t *testing.T, ledger lockcore.Ledger) (k *task, events *[]history.Event, endLock func()) {
	t.Helper()
	events = new([]history.Event)
	out := writerFunc(func(line []byte) (int, error) {
		var e history.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Errorf("line %s: %v", line, err)
		}
		*events = append(*events, e)
		return len(line), nil
	})
	who := protocol.Configure{Incarnation: "r1.1", Locks: []protocol.Lock{jobLock()}}
	w := newWorker(who, newTeller(who, out, func(err error) { t.Error(err) }, nil))
	l := w.locks["job"]
	c, err := client.New(client.Options{Store: memstore.NewStore(nil), Policy: l.Policy})
	if err != nil {
		t.Fatal(err)
	}
	endLock = func() { _ = c.Close(context.Background()) }
	t.Cleanup(endLock)
	w.locker, w.ledger = inMemory{c}, ledger
	return &task{w: w, lock: l, key: "job:a", subject: "a", m: work.New(work.Spec{Policy: &l.Policy}, nil)}, events, endLock
}

// inMemory takes keys of one client.
type inMemory struct{ c *client.Client }

func (m inMemory) Acquire(ctx context.Context, w Want) (Held, error) { return m.c.Acquire(ctx, w.Key) }

func jobLock() protocol.Lock {
	return protocol.Lock{Name: "job", Policy: lockcore.Policy{
		TTL: time.Second, RenewEvery: 300 * time.Millisecond, Class: lockcore.Standard, OpTimeout: 200 * time.Millisecond,
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 200 * time.Millisecond},
		Release: lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: 200 * time.Millisecond, AfterAbandon: lockcore.AfterAbandonSkip},
	}}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// returns are the outcomes of the effects, in their order.
func returns(events []history.Event) (outcomes []history.Outcome) {
	for _, e := range events {
		if e.Kind == history.WriteReturn {
			outcomes = append(outcomes, e.Outcome)
		}
	}
	return outcomes
}

func TestWriteSurvivesLostReplies(t *testing.T) {
	const ok, lost, never = history.OK, history.Unknown, history.Fail
	end := func(n int) bool { return n > 1 } // the begin is call 1
	for _, tt := range []struct {
		name     string
		ledger   shakyLedger
		answer   string
		outcomes []history.Outcome
		entries  int
	}{
		{"no loss", shakyLedger{}, history.AckDone, []history.Outcome{ok, ok}, 2},
		{"one reply lost: the repetition is a replay", shakyLedger{lose: func(n int) bool { return n == 2 }}, history.AckDone, []history.Outcome{ok, lost, ok}, 2},
		{"all replies lost: the state is read", shakyLedger{lose: end}, history.AckDone, []history.Outcome{ok, lost, lost, lost}, 2},
		{"never sent", shakyLedger{refuse: end}, "", []history.Outcome{ok, never, never, never}, 1},
		{"a begin without an answer is no leave to work", shakyLedger{lose: func(int) bool { return true }}, "", []history.Outcome{lost, lost, lost}, 1},
	} {
		mem := memstore.NewLedger()
		tt.ledger.Ledger = mem
		k, events, _ := newTask(t, &tt.ledger)
		answer := k.run(t.Context())
		if got, entries := returns(*events), mem.Entries(0); answer != tt.answer || !slices.Equal(got, tt.outcomes) || len(entries) != tt.entries {
			t.Errorf("%s: answer %q, outcomes %v, %d entries; want %q, %v, %d", tt.name, answer, got, len(entries), tt.answer, tt.outcomes, tt.entries)
		}
		for i, op := range tt.ledger.ops {
			if i > 0 && (op == tt.ledger.ops[i-1]) != (tt.outcomes[i-1] != ok) {
				t.Errorf("%s: operation ids %v: a repetition keeps its own, another effect has another", tt.name, tt.ledger.ops)
			}
		}
		if len(*events) != 2*len(tt.outcomes)+2 {
			t.Errorf("%s: %d events, want a pair a call, and work", tt.name, len(*events))
		}
	}
}

// Where the lock is gone nothing more is written, and the work says why it ended.
func TestWriteEndsWithTheLock(t *testing.T) {
	mem := memstore.NewLedger()
	ledger := &shakyLedger{Ledger: mem}
	k, events, endLock := newTask(t, ledger)
	ledger.lose = func(int) bool { endLock(); return false } // behind the begin
	if answer := k.run(t.Context()); answer != "" || len(mem.Entries(0)) != 1 {
		t.Errorf("after the lock's end: answer %q, %d entries; want none, and the begin", answer, len(mem.Entries(0)))
	}
	if last := (*events)[len(*events)-1]; last.Kind != history.WorkExit || last.Work.Why != string(work.Fenced) {
		t.Errorf("the last event is %s, %+v; want work.exit, fenced", last.Kind, last.Work)
	}
}

func TestValidityCountsFromTheSending(t *testing.T) {
	v := newValidity(lockcore.Policy{TTL: 11 * time.Second, Drift: time.Second})
	note := func(k history.Kind, o history.Outcome, sent int64, ttl time.Duration) {
		v.note(history.Event{Kind: k, Outcome: o, Epoch: "e", Span: history.Span{From: sent, To: sent + 5}, Call: &history.Call{TTL: int64(ttl)}})
	}
	expect := func(want int64) {
		t.Helper()
		if got, ok := v.end("e"); ok != (want != 0) || got != want {
			t.Errorf("end = %d, %v; want %d", got, ok, want)
		}
	}
	note(history.RenewReturn, history.OK, 1, 0) // of an epoch that is over
	expect(0)
	note(history.AcquireReturn, history.OK, 100, 0)
	expect(100 + int64(10*time.Second))
	note(history.RenewReturn, history.Unknown, 200, 0)
	note(history.RenewInvoke, "", 300, 0)
	expect(100 + int64(10*time.Second))
	note(history.RenewReturn, history.OK, 400, 0)
	expect(400 + int64(10*time.Second))
	note(history.RenewReturn, history.OK, 500, 7*time.Second) // a library that keeps to less than the policy's TTL
	expect(500 + int64(6*time.Second))
	v.forget("e")
	expect(0)
}
