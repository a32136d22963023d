package linestream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// send puts entries into the out stream, all that wait in one transaction, refreshes the life's keys and looks whether it is still
// wanted, until ctx ends.
func (p *Pod) send(ctx context.Context) {
	var batch []*entry
	watch := watch{heard: time.Now()}
	tick := time.NewTicker(p.pace.refresh)
	defer tick.Stop()
	for {
		if len(batch) == 0 {
			select {
			case <-p.wake:
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		batch = p.take(batch)
		rest, err := p.flush(ctx, batch, &watch)
		batch = rest
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			watch.heard = time.Now()
			continue
		case errors.Is(err, ErrLost), errors.Is(err, ErrBacklog):
			p.end(err)
			return
		case time.Since(watch.heard) > p.pace.presence: // what Redis knew of this life has run out
			p.end(fmt.Errorf("%w: %s: %w", ErrCut, p.pace.presence, err))
			return
		}
		select {
		case <-time.After(p.pace.pause):
		case <-ctx.Done():
			return
		}
	}
}

// watch is what the sender remembers between two calls.
type watch struct {
	heard     time.Time // Redis last answered
	refreshed time.Time
	trimmed   place
	alone     time.Time // the runner of this drill was first missed; zero = it is there
	quit      bool
	unsaid    bool // many others' hellos have pushed this life's out of the fleet's stream
}

// take fills the batch from what waits.
func (p *Pod) take(batch []*entry) []*entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(maxBatch-len(batch), len(p.waiting))
	batch = append(batch, p.waiting[:n]...)
	left := copy(p.waiting, p.waiting[n:])
	clear(p.waiting[left:])
	p.waiting = p.waiting[:left]
	if left > 0 {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	return batch
}

// flush makes one transaction, so that no entry gets in before an earlier one did. It returns the entries that it must be asked for
// again.
func (p *Pod) flush(ctx context.Context, batch []*entry, w *watch) (rest []*entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.pace.call)
	defer cancel()
	t := p.redis.TxPipeline()
	adds := make([]*redis.StringCmd, len(batch))
	for i, e := range batch {
		adds[i] = t.XAdd(ctx, e.add(p.names.out(p.life)))
	}
	var look *look
	if time.Since(w.refreshed) >= p.pace.refresh {
		look = p.look(ctx, t, w)
	}
	_, failed := t.Exec(ctx)
	for i, c := range adds {
		there, err := added(c.Err())
		if !there {
			return append(batch[:0], batch[i:]...), err
		}
		p.kept.Store(batch[i].at.n)
		close(batch[i].done)
	}
	if look != nil {
		return nil, p.judge(look, failed, w)
	}
	return nil, nil
}

// look is the part of a call that refreshes keys and sees what is there.
type look struct {
	life, in, out *redis.BoolCmd
	backlog       *redis.IntCmd
	runner        *redis.IntCmd
	hello         *redis.XMessageSliceCmd // this life's, nil = it is said anew
	again         *redis.StringCmd
	taken         place
	drill         bool
}

func (p *Pod) look(ctx context.Context, t redis.Pipeliner, w *watch) *look {
	p.mu.Lock()
	l := &look{taken: p.taken, drill: p.drill}
	p.mu.Unlock()
	in, out := p.names.in(p.life), p.names.out(p.life)
	if l.taken != w.trimmed {
		t.XTrimMinID(ctx, in, l.taken.String()) // the last one stays: it says where the stream is
	}
	l.life = t.PExpire(ctx, p.names.life(p.life), p.pace.presence)
	l.in = t.PExpire(ctx, in, p.pace.presence)
	l.out = t.PExpire(ctx, out, p.pace.presence)
	l.backlog = t.XLen(ctx, out)
	l.runner = t.Exists(ctx, p.names.runner())
	if w.unsaid {
		l.again = p.sayHello(ctx, t)
	} else {
		l.hello = t.XRange(ctx, p.names.hellos(), p.said, p.said)
	}
	t.PExpire(ctx, p.names.hellos(), p.pace.presence)
	return l
}

// judge draws the consequences of a look.
func (p *Pod) judge(l *look, failed error, w *watch) error {
	switch {
	case failed != nil && !wasThere(failed):
		return failed
	case !l.in.Val() || !l.out.Val():
		return fmt.Errorf("%w: a stream of this life is gone", ErrLost)
	case l.backlog.Val() > p.pace.lines:
		return fmt.Errorf("%w: %d", ErrBacklog, l.backlog.Val())
	}
	w.refreshed, w.trimmed = time.Now(), l.taken
	if l.again != nil {
		p.said, w.unsaid = l.again.Val(), false
	} else {
		w.unsaid = len(l.hello.Val()) == 0
	}
	switch {
	case !l.drill || l.runner.Val() > 0:
		w.alone = time.Time{}
	case w.alone.IsZero():
		w.alone = time.Now()
	}
	unwanted := !l.life.Val() || !w.alone.IsZero() && time.Since(w.alone) > p.pace.runner
	if unwanted && !w.quit {
		w.quit = true
		close(p.quit)
	}
	return nil
}

// receive reads the in stream until ctx ends or this life is told to end.
func (p *Pod) receive(ctx context.Context) {
	defer close(p.lines)
	last := place{0, 1}
	for ctx.Err() == nil {
		select {
		case <-p.quit:
			return
		default:
		}
		entries, err := readStream(ctx, p.redis, p.names.in(p.life), last, p.pace)
		if err != nil {
			select {
			case <-time.After(p.pace.pause):
			case <-ctx.Done():
			}
			continue
		}
		for _, m := range entries {
			at, err := parsePlace(m.ID)
			if err == nil && !last.leadsTo(at) {
				err = fmt.Errorf("%w: command %s came after %s", ErrLost, at, last)
			}
			if err != nil {
				p.giveUp(err)
				return
			}
			last = at
			if !p.obey(ctx, at, m.Values) {
				return
			}
		}
	}
}

// giveUp ends the line, and lets the hub know why if that is possible.
func (p *Pod) giveUp(err error) {
	bye := p.aside(byeField, err.Error())
	select {
	case <-bye.done:
	case <-p.over:
	case <-time.After(p.pace.drain):
	}
	p.end(err)
}

// readStream waits for what stands after last in one stream.
func readStream(ctx context.Context, c *redis.Client, stream string, last place, pace pace) ([]redis.XMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, pace.block+pace.call)
	defer cancel()
	r, err := c.XRead(ctx, &redis.XReadArgs{Streams: []string{stream, last.String()}, Count: maxBatch, Block: pace.block}).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(r) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r[0].Messages, nil
}

// obey hands a line on, answers a sync, and reports whether there is to be more.
func (p *Pod) obey(ctx context.Context, at place, values map[string]any) (more bool) {
	if question, ok := field(values, syncField); ok {
		p.aside(syncField, question)
	}
	line, isLine := field(values, lineField)
	if isLine {
		p.mu.Lock()
		p.drill = true
		p.mu.Unlock()
		select {
		case p.lines <- []byte(line):
		case <-p.quit:
			return false
		case <-ctx.Done():
			return false
		}
	}
	p.mu.Lock()
	p.taken = at
	p.mu.Unlock()
	_, end := field(values, endField)
	return !end
}
