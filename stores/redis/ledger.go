package redis

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/resp"
	"github.com/lockdrill/lockdrill/stores/witness"
)

const (
	page         = 500 // entries of one read
	pagesOfLook  = 20  // of one look that is not the final one
	sourceLedger = "probe:ledger"
)

// ErrLedgerLost says that entries which the probe has seen, or which must have been there, are gone. It stays: a ledger that
// has lost entries cannot prove anything any more. The look that finds it out reports it as an event.
var ErrLedgerLost = errors.New("the ledger has lost entries")

// Ledger reads the ledger's stream: every write, in the ledger's own order, refused ones too. Looks are made one after the other.
type Ledger struct {
	wire   *wire
	stream string
	lockOf func(key string) string

	pos    int64 // of the last entry that was reported
	absent int64 // start of the last look that showed the end of the stream: later entries were not there then
	lost   error

	// The look that is made.
	read     int64           // position of the last entry that it has read
	end      bool            // they reach to the end
	entries  []history.Event // in them
	question []byte
	fields   [][]byte // of one entry
}

// NewLedger returns a probe of the stream in the store that o dials. lockOf gives the experiment's name of the lock that a key belongs
// to, or "".
func NewLedger(o *redis.Options, stream string, lockOf func(key string) string) *Ledger {
	return &Ledger{wire: newWire(o), stream: stream, lockOf: lockOf}
}

// Close closes the probe's connections.
func (p *Ledger) Close() error { return p.wire.close() }

// Look reads what is new; the final look reads to the end, however much that is. The returned function gives an event for
// each new entry, and one for the loss of entries where it was found out. An error that wraps ErrLedgerLost stays for all later looks.
func (p *Ledger) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	if p.lost != nil {
		return nil, p.lost
	}
	p.read, p.end, p.entries = p.pos, false, nil
	for pages := 0; !p.end && (final || pages < pagesOfLook); pages++ {
		reply, err := p.wire.ask(ctx, p.next(), 4)
		if err == nil {
			err = p.take(reply)
		}
		switch {
		case errors.Is(err, ErrLedgerLost):
			p.lost = err
			return p.report, nil
		case err != nil:
			return nil, fmt.Errorf("read ledger after position %d: %w", p.read, err)
		}
	}
	return p.report, nil
}

// next asks for the next page, and how many entries there are in all. The page begins with the entry that was read last, which must
// still be there. Only together they tell of an entry that is gone from what was read before.
func (p *Ledger) next() []byte {
	start, seen := "-", 0
	if p.read > 0 {
		start, seen = strconv.FormatInt(p.read, 10)+"-0", 1
	}
	q := p.question[:0]
	for _, command := range [][]string{{"MULTI"}, {"XLEN", p.stream}, {"XRANGE", p.stream, start, "+", "COUNT", strconv.Itoa(page + seen)}, {"EXEC"}} {
		q = resp.AppendHead(q, len(command))
		for _, word := range command {
			q = resp.AppendWord(q, word)
		}
	}
	p.question = q
	return q
}

// take adds the entries of a page. ErrLedgerLost: what it shows cannot be; the entries before that are added.
func (p *Ledger) take(b []byte) error {
	reply := resp.NewReply(b)
	for range 3 { // MULTI, and the two that were queued
		reply.Status()
	}
	reply.Array()
	length, messages, before := reply.Int(), reply.Array(), p.read
	if reply.Err() != nil {
		return reply.Err()
	}
	gone := before > 0 // until it has been found
	for i := range messages {
		reply.Array()
		id, fields := reply.Bulk(), p.fields[:0]
		for range reply.Array() {
			fields = append(fields, reply.Bulk())
		}
		p.fields = fields
		switch pos, err := position(id); {
		case reply.Err() != nil:
			return reply.Err()
		case i == 0 && before > 0:
			gone = err != nil || pos != before
		case err != nil || pos != p.read+1:
			return fmt.Errorf("%w: %s follows position %d", ErrLedgerLost, id, p.read)
		default:
			p.entries, p.read = append(p.entries, p.entry(pos, fields)), pos
		}
		if gone {
			break
		}
	}
	if gone {
		return fmt.Errorf("%w: position %d was there and is gone", ErrLedgerLost, before)
	}
	if !reply.Done() {
		return fmt.Errorf("%w: more values than were asked for", resp.ErrSyntax)
	}
	if p.end = p.read-before < page; p.end && length < p.read {
		return fmt.Errorf("%w: of %d positions %d are there", ErrLedgerLost, p.read, length)
	}
	return nil
}

// position is the number of an entry.
func position(id []byte) (int64, error) {
	number, _ := bytes.CutSuffix(id, []byte("-0"))
	return strconv.ParseInt(string(number), 10, 64)
}

// report gives entries the bracket in which they came: not there when the last complete look began, there when this one ended. Where entries
// were lost, it says so.
func (p *Ledger) report(at history.Span) []history.Event {
	events := p.entries
	for i := range events {
		events[i].Span = history.Span{From: p.absent, To: at.To}
	}
	p.pos = p.read
	if p.lost != nil {
		return append(events, history.Event{Kind: history.StoreIncarnation, Span: history.Span{From: p.absent, To: at.To}, Source: sourceLedger,
			Incarnation: &history.Incarnation{Store: "ledger", Life: 2, Why: history.EntriesLost}})
	}
	if p.end {
		p.absent = at.From
	}
	return events
}

// entry turns the fields of an entry of the stream, names and values in turn, into an event. They are described in the effect script.
func (p *Ledger) entry(pos int64, fields [][]byte) history.Event {
	field := func(name string) (value []byte) {
		for i := 0; i+1 < len(fields); i += 2 {
			if string(fields[i]) == name {
				value = fields[i+1]
			}
		}
		return value
	}
	named := func(name string) string { return cmp.Or(string(field(name)), witness.Unknown) }
	fence, _ := strconv.ParseInt(string(field("fence")), 10, 64) // 0 = not known
	key := named("key")
	return history.Event{
		Kind: history.LedgerEntry, Source: sourceLedger, Lock: cmp.Or(p.lockOf(key), witness.Unknown), Key: key,
		Epoch: named("epoch"), Fence: fence, Op: named("op"),
		Entry: &history.Entry{
			Pos: pos, Subject: named("subject"), Loop: string(field("loop")) == "1", State: named("state"),
			Terminal: string(field("terminal")) == "1", Accepted: string(field("accepted")) == "1",
			Reason: string(field("reason")), Named: string(field("named")), Writer: string(field("writer")),
		},
	}
}
