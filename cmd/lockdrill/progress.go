package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/reports"
)

const (
	redrawEvery     = 200 * time.Millisecond
	lastWordsWithin = 10 * time.Second
	heartbeatEvery  = 30 * time.Second
	maxPending      = 1000 // lines of the story that wait for a slow reader; more are counted and left out
)

// progress tells on stderr how a run goes: a line an event, and below them on a terminal one block that is drawn again in place,
// elsewhere a heartbeat when nothing else was said for long.
//
// Observe is called where the history is recorded, so it only notes; one goroutine writes, and a stalled terminal cannot
// stall the run.
type progress struct {
	w     io.Writer
	live  bool
	width func() int
	clock func() int64 // ns since the run's origin

	mu      sync.Mutex
	story   *reports.Story
	status  *reports.Status
	pending []string
	dropped int

	drawn int // lines of the block on the screen; owned by the goroutine

	wake chan struct{}
	stop chan struct{}
	done chan struct{}
}

// startProgress says the notice, if there is one, and begins to tell about a run of e. Close ends it; nobody else writes to w
// before that.
func startProgress(w io.Writer, e *experiments.Experiment, notice string, clock func() int64) *progress {
	_, live := terminal(w)
	p := newProgress(w, e, live, clock)
	if notice != "" {
		fmt.Fprintln(w, notice)
	}
	go p.write()
	return p
}

func newProgress(w io.Writer, e *experiments.Experiment, live bool, clock func() int64) *progress {
	return &progress{
		w:      w,
		live:   live,
		width:  func() int { width, _ := terminal(w); return width },
		clock:  clock,
		story:  reports.NewStory(e),
		status: reports.NewStatus(e),
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// Observe takes the next recorded event. It never blocks.
func (p *progress) Observe(e history.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Observe(e)
	line := p.story.Line(e)
	switch {
	case line == "":
		return
	case len(p.pending) == maxPending:
		p.dropped++
	default:
		p.pending = append(p.pending, line)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Close says what is left to say, takes the block off the screen, and waits for the goroutine.
func (p *progress) Close() {
	close(p.stop)
	select {
	case <-p.done:
	case <-time.After(lastWordsWithin): // nobody reads what is said: the verdict does not wait for that
	}
}

func (p *progress) write() {
	defer close(p.done)
	every := heartbeatEvery
	if p.live {
		every = redrawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			p.finish()
			return
		case <-p.wake:
			if !p.live {
				tick.Reset(every) // a heartbeat is for silence
				p.print()
			}
		case <-tick.C:
			if p.live {
				p.draw()
			} else {
				p.beat()
			}
		}
	}
}

// take empties the queue of lines.
func (p *progress) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.pending
	if p.dropped > 0 {
		lines = append(lines, fmt.Sprintf("(%d lines left out: they came faster than they could be written)", p.dropped))
	}
	p.pending, p.dropped = nil, 0
	return lines
}

func (p *progress) print() {
	if lines := p.take(); len(lines) > 0 {
		fmt.Fprintln(p.w, strings.Join(lines, "\n"))
	}
}

func (p *progress) beat() {
	p.mu.Lock()
	line := p.status.Heartbeat(time.Duration(p.clock()))
	p.mu.Unlock()
	fmt.Fprintln(p.w, line)
}

// draw replaces the block on the screen, and leaves what was said since the last time above it.
func (p *progress) draw() {
	width := p.width()
	said := p.take()
	p.mu.Lock()
	block := p.status.Render(width, time.Duration(p.clock()))
	p.mu.Unlock()
	fmt.Fprint(p.w, p.erase()+strings.Join(append(said, block...), "\n")+"\n")
	p.drawn = len(block)
}

// erase moves to the first line of the block and clears from there to the end of the screen.
func (p *progress) erase() string {
	if p.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", p.drawn)
}

func (p *progress) finish() {
	fmt.Fprint(p.w, p.erase())
	p.drawn = 0
	p.print()
}

// sayEvery prints a line on w every two seconds, so that long work is seen to go on, until stop is called.
func sayEvery(w io.Writer, line func() string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				fmt.Fprintln(w, line())
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
