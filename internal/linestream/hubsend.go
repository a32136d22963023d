package linestream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/poll"
)

// hold takes or keeps the fleet for the hub ARGV[1] for ARGV[2] ms: 0 = another has it, 1 = taken now, 2 = kept.
const hold = `local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if owner then return 2 end
return 1`

// yield gives the fleet back, and drops a stream of hellos that has become empty.
const yield = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
if redis.call('XLEN', KEYS[2]) == 0 then redis.call('DEL', KEYS[2]) end
return 1`

// send does everything but read, until ctx ends.
func (h *Hub) send(ctx context.Context) {
	tick := time.NewTicker(h.o.pace.sync / 4)
	defer tick.Stop()
	for {
		if err := h.round(ctx); err != nil && ctx.Err() == nil {
			h.mu.Lock()
			h.note(err)
			h.mu.Unlock()
		}
		select {
		case <-tick.C:
		case <-h.wake:
		case <-ctx.Done():
			return
		}
	}
}

// round is one pass: keep the fleet, learn of new lives, send what waits, look at what is there, remove what is over.
func (h *Hub) round(ctx context.Context) error {
	now := h.o.Clock()
	h.mu.Lock()
	due := h.looked == 0 || now-h.looked >= int64(h.o.pace.refresh)
	h.mu.Unlock()
	if due {
		if err := h.keep(ctx); err != nil {
			return err
		}
	}
	h.mu.Lock()
	ours := h.ours
	h.mu.Unlock()
	if !ours {
		return nil
	}
	if err := h.greet(ctx); err != nil {
		return err
	}
	if err := h.flush(ctx, due); err != nil {
		return err
	}
	if due {
		h.mu.Lock()
		h.looked = now
		h.mu.Unlock()
	}
	return h.remove(ctx, h.over(now))
}

// keep takes or keeps the fleet.
func (h *Hub) keep(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, h.o.pace.call)
	defer cancel()
	got, err := h.redis.Eval(call, hold, []string{h.names.runner()}, h.id, h.o.pace.runner.Milliseconds()).Int()
	if err != nil {
		return fmt.Errorf("take the fleet: %w", err)
	}
	h.mu.Lock()
	had := h.ours
	h.ours = got != 0
	switch got {
	case 0:
		h.trouble = fmt.Errorf("take the fleet %s: %w; only one run at a time can have it", h.o.Fleet, ErrTaken)
	case 1:
		h.heard = "0-0" // if this hub had it before, the key ran out or the store was emptied: hellos begin anew
		fallthrough
	default:
		if errors.Is(h.trouble, ErrTaken) {
			h.trouble = nil
		}
	}
	var lost []*life
	if had && got == 0 {
		for _, l := range h.lives {
			lost = append(lost, l)
		}
	}
	h.mu.Unlock()
	for _, l := range lost {
		h.endNow(l, ErrTaken)
		h.mu.Lock()
		l.removed = true // its keys are the other run's by now
		h.mu.Unlock()
	}
	return nil
}

// endNow ends a life from outside of reading.
func (h *Hub) endNow(l *life, err error) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	ended := l.ended
	h.mu.Unlock()
	if !ended {
		h.finish(l, err)
	}
}

// greet learns who new lives are, and where their in streams end.
func (h *Hub) greet(ctx context.Context) error {
	type question struct {
		life *life
		id   string
		who  *redis.StringCmd
		last *redis.XMessageSliceCmd
	}
	call, cancel := context.WithTimeout(ctx, h.o.pace.call)
	defer cancel()
	var all []question
	p := h.redis.Pipeline()
	h.mu.Lock()
	for id, l := range h.lives {
		if !l.greeted && !l.ended {
			all = append(all, question{l, id, p.Get(call, h.names.life(id)), p.XRevRangeN(call, h.names.in(id), "+", "-", 1)})
		}
	}
	h.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	if _, err := p.Exec(call); err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("learn of new lives: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range all {
		l := q.life
		var who hello
		last := q.last.Val()
		var in place
		err := json.Unmarshal([]byte(q.who.Val()), &who)
		if err == nil && len(last) > 0 {
			in, err = parsePlace(last[0].ID)
		}
		if err != nil || len(last) == 0 || who.V > Version || who.Life != q.id {
			l.ended = true // it is gone already, or speaks another language: its keys are not touched before they are known to be over
			continue
		}
		l.hello, l.said, l.in, l.greeted = Hello{Life: who.Life, Pod: who.Pod, UID: who.UID}, who.T, in, true
		l.unasked = l.unasked || in.n > 0
		h.rouse()
	}
	return nil
}

// sent is what one call does for one life.
type sent struct {
	life    *life
	entries []*entry
	adds    []*redis.StringCmd
	trim    place
	present *redis.IntCmd
	backlog *redis.IntCmd
}

// flush sends what waits in one transaction, so that no entry gets in before an earlier one did.
func (h *Hub) flush(ctx context.Context, look bool) error {
	call, cancel := context.WithTimeout(ctx, h.o.pace.call)
	defer cancel()
	t := h.redis.TxPipeline()
	var all []sent
	h.mu.Lock()
	for id, l := range h.lives {
		if l.greeted && !l.ended {
			all = append(all, h.sending(call, t, id, l, look))
		}
	}
	h.mu.Unlock()
	if t.Len() == 0 {
		return nil
	}
	_, err := t.Exec(call)
	if errors.Is(err, redis.Nil) || wasThere(err) {
		err = nil
	}
	var lost []*life
	h.mu.Lock()
	for _, s := range all {
		if !s.settle(look && err == nil) {
			lost = append(lost, s.life)
		}
	}
	h.mu.Unlock()
	for _, l := range lost {
		h.endNow(l, h.silence(l))
	}
	if err != nil {
		return fmt.Errorf("send to the streams of the fleet: %w", err)
	}
	return nil
}

// sending queues the commands of one life; h.mu is held.
func (h *Hub) sending(ctx context.Context, t redis.Pipeliner, id string, l *life, look bool) sent {
	now := h.o.Clock()
	switch {
	case l.unasked && l.toEnd == 0:
		l.toEnd = now
		l.queueUp(l.in.aside(), endField, "this life is not wanted any more")
		t.Del(ctx, h.names.life(id))
	case l.unasked:
	case len(l.asked) == 0 && now-l.lastAsk >= int64(h.o.pace.sync), len(l.asked) < maxAsked && now-l.lastAsk >= int64(h.o.pace.resync):
		l.lastAsk, l.syncs = now, l.syncs+1
		question := h.id + "-" + strconv.FormatInt(l.syncs, 10)
		l.asked[question] = now
		l.queueUp(l.in.aside(), syncField, question)
	}
	s := sent{life: l, entries: l.queue[:min(len(l.queue), maxBatch)], trim: l.trimmed}
	for _, e := range s.entries {
		s.adds = append(s.adds, t.XAdd(ctx, e.add(h.names.in(id))))
	}
	if l.out != l.trimmed {
		s.trim = l.out
		t.XTrimMinID(ctx, h.names.out(id), l.out.String()) // the last one stays: it says where the stream is
	}
	if look && !l.unasked {
		s.present, s.backlog = t.Exists(ctx, h.names.life(id)), t.XLen(ctx, h.names.in(id))
	}
	return s
}

// settle takes the replies for one life, and reports whether the life is still there; h.mu is held.
func (s *sent) settle(look bool) bool {
	l := s.life
	if l.ended {
		return true
	}
	done := 0
	for _, c := range s.adds {
		there, err := added(c.Err())
		if errors.Is(err, ErrLost) {
			return l.unasked
		}
		if !there {
			break
		}
		done++
	}
	l.queue = l.queue[done:]
	l.backlog += int64(done) // until the next look says how many of them were taken
	if done == len(s.adds) {
		l.trimmed = s.trim
	}
	if look && s.present != nil {
		l.backlog = max(0, s.backlog.Val()-1)
		return s.present.Val() > 0
	}
	return true
}

// silence is why a life's keys are gone: they run out when it has not been heard for long and nothing kept this hub from reading;
// everything else is a loss.
func (h *Hub) silence(l *life) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, slack := h.o.Clock(), int64(2*h.o.pace.refresh)
	if now-l.sign >= int64(h.o.pace.presence)-slack && now-h.read < int64(h.o.pace.presence)/2 {
		return ErrGone
	}
	return fmt.Errorf("%w: the keys of the life are gone", ErrLost)
}

// over are lives whose keys can go: those that have ended, and those that did not go when they were told.
func (h *Hub) over(now int64) (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, l := range h.lives {
		late := l.unasked && l.toEnd != 0 && now-l.toEnd > int64(h.o.pace.drain)
		if !l.removed && (l.ended && l.greeted || late) {
			ids = append(ids, id)
		}
	}
	return ids
}

// remove removes every key of these lives.
func (h *Hub) remove(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, h.o.pace.call)
	defer cancel()
	t := h.redis.TxPipeline()
	h.mu.Lock()
	for _, id := range ids {
		t.Del(call, h.names.life(id), h.names.in(id), h.names.out(id))
		if hellos := h.lives[id].hellos; len(hellos) > 0 {
			t.XDel(call, h.names.hellos(), hellos...)
		}
	}
	h.mu.Unlock()
	if _, err := t.Exec(call); err != nil {
		return fmt.Errorf("remove keys of lives that are over: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		h.lives[id].removed, h.lives[id].ended = true, true
	}
	return nil
}

// Close tells lives that had lines to end, waits a few seconds for their goodbyes, stops, and removes the keys of all lives that had
// lines or are over. Lives that nobody has sent a line are left for the fleet's next run. Nothing is told after it has returned; a
// second call does nothing.
func (h *Hub) Close(ctx context.Context) (err error) {
	h.closes.Do(func() { err = h.close(ctx) })
	return err
}

func (h *Hub) close(ctx context.Context) error {
	h.mu.Lock()
	for _, l := range h.lives {
		l.unasked = l.unasked || l.in.n > 0
	}
	h.mu.Unlock()
	h.rouse()
	h.awaitByes(ctx)
	h.stop()
	h.work.Wait()
	err := h.leave(context.WithoutCancel(ctx))
	return errors.Join(err, h.redis.Close())
}

// awaitByes waits until no life is left that was told to end.
func (h *Hub) awaitByes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.o.pace.drain/2)
	defer cancel()
	for range poll.Every(ctx, h.o.pace.pause) {
		left := false
		h.mu.Lock()
		for _, l := range h.lives {
			left = left || l.unasked && !l.ended
		}
		left = left && h.ours
		h.mu.Unlock()
		if !left {
			return
		}
	}
}

// leave removes what is this hub's.
func (h *Hub) leave(ctx context.Context) error {
	h.mu.Lock()
	ours := h.ours
	var ids []string
	for id, l := range h.lives {
		if !l.removed && (l.ended || l.unasked) {
			ids = append(ids, id)
		}
	}
	h.mu.Unlock()
	if !ours {
		return nil
	}
	err := h.remove(ctx, ids)
	call, cancel := context.WithTimeout(ctx, h.o.pace.call)
	defer cancel()
	if got := h.redis.Eval(call, yield, []string{h.names.runner(), h.names.hellos()}, h.id).Err(); got != nil {
		err = errors.Join(err, fmt.Errorf("give the fleet back: %w", got))
	}
	return err
}
