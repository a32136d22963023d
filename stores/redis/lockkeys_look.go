package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/resp"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// Look reads the watched keys that somebody may hold, and some of the others in their turn; with final, all. The returned function gives
// a look event for each key whose state has changed since the last look at it whose function was called, in the order of keys; with
// final, one for every key.
func (p *LockKeys) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	p.states = p.states[:0]
	p.all, p.first = p.toRead(final)
	for whole := false; len(p.states) < len(p.all); {
		reply, err := p.wire.ask(ctx, p.question(whole), 1)
		if err == nil {
			whole, err = p.take(reply)
		}
		if err != nil {
			return nil, fmt.Errorf("look at %d lock keys: %w", len(p.all), err)
		}
	}
	return func(at history.Span) []history.Event { return p.report(witness.Sight{Span: at, Final: final}) }, nil
}

// question is that for the next chunk of keys, with the whole script where the server does not know it yet.
func (p *LockKeys) question(whole bool) []byte {
	part, near := p.part()
	verb, script := "EVALSHA", p.script.Hash()
	if whole {
		verb, script = "EVAL", lookScript
	}
	if !p.plain.Load() {
		verb += "_RO"
	}
	q := resp.AppendWord(resp.AppendWord(resp.AppendHead(p.asking[:0], 4+len(part)), verb), script)
	q = resp.AppendWord(q, strconv.Itoa(len(part)))
	for _, w := range part {
		q = resp.AppendWord(q, w.name)
	}
	p.asking = resp.AppendWord(q, strconv.Itoa(near))
	return p.asking
}

// part is the next chunk of keys that is to be read, and how many of those somebody may hold.
func (p *LockKeys) part() ([]*watched, int) {
	read := len(p.states)
	part := p.all[read:min(len(p.all), read+chunk)]
	return part, min(len(part), max(0, p.first-read))
}

// take adds the states that a reply shows. Where the server does not know the script, the whole of it is to be sent; where it has no
// read-only form, there is none from then on.
func (p *LockKeys) take(b []byte) (whole bool, err error) {
	part, near := p.part()
	reply := resp.NewReply(b)
	values := reply.Array()
	server := reply.Int()
	if told := (values - 1) / 2; reply.Err() == nil && (values != 1+2*told || told != len(part) && told != near) {
		return false, fmt.Errorf("got %d values for %d keys, %d of them near", values, len(part), near)
	} else if reply.Err() == nil {
		for i, w := range part {
			s := witness.State{Server: server, Left: witness.Absent}
			if i < told {
				if value := reply.Bulk(); string(value) == w.Last.Value {
					s.Value = w.Last.Value
				} else {
					s.Value = string(value)
				}
				pttl(&s, reply.Int())
			}
			p.states = append(p.states, s)
		}
	}
	var answer resp.ServerError
	switch err := reply.Err(); {
	case errors.As(err, &answer) && strings.HasPrefix(string(answer), "NOSCRIPT"):
		return true, nil
	case errors.As(err, &answer) && !p.plain.Load() && hasNoReadOnly(answer):
		p.plain.Store(true)
		return false, nil
	case err != nil:
		return false, err
	case !reply.Done():
		return false, fmt.Errorf("%w: more values than were asked for", resp.ErrSyntax)
	}
	return false, nil
}

// report is what a look showed whose bracket is known.
func (p *LockKeys) report(at witness.Sight) []history.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var events []history.Event
	for i, w := range p.all {
		events = w.See(events, witness.SourceKeys, &p.names, w.OfToken(p.states[i]), at)
		if w.absent++; p.states[i].Left != witness.Absent {
			p.approach(w)
		}
	}
	p.leave()
	slices.SortFunc(events, func(a, b history.Event) int { return cmp.Compare(a.Key, b.Key) })
	return events
}
