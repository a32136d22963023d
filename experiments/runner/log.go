package runner

import (
	"context"
	"sync"

	"github.com/lockdrill/lockdrill/history"
)

// Log is the history in memory while it is written: the recorder's tap. The loop reads it in order, injectors wait on it.
type Log struct {
	mu      sync.Mutex
	events  []history.Event
	changed chan struct{}
}

// NewLog returns an empty log.
func NewLog() *Log { return &Log{changed: make(chan struct{})} }

// Add appends a recorded event; it never blocks.
func (l *Log) Add(e history.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	close(l.changed)
	l.changed = make(chan struct{})
}

// Since returns the events from index i on.
func (l *Log) Since(i int) []history.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[i:len(l.events):len(l.events)]
}

// Changed returns a channel that is closed at the next Add. Take it before Since, so that nothing is missed.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Await returns the first event from index i on that matches, waiting for it as long as ctx lasts.
func (l *Log) Await(ctx context.Context, i int, match func(history.Event) bool) (history.Event, error) {
	for {
		changed := l.Changed()
		for _, e := range l.Since(i) {
			i++
			if match(e) {
				return e, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return history.Event{}, ctx.Err()
		}
	}
}
