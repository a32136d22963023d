package probes

import (
	"fmt"
	"sync"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
)

// Inbox keeps what lines of logs have told until a look takes it. Its methods may be called at any time.
type Inbox struct {
	Probe, Source string // as in its events
	Full          string // what is wrong where over Most were found
	Most          int    // of what is found

	mu      sync.Mutex
	pending []history.Event
	found   int
}

// Found adds what a line told.
func (b *Inbox) Found(e history.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found++; b.found <= b.Most {
		b.pending = append(b.pending, e)
	}
}

func (b *Inbox) add(e history.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Source = b.Source
	b.pending = append(b.pending, e)
}

// Gap adds a stretch in which lines were not read.
func (b *Inbox) Gap(at history.Span, why string, lost bool) {
	b.add(history.Event{Kind: history.GapKind, Span: at, Coverage: &history.Coverage{Probe: b.Probe, Why: why, Largest: at.Width(), Lost: lost}})
}

// FileGap is Gap of a file.
func (b *Inbox) FileGap(path string, at history.Span, why string, lost bool) {
	b.Gap(at, path+": "+why, lost)
}

// Cut adds a line of which nobody has read all, and which may have told something.
func (b *Inbox) Cut(at history.Span) {
	b.add(history.Event{Kind: history.UnreadKind, Span: at, Unread: &history.Unread{Source: b.Probe, Count: 1, Reason: history.CutOff, Detail: follow.WhyCut}})
}

// Look takes what is there. It fails for good once more was found than is kept.
func (b *Inbox) Look() (take func() []history.Event, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found > b.Most && len(b.pending) == 0 {
		return nil, fmt.Errorf("over %d lines %s: what came after them is not kept", b.Most, b.Full)
	}
	n := len(b.pending)
	return func() []history.Event {
		b.mu.Lock()
		defer b.mu.Unlock()
		events := b.pending[:n:n]
		b.pending = b.pending[n:]
		return events
	}, nil
}
