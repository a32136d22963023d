package workercheck

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// line is one event of the worker, and when it had arrived. Its stamps are on the same clock.
type line struct {
	history.Event
	Arrived int64
}

// effect is one entry of the ledger. It was not there at From, and was at To.
type effect struct {
	history.Entry
	history.Span
	Key, Epoch, Op string
	Fence          int64
}

// witness keeps what is seen of all lives: their lines, their calls, their effects, their ends. Whoever waits for something in it is woken.
type witness struct {
	mu      sync.Mutex
	lines   []line
	calls   []*call
	effects []effect
	exits   map[string]testbed.Exit
	touched []touched
	stalls  []history.Span // in which the machine did not let this process, or the ledger, do what takes no time
	matched
	news chan struct{} // closed and replaced at every addition
}

func newWitness() *witness {
	return &witness{exits: map[string]testbed.Exit{}, news: make(chan struct{})}
}

// add changes what is known, and wakes whoever waits.
func (w *witness) add(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.news)
	w.news = make(chan struct{})
}

// know asks for something while nothing is added.
func (w *witness) know(ask func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ask()
}

// await waits until ok holds, at most for limit; false = it did not come about.
func (w *witness) await(ctx context.Context, limit time.Duration, ok func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		w.mu.Lock()
		done, news := ok(), w.news
		w.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-news:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// pending reports whether a call of a life for a key was announced and has not returned, as far as its lines have come.
func (w *witness) pending(life, key string) bool {
	open := 0
	for _, l := range w.lines {
		if l.Source != life || l.Key != key {
			continue
		}
		switch l.Kind {
		case history.AcquireInvoke, history.RenewInvoke, history.ReleaseInvoke, history.UndoInvoke:
			open++
		case history.AcquireReturn, history.RenewReturn, history.ReleaseReturn, history.UndoReturn:
			open--
		}
	}
	return open > 0
}

// of lists the lines of a life (all lives: "") and of these kinds (none: all), from an instant of arrival on.
func (w *witness) of(life string, since int64, kinds ...history.Kind) []line {
	var found []line
	for _, l := range w.lines {
		if (life == "" || l.Source == life) && l.Arrived >= since && (len(kinds) == 0 || slices.Contains(kinds, l.Kind)) {
			found = append(found, l)
		}
	}
	return found
}

const (
	lookEvery = 5 * time.Millisecond
	stallFrom = 10 * time.Millisecond
)

// watchLedger reads the ledger's entries as they come, until ctx ends. That it is late itself is a sign of a busy machine.
func (w *witness) watchLedger(ctx context.Context, c *redis.Client, prefix string) {
	entries := redisstore.KeysOf(prefix).Entries
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	last, from, before := "0-0", monotime.Now(), monotime.Now()
	for {
		asked := monotime.Now()
		if asked-before > int64(lookEvery+stallFrom) {
			w.add(func() { w.stalls = append(w.stalls, history.Span{From: before, To: asked}) })
		}
		before = asked
		found, err := c.XRange(ctx, entries, "("+last, "+").Result()
		if err == nil {
			to := monotime.Now()
			for _, m := range found {
				e := effectOf(m, history.Span{From: from, To: to})
				w.add(func() { w.effects = append(w.effects, e) })
				last = m.ID
			}
			from = asked
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

func effectOf(m redis.XMessage, seen history.Span) effect {
	text := func(field string) string { s, _ := m.Values[field].(string); return s }
	e := effect{Span: seen, Key: text("key"), Epoch: text("epoch"), Op: text("op")}
	e.Fence, _ = strconv.ParseInt(text("fence"), 10, 64)
	pos, _, _ := strings.Cut(m.ID, "-")
	e.Pos, _ = strconv.ParseInt(pos, 10, 64)
	e.Subject, e.State, e.Reason, e.Writer = text("subject"), text("state"), text("reason"), text("writer")
	e.Loop, e.Terminal, e.Accepted = text("loop") == "1", text("terminal") == "1", text("accepted") == "1"
	return e
}
