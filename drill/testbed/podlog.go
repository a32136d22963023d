package testbed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/kube"
)

const (
	logAgain = 200 * time.Millisecond // between a stream that was cut and the next
	askAgain = 5 * time.Second        // for one question to the API server
)

// follow reads the log of a life to its end, and finds out whether that is the life's end. A stream that is cut is opened again; what
// it has shown before is left out. One that cannot be opened until ctx ends is a stretch in which it was not followed, as any other.
func (p *podLives) follow(ctx context.Context, l *podLife) {
	f := follower{lives: p, life: l, lost: p.o.Clock()}
	if l.fresh {
		f.lost = l.began.From
	}
	for {
		seen := f.read(ctx)
		if f.clean {
			seen = f.ended
		}
		if ctx.Err() == nil && !f.cut {
			if f.cut = true; f.opened {
				f.lost = seen
			}
		}
		if ctx.Err() != nil || f.over(ctx, seen) {
			if (f.cut || !f.opened) && !f.clean {
				f.found()
			}
			return
		}
		select {
		case <-time.After(logAgain):
		case <-ctx.Done():
			f.found()
			return
		}
	}
}

// follower is the reading of one log.
type follower struct {
	lives  *podLives
	life   *podLife
	opened bool  // once
	since  int64 // when that was asked for: lines that are new are not older
	cut    bool  // it is not followed
	lost   int64 // since then
	clean  bool  // its stream came to its end, at ended, and has not been opened again: a life that is over has no more to say
	ended  int64

	stamp string // the latest of a line so far, by the node's clock
	same  int    // lines with that stamp so far

	again int  // of these, in a stream that was opened again, those that it has yet to show
	old   bool // it has shown nothing new yet

	// Of where lines are asked for their time; podLives.mu guards them.
	passed string           // stamp of the last line that was handed on, or that was there before
	marks  map[string]int64 // by the stamp of a line: when it was asked for, and was the last
}

// read follows one stream until it ends, and says when that was.
func (f *follower) read(ctx context.Context) (seen int64) {
	o, l := &f.lives.o, f.life
	asked := o.Clock()
	whole := f.lives.h.old || l.fresh
	from := kube.LogStart{New: !whole} // until there is a line from which on it can be read again
	if f.stamp != "" {
		from.Since, _ = time.Parse(time.RFC3339Nano, f.stamp) // it was one
	}
	r, err := f.lives.from.FollowStamped(ctx, l.name, o.Container, from)
	defer f.tried() // at the latest
	if err != nil {
		if !errors.Is(err, kube.ErrGone) { // it may have been cut, and still be cut off
			f.clean = false
		}
		return o.Clock()
	}
	defer r.Close()
	past := f.past(ctx, whole)
	// The name may be another pod's by now, or its container in another life, and no log says whose it is.
	if now, ok, err := f.ask(ctx); err != nil || ok && (now.UID != l.uid || now.Container.ID != "" && now.Container.ID != l.id) {
		return o.Clock()
	}
	f.clean = false
	if f.cut && (f.opened || !whole) { // the first stream of a whole log shows all that there is to see
		f.found()
	}
	if !f.opened {
		f.since = asked
		if whole {
			f.since = l.began.From
		}
	}
	first := !f.opened
	f.opened, f.cut = true, false
	if o.OnPast != nil {
		if first {
			f.tell(past)
		}
		defer f.marking(ctx)()
	}
	f.tried()
	err = f.lines(r)
	if seen = o.Clock(); errors.Is(err, io.EOF) {
		f.clean, f.ended = true, seen
	}
	return seen
}

// tried says that the log is followed, or cannot be.
func (f *follower) tried() {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	if !f.life.tried {
		f.life.tried = true
		f.lives.h.changed(f.life)
	}
}

// lines reads until the stream ends.
func (f *follower) lines(stream io.Reader) error {
	r := bufio.NewReaderSize(stream, lineLimit)
	f.again, f.old = f.same, f.stamp != ""
	for {
		line, err := r.ReadSlice('\n')
		cut := false
		if errors.Is(err, bufio.ErrBufferFull) {
			line = bytes.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				var more []byte
				more, err = r.ReadSlice('\n')
				if room := follow.Limit - len(line); len(more) > room {
					more, cut = more[:room], true
				}
				line = append(line, more...)
			}
		}
		if len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			f.line(bytes.TrimSuffix(line, []byte("\n")), cut || err != nil)
		}
		if err != nil {
			return err
		}
	}
}

// line hands on a line that has not been shown before.
func (f *follower) line(line []byte, cut bool) {
	stamp, text, ok := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if !ok || err != nil {
		text = line
	} else if f.shown(at, string(stamp)) {
		return
	}
	p := f.lives
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok && err == nil {
		f.pass(string(stamp))
	}
	span := history.Span{From: f.since, To: p.o.Clock()}
	p.h.line(f.life, text, span)
	if p.o.OnLine != nil && f.life.incarnation != "" && !f.life.astray {
		p.o.OnLine(f.life.incarnation, follow.Plain(text, cut, span))
	}
}

// shown reports that a line with that stamp was shown by an earlier stream. Only the first lines of a stream can have been: later ones
// may be stamped out of order, by the writers of two pipes or a clock that was set back.
func (f *follower) shown(at time.Time, stamp string) bool {
	last, _ := time.Parse(time.RFC3339Nano, f.stamp) // it was one, or there is none
	switch {
	case f.old && at.Before(last):
		return true
	case f.old && at.Equal(last) && f.again > 0:
		f.again--
		return true
	case f.stamp == "" || at.After(last):
		f.stamp, f.same = stamp, 1
	case at.Equal(last):
		f.same++
	}
	f.old = false
	return false
}

// found tells of the stretch in which the log was not followed.
func (f *follower) found() {
	p := f.lives
	p.mu.Lock()
	defer p.mu.Unlock()
	who := f.life.incarnation
	if who == "" && p.h.assigned != nil { // its log never said
		who = p.h.assigned(f.life.uid)
	}
	if p.o.OnCut != nil && who != "" {
		p.o.OnCut(who, history.Span{From: f.lost, To: p.o.Clock()})
	}
}

// ask asks for the pod of that name.
func (f *follower) ask(ctx context.Context) (kube.Pod, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	return f.lives.from.Pod(ctx, f.life.name, f.lives.o.Container)
}

// over finds out, after a stream has ended, whether the life has.
func (f *follower) over(ctx context.Context, seen int64) bool {
	p, l := f.lives, f.life
	if f.known() {
		return true
	}
	now, ok, err := f.ask(ctx)
	answered := p.o.Clock()
	if err != nil {
		return f.known()
	}
	if ok && now.UID == l.uid {
		p.mu.Lock()
		defer p.mu.Unlock()
		if over, state := l.over(now.Container); over {
			p.finish(l, answered, history.ByStatus, state)
		} else {
			p.cuts[l] = seen
		}
		return l.end != nil
	}
	if !f.clean { // the object is gone, and with it the way to the log
		return true
	}
	select {
	case <-time.After(p.h.quiet):
	case <-ctx.Done():
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.h.sign(l) <= seen && !p.cutNear(l, seen) {
		p.finish(l, seen, history.ByLogStream, "")
	}
	return true
}

// cutNear reports that another stream from the life's node was cut at about that time: then this one may have been, too.
func (p *podLives) cutNear(l *podLife, at int64) bool {
	for other, cut := range p.cuts {
		if other != l && other.pod.Node == l.pod.Node && cut > at-int64(p.h.quiet) && cut < at+int64(p.h.quiet) {
			return true
		}
	}
	return false
}

// known reports that the life's end was seen otherwise.
func (f *follower) known() bool {
	f.lives.mu.Lock()
	defer f.lives.mu.Unlock()
	return f.life.end != nil
}
