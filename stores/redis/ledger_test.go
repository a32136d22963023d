package redis

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/stores/witness"
)

func newLedger(t *testing.T, c *redis.Client) (*Ledger, *redisstore.Ledger, string) {
	stream := redisstore.KeysOf("run:").Entries
	p := NewLedger(&redis.Options{Addr: c.Options().Addr}, stream, func(key string) string {
		if key == "k" {
			return "job"
		}
		return ""
	})
	t.Cleanup(func() { _ = p.Close() })
	return p, redisstore.NewLedger(c, "run:"), stream
}

func write(t *testing.T, l *redisstore.Ledger, op, state string, fence int64) lockcore.Receipt {
	t.Helper()
	r, err := l.Write(t.Context(), lockcore.Effect{
		Key: "k", Subject: "j", State: state, Terminal: state == "done", Epoch: "0123456789ab", Fence: fence, Op: op, Writer: "r1.1",
	})
	if err != nil {
		t.Fatalf("write %s: %v", op, err)
	}
	return r
}

func TestLedgerReportsEveryEntryOnceInOrder(t *testing.T) {
	onStores(t, func(t *testing.T, c *redis.Client) {
		p, l, _ := newLedger(t, c)
		if events := look(t, p, at(10), false); len(events) != 0 {
			t.Fatalf("an empty ledger gave %+v", events)
		}
		write(t, l, "op1", history.StateBegin, 7)
		write(t, l, "op2", "done", 7)
		write(t, l, "op2", "done", 7) // a replay is no entry
		write(t, l, "op3", "done", 6)
		events := look(t, p, at(20), false)
		want := []history.Entry{
			{Pos: 1, Subject: "j", State: "begin", Accepted: true, Writer: "r1.1"},
			{Pos: 2, Subject: "j", State: "done", Terminal: true, Accepted: true, Writer: "r1.1"},
			{Pos: 3, Subject: "j", State: "done", Terminal: true, Reason: history.ReasonFenced, Writer: "r1.1"},
		}
		if len(events) != len(want) {
			t.Fatalf("got %d entries, want %d", len(events), len(want))
		}
		for i, e := range events {
			if *e.Entry != want[i] || e.Op != fmt.Sprint("op", i+1) || e.Lock != "job" || e.Key != "k" || e.Epoch != "0123456789ab" {
				t.Errorf("entry %d: got %+v %+v, want %+v", i, e, e.Entry, want[i])
			}
			if e.Span != (history.Span{From: at(10).From, To: at(20).To}) {
				t.Errorf("entry %d: bracket %v, want from the look without it to the end of the look with it", i, e.Span)
			}
		}
		if events[0].Fence != 7 || events[2].Fence != 6 {
			t.Errorf("fences %d and %d, want 7 and 6", events[0].Fence, events[2].Fence)
		}
		if again := look(t, p, at(30), true); len(again) != 0 {
			t.Errorf("reported again: %+v", again)
		}
	})
}

// A look whose reading stops before the end proves nothing about what it did not read.
func TestLedgerBracketsOfALongStream(t *testing.T) {
	onStores(t, func(t *testing.T, c *redis.Client) {
		p, _, stream := newLedger(t, c)
		const n = page*pagesOfLook + 42
		pipe := c.Pipeline()
		for i := range n {
			pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, ID: fmt.Sprintf("%d-0", i+1), Values: []string{"key", "k", "accepted", "1"}})
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := look(t, p, at(10), false)
		rest := look(t, p, at(20), false)
		if len(first) != page*pagesOfLook || len(rest) != 42 {
			t.Fatalf("got %d and %d entries, want %d and 42", len(first), len(rest), page*pagesOfLook)
		}
		if rest[0].From != 0 || rest[0].To != at(20).To || rest[41].Entry.Pos != n {
			t.Errorf("the rest has bracket %v and ends at %d; want one from 0, and %d", rest[0].Span, rest[41].Entry.Pos, n)
		}
		if e := rest[0]; e.Epoch != witness.Unknown || e.Entry.Subject != witness.Unknown || e.Entry.State != witness.Unknown {
			t.Errorf("an entry without epoch, subject and state: got %+v %+v", e, e.Entry)
		}
		whole, _, _ := newLedger(t, c)
		if all := look(t, whole, at(10), true); len(all) != n {
			t.Errorf("a final look gave %d entries, want all %d", len(all), n)
		}
	})
}

// What is lost is said once, by the look that finds it out; from then on the ledger is not read. Nobody's writes fail for it.
func TestLedgerThatLosesEntriesIsLost(t *testing.T) {
	onStores(t, func(t *testing.T, c *redis.Client) {
		more := func(t *testing.T, id string) {
			write(t, redisstore.NewLedger(c, "run:"), id, "done", 9)
		}
		for _, tt := range []struct {
			name string
			lose func(t *testing.T, stream string)
			good int // entries before the hole that are still reported
		}{
			{"a flush", func(t *testing.T, _ string) { c.FlushAll(t.Context()) }, 0},
			{"a flush and new entries", func(t *testing.T, _ string) {
				c.FlushAll(t.Context())
				more(t, "new")
			}, 0},
			{"the last seen deleted", func(t *testing.T, s string) { c.XDel(t.Context(), s, "3-0") }, 0},
			{"one deleted that was seen before", func(t *testing.T, s string) { c.XDel(t.Context(), s, "2-0") }, 0},
			{"one deleted that was seen before, and a new one", func(t *testing.T, s string) {
				c.XDel(t.Context(), s, "2-0")
				more(t, "new")
			}, 1},
			{"trimmed", func(t *testing.T, s string) { c.XTrimMaxLen(t.Context(), s, 1) }, 0},
			{"trimmed, and a new one", func(t *testing.T, s string) {
				c.XTrimMaxLen(t.Context(), s, 1)
				more(t, "new")
			}, 1},
			{"a hole in what is new", func(t *testing.T, s string) {
				more(t, "4")
				more(t, "5")
				more(t, "6")
				c.XDel(t.Context(), s, "5-0")
			}, 1},
			{"the first deleted", func(t *testing.T, s string) { c.XDel(t.Context(), s, "1-0") }, 0},
			{"all deleted, and new ones", func(t *testing.T, s string) {
				c.XTrimMaxLen(t.Context(), s, 0)
				more(t, "new")
			}, 0},
			{"the stream deleted, and new ones", func(t *testing.T, s string) {
				c.Del(t.Context(), s)
				more(t, "new")
			}, 0},
		} {
			for _, final := range []bool{false, true} {
				c.FlushAll(t.Context())
				p, l, stream := newLedger(t, c)
				write(t, l, "op1", history.StateBegin, 7)
				write(t, l, "op2", "half", 7)
				write(t, l, "op3", "done", 7)
				if n := len(look(t, p, at(10), false)); n != 3 {
					t.Fatalf("%s: got %d entries, want 3", tt.name, n)
				}
				tt.lose(t, stream)
				events := look(t, p, at(20), final)
				if len(events) != tt.good+1 {
					t.Fatalf("%s: got %d events, want %d and the loss", tt.name, len(events), tt.good)
				}
				e := events[tt.good]
				if e.Kind != history.StoreIncarnation || *e.Incarnation != (history.Incarnation{Store: "ledger", Life: 2, Why: history.EntriesLost}) ||
					e.Span != (history.Span{From: at(10).From, To: at(20).To}) {
					t.Errorf("%s: got %+v %+v, want that entries are lost", tt.name, e, e.Incarnation)
				}
				for range 2 {
					if _, err := p.Look(t.Context(), true); !errors.Is(err, ErrLedgerLost) {
						t.Errorf("%s: Look = %v, want %v", tt.name, err, ErrLedgerLost)
					}
				}
			}
		}
	})
}
