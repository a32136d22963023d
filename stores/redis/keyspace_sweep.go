package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// sweep is a walk over all keys that the patterns mean.
type sweep struct {
	patterns []string
	i        int // which of them
	cursor   uint64
	began    int64
	paged    int64        // when the last page was read
	done     int          // sweeps that are over
	last     history.Span // of the one before this
}

// first sweeps the server once, as far as the time for a look lasts: it goes on with the next.
func (n *node) first(ctx context.Context) error {
	for name := range n.p.keys { // that were known before the servers were joined anew
		if n.has(name) {
			n.know(name)
		}
	}
	end, limited := ctx.Deadline()
	for n.sweep.done == 0 {
		if limited && time.Until(end) < joinReserve {
			return fmt.Errorf("%w: the keys are listed for the first time, %d so far", ErrNotYet, len(n.mine))
		}
		if err := n.page(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sweepOn reads a page of the sweep when it is time to: each look, where there are no events.
func (n *node) sweepOn(ctx context.Context) error {
	if len(n.sweep.patterns) == 0 || n.events != nil && n.p.o.Clock()-n.sweep.paged < int64(sweepEvery) {
		return nil
	}
	return n.page(ctx)
}

// page reads a page of the sweep, and of its keys those that nobody else reads.
func (n *node) page(ctx context.Context) error {
	s := &n.sweep
	s.paged = n.p.o.Clock()
	if s.i == len(s.patterns) {
		return n.swept(ctx)
	}
	n.commands++
	names, cursor, err := n.c.Scan(ctx, s.cursor, s.patterns[s.i], sweepPage).Result()
	if err != nil {
		return err
	}
	own := s.i < len(n.p.o.Under)
	if s.cursor = cursor; cursor == 0 {
		s.i++
	}
	var keys []*known
	for _, name := range names {
		if lock, _ := n.p.lockOf(name); lock == "" && own {
			continue
		}
		old := n.p.keys[name] != nil && n.p.keys[name].node == n
		if n.p.o.Most > 0 && n.p.keys[name] == nil && len(n.p.keys) >= n.p.o.Most {
			n.p.more = true
			continue
		}
		w := n.know(name)
		if again := w.swept > s.done; !again && (n.events != nil || !old) { // SCAN may show a key twice
			keys = append(keys, w)
		}
		w.swept = s.done + 1
	}
	if err := n.read(ctx, keys, false, s.done == 0 || n.events == nil); err != nil {
		return err
	}
	if s.i == len(s.patterns) {
		return n.swept(ctx)
	}
	return nil
}

// swept ends a sweep: it reads the keys that were there and were not found, and says so if it took too long for keys of which no event
// tells.
func (n *node) swept(ctx context.Context) error {
	s := &n.sweep
	at := history.Span{From: s.began, To: n.p.o.Clock()}
	var keys []*known
	for _, w := range n.mine {
		if w.swept <= s.done && w.Seen && w.Last.Left != witness.Absent && w.At.To < s.began {
			keys = append(keys, w)
		}
	}
	if n.events == nil && s.done > 0 && at.Width() > int64(n.p.o.MaxGap) && len(s.patterns) > 0 {
		n.p.gap(at, fmt.Sprintf("without keyspace events it took %s to find the keys of job locks: a key that came and went meanwhile was not seen (%s)",
			time.Duration(at.Width()).Round(time.Millisecond), n.why))
	}
	explained := s.done == 0 || n.events == nil
	s.done++
	s.i, s.cursor, s.began, s.last = 0, 0, at.To, at
	return n.read(ctx, keys, false, explained)
}
