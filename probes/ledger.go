package probes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
)

const (
	page         = 500 // entries of one read
	pagesOfLook  = 20  // of one look that is not the final one
	sourceLedger = "probe:ledger"
	unknown      = "unknown" // what a worker should have named and did not
)

// ErrLedgerLost says that entries which the probe has seen, or which must have been there, are gone. It stays: a ledger that
// has lost entries cannot prove anything any more. The look that finds it out reports it as an event.
var ErrLedgerLost = errors.New("the ledger has lost entries")

// Ledger reads the ledger's stream: every write, in the ledger's own order, refused ones too. Looks are made one after the other.
type Ledger struct {
	redis  *redis.Client
	stream string
	lockOf func(key string) string

	pos    int64 // of the last entry that was reported
	absent int64 // start of the last look that showed the end of the stream: later entries were not there then
	lost   error
}

// NewLedger returns a probe of the stream in the store that o dials. lockOf gives the experiment's name of the lock that a key belongs
// to, or "".
func NewLedger(o *redis.Options, stream string, lockOf func(key string) string) *Ledger {
	return &Ledger{redis: newClient(o), stream: stream, lockOf: lockOf}
}

// Close closes the probe's connections.
func (p *Ledger) Close() error { return p.redis.Close() }

// Look reads what is new; the final look reads to the end, however much that is. The returned function gives an event for
// each new entry, and one for the loss of entries where it was found out. An error that wraps ErrLedgerLost stays for all later looks.
func (p *Ledger) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	if p.lost != nil {
		return nil, p.lost
	}
	var entries []history.Event
	pos, end := p.pos, false
	for i := 0; !end && (final || i < pagesOfLook) && p.lost == nil; i++ {
		messages, length, err := p.read(ctx, pos)
		if err != nil {
			return nil, fmt.Errorf("read ledger after position %d: %w", pos, err)
		}
		for _, m := range messages {
			e, err := p.entry(m, pos+1)
			if err != nil {
				p.lost = err
				break
			}
			entries, pos = append(entries, e), pos+1
		}
		if end = len(messages) < page; end && p.lost == nil && length < pos {
			p.lost = fmt.Errorf("%w: of %d positions %d are there", ErrLedgerLost, pos, length)
		}
	}
	return func(at history.Span) []history.Event {
		events := p.report(entries, pos, at)
		if p.lost != nil {
			return append(events, history.Event{Kind: history.StoreIncarnation, Span: history.Span{From: p.absent, To: at.To}, Source: sourceLedger,
				Incarnation: &history.Incarnation{Store: "ledger", Life: 2, Why: history.EntriesLost}})
		}
		if end {
			p.absent = at.From
		}
		return events
	}, nil
}

// read gives the next page after pos, and how many entries there are in all. The page begins with the entry at pos, which must still
// be there. Only together they tell of an entry that is gone from what was read before.
func (p *Ledger) read(ctx context.Context, pos int64) ([]redis.XMessage, int64, error) {
	start, seen := "-", int64(0)
	if pos > 0 {
		start, seen = strconv.FormatInt(pos, 10)+"-0", 1
	}
	var length *redis.IntCmd
	var entries *redis.XMessageSliceCmd
	_, err := p.redis.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		length, entries = tx.XLen(ctx, p.stream), tx.XRangeN(ctx, p.stream, start, "+", page+seen)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	messages := entries.Val()
	if pos > 0 && (len(messages) == 0 || messages[0].ID != start) {
		p.lost = fmt.Errorf("%w: position %d was there and is gone", ErrLedgerLost, pos)
		return nil, 0, nil
	}
	return messages[seen:], length.Val(), nil
}

// report gives entries the bracket in which they came: not there when the last complete look began, there when this one ended.
func (p *Ledger) report(entries []history.Event, pos int64, at history.Span) []history.Event {
	for i := range entries {
		entries[i].Span = history.Span{From: p.absent, To: at.To}
	}
	p.pos = pos
	return entries
}

// entry turns a message of the stream into an event. Its fields are described in the effect script.
func (p *Ledger) entry(m redis.XMessage, want int64) (history.Event, error) {
	number, _, _ := strings.Cut(m.ID, "-")
	pos, err := strconv.ParseInt(number, 10, 64)
	if err != nil || pos != want {
		return history.Event{}, fmt.Errorf("%w: %s follows position %d", ErrLedgerLost, m.ID, want-1)
	}
	field := func(name string) string { s, _ := m.Values[name].(string); return s }
	named := func(name string) string {
		if s := field(name); s != "" {
			return s
		}
		return unknown
	}
	fence, _ := strconv.ParseInt(field("fence"), 10, 64) // 0 = not known
	key := named("key")
	lock := p.lockOf(key)
	if lock == "" {
		lock = unknown
	}
	return history.Event{
		Kind: history.LedgerEntry, Source: sourceLedger, Lock: lock, Key: key,
		Epoch: named("epoch"), Fence: fence, Op: named("op"),
		Entry: &history.Entry{
			Pos: pos, Subject: named("subject"), Loop: field("loop") == "1", State: named("state"),
			Terminal: field("terminal") == "1", Accepted: field("accepted") == "1",
			Reason: field("reason"), Named: field("named"), Writer: field("writer"),
		},
	}, nil
}
