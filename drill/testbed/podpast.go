package testbed

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
)

const (
	pastLines  = 20_000                 // of a log, at most, tell what was before it is followed
	marksApart = 500 * time.Millisecond // between two questions for the last line of a log
	mostMarks  = 100                    // of lines that the stream has yet to show
)

// Past is what the log of a life has when it begins to be followed.
type Past struct {
	At    history.Span // when that was so
	Lines []follow.Line
	Why   string // lines of that life may be missing before these; "" = none are
}

// NewPast reads the last lines of a log, no more than most of them, which begin with a stamp or not; stamp is that of the last.
func NewPast(at history.Span, text []byte, err error, most int, stamped bool) (p Past, stamp string) {
	p.At = at
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if stamped {
			of, rest, _ := bytes.Cut(line, []byte(" "))
			stamp, line = string(of), rest
		}
		p.Lines = append(p.Lines, follow.Plain(line, false, at))
	}
	switch {
	case err != nil:
		p.Why = err.Error()
	case len(p.Lines) >= most:
		p.Why = fmt.Sprintf("the last %d lines of its log do not say", most)
	}
	return p, stamp
}

// past reads what the log has had until now. That of a life that began during the drill is followed from its beginning.
func (f *follower) past(ctx context.Context, whole bool) (p Past) {
	o, l := &f.lives.o, f.life
	if o.OnPast == nil || f.opened || whole {
		return Past{At: l.began}
	}
	at := history.Span{From: o.Clock()}
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	text, err := f.lives.from.LastStamped(ctx, l.name, o.Container, pastLines)
	at.To = o.Clock()
	p, f.passed = NewPast(at, text, err, pastLines, true)
	return p
}

// tell hands on what was before.
func (f *follower) tell(past Past) {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	if f.life.incarnation != "" {
		f.lives.o.OnPast(f.life.incarnation, past)
	}
}

// marking asks now and then for the last line of the log, until stop is called.
func (f *follower) marking(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(marksApart)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f.mark(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// mark notes which line is the last now. Should it be of another life, the stream never shows it, and the note is of no use.
func (f *follower) mark(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	p := f.lives
	asked := p.o.Clock()
	text, err := p.from.LastStamped(ctx, f.life.name, p.o.Container, 1)
	stamp, _, ok := bytes.Cut(text, []byte(" "))
	if err != nil || !ok { // what comes is as old as it may have been before
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.marks == nil || len(f.marks) >= mostMarks {
		f.marks = map[string]int64{}
	}
	f.marks[string(stamp)] = asked
}

// pass takes note of the stamp of the next line: it was written after the line before it had been the last.
func (f *follower) pass(stamp string) {
	if asked, known := f.marks[f.passed]; known && stamp != f.passed {
		f.since = max(f.since, asked)
		delete(f.marks, f.passed)
	}
	f.passed = stamp
}
