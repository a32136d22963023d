package runner

import (
	"context"
	"slices"
	"sync"

	"github.com/lockdrill/lockdrill/history"
)

// recent is how many of the newest events a log keeps at least, whatever they are: those of some five seconds of a drill with 200 jobs a
// second, of all of a small one.
const recent = 1 << 14

// Log is the history in memory while it is written: the recorder's tap. The loop reads it in order, injectors wait on it. Of events
// that the loop has read and that are not recent it forgets those that come with each job, call and look.
type Log struct {
	mu      sync.Mutex
	kept    []numbered // of those before events
	first   int        // index of events[0]
	events  []history.Event
	taken   int             // index of the first that the loop has not read
	news    []history.Event // that Take gave to the loop
	changed chan struct{}
	awaited bool // somebody has asked for changed
}

type numbered struct {
	i int
	history.Event
}

// NewLog returns an empty log.
func NewLog() *Log { return &Log{changed: make(chan struct{})} }

// Add appends recorded events; it never blocks.
func (l *Log) Add(events []history.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, events...)
	if l.awaited {
		close(l.changed)
		l.changed, l.awaited = make(chan struct{}), false
	}
}

// Take returns the events that it has not returned before, to the loop alone, and forgets what is neither recent nor lasting. They are good
// until the next call.
func (l *Log) Take() []history.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.news = append(l.news[:0], l.events[l.taken-l.first:]...)
	l.taken += len(l.news)
	if old := len(l.events) - len(l.news) - recent; old > recent {
		for i, e := range l.events[:old] {
			if !passing(e.Kind) {
				l.kept = append(l.kept, numbered{l.first + i, e})
			}
		}
		l.first += old
		l.events = slices.Delete(l.events, 0, old)
	}
	return l.news
}

// passing are the kinds that come with each job, each call and each look, and that nobody asks for once they are not recent.
func passing(k history.Kind) bool {
	switch k {
	case history.JobOffer, history.JobRedeliver, history.JobAck, history.WaitBegin, history.WaitEnd, history.AcquireInvoke, history.AcquireReturn,
		history.RenewInvoke, history.RenewReturn, history.ReleaseReturn, history.UndoInvoke, history.UndoReturn, history.ReleaseSkipped,
		history.WorkEnter, history.WorkExit, history.WriteInvoke, history.WriteReturn, history.LedgerEntry, history.LookKind,
		history.CoverageKind, history.SampleKind, history.LogMatch, history.MachineLate:
		return true
	}
	return false
}

// Since returns the events from index i on, as far as they are kept.
func (l *Log) Since(i int) []history.Event {
	events, _ := l.From(i)
	return events
}

// From is Since, and the index of the event that will be the next.
func (l *Log) From(i int) (events []history.Event, next int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept[l.keptFrom(i):] {
		events = append(events, k.Event)
	}
	return append(events, l.events[max(0, i-l.first):]...), l.first + len(l.events)
}

// keptFrom is where in kept those from index i on begin.
func (l *Log) keptFrom(i int) int {
	at, _ := slices.BinarySearchFunc(l.kept, i, func(k numbered, i int) int { return k.i - i })
	return at
}

// Any reports whether one of the events from index i on, as far as they are kept, matches. The match must not use the log.
func (l *Log) Any(i int, match func(history.Event) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept[l.keptFrom(i):] {
		if match(k.Event) {
			return true
		}
	}
	return slices.ContainsFunc(l.events[max(0, i-l.first):], match)
}

// Changed returns a channel that is closed at the next Add. Take it before Since or Take, so that nothing is missed.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited = true
	return l.changed
}

// Await returns the first event from index i on that matches, waiting for it as long as ctx lasts. The match may use the log.
func (l *Log) Await(ctx context.Context, i int, match func(history.Event) bool) (history.Event, error) {
	for {
		changed := l.Changed()
		news, next := l.From(i)
		for _, e := range news {
			if match(e) {
				return e, nil
			}
		}
		i = next
		select {
		case <-changed:
		case <-ctx.Done():
			return history.Event{}, ctx.Err()
		}
	}
}
