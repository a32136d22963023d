package linestream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/poll"
)

// Options of a hub. The callbacks come one at a time, those of one life in the order Hello, Lines, End; they may call the hub, but not
// Close and Settle. Nil = not told.
type Options struct {
	Redis *redis.Options // the ledger's store
	Fleet string
	Clock func() int64 // the runner's, ns

	OnHello func(Hello)
	OnLine  func(Line)
	OnEnd   func(End)

	pace pace // zero = defaults
}

// Hello is a life that can be sent lines. It is told of only when it has answered, so that its clock is known.
type Hello struct {
	Life, Pod, UID string
	At             history.Span // when it said so, on the runner's clock
}

// Line is one line that a replica wrote.
type Line struct {
	Life  string
	N     int64  // its number in this life, from 1, as in the pod's log
	Text  []byte // without the newline
	Shift Offset // of the pod's clock, as known when the line was heard
	Heard int64  // on the runner's clock
}

// End says that no more lines of a life come.
type End struct {
	Life string
	Err  error // nil = it said goodbye, in order; else it wraps ErrLost, ErrGone, ErrClock, ErrTaken, or is the replica's own words
}

// Hub is the runner's end of every life of a fleet. It is safe for concurrent use. A fleet has one hub at a time: a second waits until
// the first has gone, and sees no lives before.
//
// Lives that said hello before the hub was there are told of like others. One that has had lines from an earlier hub is in the midst
// of that one's drill: it is told to end, and is not told of; what its container starts next is.
type Hub struct {
	o     Options
	redis *redis.Client
	names names
	id    string

	stop   context.CancelFunc // of its goroutines
	work   sync.WaitGroup
	wake   chan struct{}
	closes sync.Once

	telling sync.Mutex // callbacks, one at a time; taken before mu

	mu      sync.Mutex
	lives   map[string]*life
	heard   string // id of the last hello that was read
	ours    bool   // this hub has the fleet
	trouble error
	read    int64 // the last round of reading came back then, on the runner's clock
	looked  int64 // the last look at what is there was then
}

// life is what the hub knows of one life. Hub.mu guards it.
type life struct {
	hello   Hello
	hellos  []string // ids of its hellos
	said    int64    // its clock when it said hello
	greeted bool     // what it said is known, and where its in stream ends
	told    bool     // OnHello was called
	ended   bool
	unasked bool  // it is in another run's drill, or has been forgotten: it is to end, and its lines are nobody's
	toEnd   int64 // when it was told so, on the runner's clock; 0 = not yet
	removed bool  // its keys

	out, trimmed place // last entry that was delivered, last that was acknowledged
	in           place // last entry that was made
	queue        []*entry
	backlog      int64 // entries in the in stream at the last look, and those made since

	clock   estimate
	asked   map[string]int64 // syncs under way, and when they were asked
	syncs   int64
	lastAsk int64
	sign    int64 // it surely lived then, on the runner's clock
}

// Open makes a hub and does not wait for Redis; Trouble says what is in the way. The caller closes it. It panics where the fleet's name
// is not usable (CheckFleet).
func Open(o Options) *Hub {
	f, err := namesOf(o.Fleet)
	if err != nil {
		panic("linestream: " + err.Error())
	}
	if o.pace == (pace{}) {
		o.pace = defaults()
	}
	h := &Hub{o: o, redis: endpoint.Client(o.Redis, o.pace.call), names: f, id: newID(), wake: make(chan struct{}, 1), lives: map[string]*life{}, heard: "0-0"}
	running, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.work.Go(func() { h.send(running) })
	h.work.Go(func() { h.receive(running) })
	return h
}

// CheckFleet says what is wrong with a fleet's name; nil = nothing.
func CheckFleet(name string) error {
	_, err := namesOf(name)
	return err
}

// Send queues a line for a life, without a newline, and never waits. An error wraps ErrBacklog or ErrUnknown.
func (h *Hub) Send(life string, text []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lives[life]
	switch {
	case l == nil || !l.told || l.ended || l.unasked:
		return fmt.Errorf("send to life %s: %w", life, ErrUnknown)
	case len(text) > maxLine:
		return fmt.Errorf("send to life %s: a line of %d bytes, at most %d", life, len(text), maxLine)
	case int64(len(l.queue))+l.backlog >= h.o.pace.lines:
		return fmt.Errorf("send to life %s: %w", life, ErrBacklog)
	}
	l.queueUp(l.in.line(), lineField, string(text))
	h.rouse()
	return nil
}

func (l *life) queueUp(at place, name, value string) {
	l.in = at
	l.queue = append(l.queue, &entry{at: at, values: []any{name, value}})
}

func (h *Hub) rouse() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Lives are those that were told of and have not ended, in no order.
func (h *Hub) Lives() []Hello {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Hello
	for _, l := range h.lives {
		if l.told && !l.ended && !l.unasked {
			all = append(all, l.hello)
		}
	}
	return all
}

// Sign is an instant of the runner's clock at which a life surely still lived, the latest that is known; ok is false where nothing was
// heard of it. It stays known after the life's end.
func (h *Hub) Sign(life string) (at int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lives[life]
	if l == nil || !l.told {
		return 0, false
	}
	return l.sign, true
}

// Trouble is what is in the way just now: Redis cannot be reached, another run has the fleet. Nil = nothing.
func (h *Hub) Trouble() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trouble
}

// Settle waits until every line that Redis had of a life when it was called has been delivered, or the life has ended. It is for those
// who know that the replica is dead.
func (h *Hub) Settle(ctx context.Context, life string) error {
	want, err := h.newest(ctx, life)
	if err != nil {
		return fmt.Errorf("settle life %s: %w", life, err)
	}
	for range poll.Every(ctx, h.o.pace.pause) {
		h.telling.Lock() // between callbacks: the last one has returned
		h.mu.Lock()
		l := h.lives[life]
		done := l == nil || l.ended || !l.out.before(want)
		h.mu.Unlock()
		h.telling.Unlock()
		if done {
			return nil
		}
	}
	return fmt.Errorf("settle life %s: %w", life, ctx.Err())
}

// newest is where a life's out stream ends, zero where its keys are gone. It asks until Redis answers or ctx ends.
func (h *Hub) newest(ctx context.Context, life string) (place, error) {
	for {
		call, cancel := context.WithTimeout(ctx, h.o.pace.call)
		last, err := h.redis.XRevRangeN(call, h.names.out(life), "+", "-", 1).Result()
		cancel()
		switch {
		case err == nil && len(last) == 0:
			return place{}, nil
		case err == nil:
			return parsePlace(last[0].ID)
		}
		select {
		case <-time.After(h.o.pace.pause):
		case <-ctx.Done():
			return place{}, errors.Join(ctx.Err(), err)
		}
	}
}

// Forget is for a life that is known to be dead and settled: no more is told of it, and its keys are removed soon. One that lives all
// the same ends with ErrLost; a life that is not known is no error.
func (h *Hub) Forget(life string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lives[life]; l != nil {
		l.unasked, l.ended, l.queue = true, true, nil
		h.rouse()
	}
}
