package kubetest

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

// logbook is what one life has written.
type logbook struct {
	mu     sync.Mutex
	lines  []line
	closed bool
	more   chan struct{} // closed and made anew when there is more, or no more to come
}

type line struct {
	at   time.Time
	text []byte // with its line feed, but for the last of a life that died within a line
}

func newLogbook() *logbook { return &logbook{more: make(chan struct{})} }

// Write takes whole lines and parts of them.
func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, io.ErrClosedPipe
	}
	for part := range bytes.Lines(p) {
		if n := len(b.lines); n > 0 && !bytes.HasSuffix(b.lines[n-1].text, []byte("\n")) {
			b.lines[n-1].text = append(b.lines[n-1].text, part...)
			continue
		}
		b.lines = append(b.lines, line{at: time.Now(), text: bytes.Clone(part)})
	}
	close(b.more)
	b.more = make(chan struct{})
	return len(p), nil
}

// close says that the life is over.
func (b *logbook) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	close(b.more)
	b.more = make(chan struct{})
}

// from returns the whole lines from number n on; of a life that is over also the part that was never ended. more is closed when there
// is something new.
func (b *logbook) from(n int) (lines []line, over bool, more <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines = b.lines[min(n, len(b.lines)):]
	if k := len(lines); k > 0 && !b.closed && !bytes.HasSuffix(lines[k-1].text, []byte("\n")) {
		lines = lines[:k-1]
	}
	return append([]line(nil), lines...), b.closed, b.more
}

// says reports whether a line is there; more is closed when there is something new.
func (b *logbook) says(want string) (there bool, more <-chan struct{}) {
	lines, _, more := b.from(0)
	return slices.ContainsFunc(lines, func(l line) bool { return string(l.text) == want+"\n" }), more
}

// shown says which lines somebody asks for.
type shown struct {
	follow, stamps bool
	since          time.Time
	tail           int // of the lines that are there already; -1 = all
}

// copy writes the lines that are asked for until there are no more, ctx ends, or cut is closed; wrote is called after each batch.
func (b *logbook) copy(ctx context.Context, w io.Writer, s shown, cut <-chan struct{}, wrote func()) (wasCut bool) {
	next := 0
	if lines, _, _ := b.from(0); s.tail >= 0 {
		next = max(0, len(lines)-s.tail)
	}
	for {
		lines, over, more := b.from(next)
		next += len(lines)
		for _, l := range lines {
			if l.at.Before(s.since) {
				continue
			}
			text := l.text
			if s.stamps {
				text = append(l.at.UTC().AppendFormat(nil, time.RFC3339Nano+" "), text...)
			}
			if _, err := w.Write(text); err != nil {
				return false
			}
		}
		wrote()
		if over || !s.follow {
			return false
		}
		select {
		case <-more:
		case <-cut:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
