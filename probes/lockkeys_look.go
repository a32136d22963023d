package probes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/resp"
)

// Look reads the watched keys that somebody may hold, and some of the others in their turn; with final, all. The returned function gives
// a look event for each key whose state has changed since the last look at it whose function was called, in the order of keys; with
// final, one for every key.
func (p *LockKeys) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	p.begin(final)
	return await(ctx, p.Answer)
}

// Ask begins a look that is not the final one, and does not wait: Answer has what came of it.
func (p *LockKeys) Ask() { p.begin(false) }

func (p *LockKeys) begin(final bool) {
	p.final, p.states = final, p.states[:0]
	p.all, p.first = p.toRead(final)
	p.ask(false)
}

// ask asks for the next chunk of keys, by the whole script where the server does not know it yet.
func (p *LockKeys) ask(whole bool) {
	part, near := p.part()
	if len(part) == 0 {
		return
	}
	verb, script := "EVALSHA", p.script.Hash()
	if whole {
		verb, script = "EVAL", lookScript
	}
	if !p.plain.Load() {
		verb += "_RO"
	}
	q := resp.AppendWord(resp.AppendWord(resp.AppendHead(p.question[:0], 4+len(part)), verb), script)
	q = resp.AppendWord(q, strconv.Itoa(len(part)))
	for _, w := range part {
		q = resp.AppendWord(q, w.name)
	}
	p.question = resp.AppendWord(q, strconv.Itoa(near))
	p.wire.ask(p.question, 1)
}

// part is the next chunk of keys that is to be read, and how many of those somebody may hold.
func (p *LockKeys) part() ([]*watched, int) {
	read := len(p.states)
	part := p.all[read:min(len(p.all), read+chunk)]
	return part, min(len(part), max(0, p.first-read))
}

// Answer waits for what the look shows: see Look. ok is false where that has not come by then; it may be asked for again.
func (p *LockKeys) Answer(until time.Time) (report func(history.Span) []history.Event, ok bool, err error) {
	for len(p.states) < len(p.all) {
		reply, ok, err := p.wire.answer(until)
		if err == nil && !ok {
			return nil, false, nil
		}
		whole := false
		if err == nil {
			whole, err = p.take(reply)
		}
		if err != nil {
			return nil, false, fmt.Errorf("look at %d lock keys: %w", len(p.all), err)
		}
		p.ask(whole)
	}
	return p.report, true, nil
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
			s := state{server: server, pttl: absent}
			if i < told {
				if value := reply.Bulk(); string(value) == w.last.value {
					s.value = w.last.value
				} else {
					s.value = string(value)
				}
				s.left(reply.Int())
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
func (p *LockKeys) report(at history.Span) []history.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var events []history.Event
	for i, w := range p.all {
		events = w.observe(events, p.states[i], at, p.final, p.names)
		if w.absent++; p.states[i].pttl != absent {
			p.approach(w)
		}
	}
	p.leave()
	slices.SortFunc(events, func(a, b history.Event) int { return cmp.Compare(a.Key, b.Key) })
	return events
}
