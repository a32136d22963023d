package probes

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
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
		if e := rest[0]; e.Epoch != unknown || e.Entry.Subject != unknown || e.Entry.State != unknown {
			t.Errorf("an entry without epoch, subject and state: got %+v %+v", e, e.Entry)
		}
		whole, _, _ := newLedger(t, c)
		if all := look(t, whole, at(10), true); len(all) != n {
			t.Errorf("a final look gave %d entries, want all %d", len(all), n)
		}
	})
}

func TestLedgerThatLosesEntriesIsLost(t *testing.T) {
	onStores(t, func(t *testing.T, c *redis.Client) {
		for _, tt := range []struct {
			name string
			lose func(stream string)
			good int // entries before the hole that are still reported
		}{
			{"a flush", func(string) { c.FlushAll(t.Context()) }, 0},
			{"a flush and new entries", func(string) {
				c.FlushAll(t.Context())
				write(t, redisstore.NewLedger(c, "run:"), "new", "done", 1)
			}, 0},
			{"the last seen trimmed", func(s string) { c.XDel(t.Context(), s, "2-0") }, 0},
			{"a hole", func(s string) {
				c.XAdd(t.Context(), &redis.XAddArgs{Stream: s, ID: "3-0", Values: []string{"key", "k"}})
				c.XAdd(t.Context(), &redis.XAddArgs{Stream: s, ID: "5-0", Values: []string{"key", "k"}})
			}, 1},
		} {
			c.FlushAll(t.Context())
			p, l, stream := newLedger(t, c)
			write(t, l, "op1", history.StateBegin, 7)
			write(t, l, "op2", "done", 7)
			if n := len(look(t, p, at(10), false)); n != 2 {
				t.Fatalf("%s: got %d entries, want 2", tt.name, n)
			}
			tt.lose(stream)
			if tt.good > 0 {
				if n := len(look(t, p, at(20), false)); n != tt.good {
					t.Errorf("%s: got %d entries before it, want %d", tt.name, n, tt.good)
				}
			}
			for range 2 {
				if _, err := p.Look(t.Context(), true); !errors.Is(err, ErrLedgerLost) {
					t.Errorf("%s: Look = %v, want %v", tt.name, err, ErrLedgerLost)
				}
			}
		}
	})
}
