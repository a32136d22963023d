package linestream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
)

// receive reads all out streams and the fleet's hellos, until ctx ends.
func (h *Hub) receive(ctx context.Context) {
	for ctx.Err() == nil {
		streams, lives := h.sources()
		read, err := h.readAll(ctx, streams)
		h.mu.Lock()
		h.note(err)
		if err == nil {
			h.read = h.o.Clock()
		}
		h.mu.Unlock()
		if err != nil {
			select {
			case <-time.After(h.o.pace.pause):
			case <-ctx.Done():
			}
			continue
		}
		heard := h.o.Clock()
		for _, s := range read {
			if s.Stream == h.names.hellos() {
				h.meet(s.Messages)
				continue
			}
			for _, m := range s.Messages {
				h.hear(lives[s.Stream], m, heard)
			}
		}
	}
}

// note keeps or clears what is in the way; h.mu is held.
func (h *Hub) note(err error) {
	switch {
	case err != nil:
		h.trouble = err
	case h.trouble != nil && !errors.Is(h.trouble, ErrTaken):
		h.trouble = nil
	}
}

// sources are the streams to read with where to go on, as XREAD takes them, and whose they are.
func (h *Hub) sources() (streams []string, lives map[string]*life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lives = map[string]*life{}
	streams = append(streams, h.names.hellos())
	from := []string{h.heard}
	for id, l := range h.lives {
		if !l.greeted || l.ended {
			continue
		}
		name := h.names.out(id)
		lives[name] = l
		streams, from = append(streams, name), append(from, l.out.String())
	}
	return append(streams, from...), lives
}

func (h *Hub) readAll(ctx context.Context, streams []string) ([]redis.XStream, error) {
	ctx, cancel := context.WithTimeout(ctx, h.o.pace.block+h.o.pace.call)
	defer cancel()
	read, err := h.redis.XRead(ctx, &redis.XReadArgs{Streams: streams, Count: maxBatch, Block: h.o.pace.block}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the streams of the fleet: %w", err)
	}
	return read, nil
}

// meet notes new lives; a life may say hello twice.
func (h *Hub) meet(hellos []redis.XMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range hellos {
		h.heard = m.ID
		id, ok := field(m.Values, "life")
		if !ok {
			continue
		}
		l := h.lives[id]
		if l == nil {
			l = &life{asked: map[string]int64{}}
			h.lives[id] = l
		}
		l.hellos, l.removed = append(l.hellos, m.ID), false
	}
	h.rouse()
}

// hear takes one entry of a life.
func (h *Hub) hear(l *life, m redis.XMessage, heard int64) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	at, stamp, err := l.follow(m)
	if l.ended {
		h.mu.Unlock()
		return
	}
	if err == nil {
		l.out = at
	}
	told, line, bye := false, "", false
	if question, ok := field(m.Values, syncField); ok && err == nil {
		told, err = l.answered(question, stamp, heard)
	}
	if l.clock.known {
		_, hi := l.clock.When(stamp)
		l.sign = max(l.sign, stamp-hi)
	}
	text, isLine := field(m.Values, lineField)
	if isLine && err == nil && !l.told && !l.unasked {
		err = fmt.Errorf("the replica wrote line %d before it was told anything: %q", at.n, brief(text))
	}
	line = text
	var why string
	if why, bye = field(m.Values, byeField); bye && err == nil && why != "" {
		err = fmt.Errorf("the replica: %s", brief(why))
	}
	hello, shift, silent := l.hello, l.clock.Offset, l.unasked
	h.mu.Unlock()
	switch {
	case told && h.o.OnHello != nil:
		h.o.OnHello(hello)
	case isLine && err == nil && !silent && h.o.OnLine != nil:
		h.o.OnLine(Line{Life: hello.Life, N: at.n, Text: []byte(line), Shift: shift, Heard: heard})
	}
	if err != nil || bye {
		h.finish(l, err)
	}
}

// follow checks that nothing is missing before an entry, and reads its stamp.
func (l *life) follow(m redis.XMessage) (at place, stamp int64, err error) {
	if at, err = parsePlace(m.ID); err != nil {
		return at, 0, err
	}
	// An earlier hub may have taken entries of a life that nobody had sent lines yet: none of them was a line.
	first := l.out == place{} && (at.n == 0 || at == place{}.line())
	if !first && !l.out.leadsTo(at) && !l.unasked {
		return at, 0, fmt.Errorf("%w: entry %s came after %s", ErrLost, at, l.out)
	}
	text, _ := field(m.Values, stampField)
	if stamp, err = strconv.ParseInt(text, 10, 64); err != nil {
		return at, 0, fmt.Errorf("entry %s has no stamp: %w", at, err)
	}
	return at, stamp, nil
}

// answered takes the answer to a sync; told says that it is the first: the life can be told of.
func (l *life) answered(question string, stamp, heard int64) (told bool, err error) {
	asked, ours := l.asked[question]
	if !ours {
		return false, nil // an earlier hub's
	}
	delete(l.asked, question)
	if !l.clock.add(asked, stamp, heard) {
		return false, fmt.Errorf("%w of %d ppm: a clock was set off, a machine stood still, or a time service has not settled", ErrClock, 1_000_000/drift)
	}
	l.sign = max(l.sign, asked)
	if l.told || l.unasked {
		return false, nil
	}
	l.told = true
	said := l.clock.Runner(history.At(l.said))
	l.hello.At = history.Span{From: said.From, To: min(said.To, heard)}
	return true, nil
}

// finish ends a life, and tells of it once; h.telling is held.
func (h *Hub) finish(l *life, err error) {
	h.mu.Lock()
	tell := l.told && !l.ended && !l.unasked
	l.ended, l.queue = true, nil
	h.mu.Unlock()
	h.rouse()
	if tell && h.o.OnEnd != nil {
		h.o.OnEnd(End{Life: l.hello.Life, Err: err})
	}
}

// brief cuts a replica's words.
func brief(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most]
	}
	return s
}
