package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/forecast"
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

// said is a line of the story, and when that was. Sources are read one after another, so lines come out of order: each waits for holdBack
// before it is told.
type said struct {
	at   int64 // ns since the run's origin
	line string
}

const holdBack = 500 * time.Millisecond

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
	pending []said
	dropped int

	drawn int // lines of the block on the screen; owned by the goroutine

	wake chan struct{}
	stop chan struct{}
	done chan struct{}
}

// storyFlags say how much of a run is told on stderr.
type storyFlags struct {
	quiet bool
	level string
}

// storyLevels are what --log-level takes, from the most to the least.
var storyLevels = []string{"debug", "info", "warn", "error"}

func (f *storyFlags) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.quiet, "quiet", false, "tell no story of the run on stderr: errors alone, and the result")
	cmd.Flags().StringVar(&f.level, "log-level", "info", "how much of the story is told: "+strings.Join(storyLevels, ", ")+" (debug: every event)")
	_ = cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(storyLevels, cobra.ShellCompDirectiveNoFileComp))
}

func (f *storyFlags) check() error {
	switch {
	case !slices.Contains(storyLevels, f.level):
		return usagef("--log-level %q: want %s", f.level, strings.Join(storyLevels, ", "))
	case f.quiet && f.level != "info":
		return usagef("--quiet and --log-level: give one of the two")
	case f.level == "error":
		f.quiet = true
	}
	return nil
}

// say tells on w what goes on before a run has a story.
func (f storyFlags) say(w io.Writer, what string) {
	if !f.quiet && f.level != "warn" {
		fmt.Fprintln(w, reports.HarmlessLine(what))
	}
}

// notifier prints what a drill has to say to a person, a line each.
func (f storyFlags) notifier(w io.Writer) func(string) {
	return func(line string) {
		if !f.quiet {
			fmt.Fprintln(w, reports.Harmless(line))
		}
	}
}

// start says the notice, if there is one, and begins to tell about a run of e. Close ends it; nobody else writes to w before that.
func (f storyFlags) start(w io.Writer, e *experiments.Experiment, notice string, clock func() int64) *progress {
	_, live := terminal(w)
	if f.quiet {
		w, live, notice = io.Discard, false, ""
	}
	p := newProgress(w, e, live, clock)
	if e.TimeScale > 0 {
		p.status.Expected = time.Duration(forecast.PlanOf(e).Duration.Expected * float64(time.Second))
	}
	p.story.Level = reports.StoryLevel(slices.Index(storyLevels, f.level))
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
		p.pending = append(p.pending, said{e.To, line})
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
	var due <-chan time.Time // of the oldest line that waits
	for {
		select {
		case <-p.stop:
			p.finish()
			return
		case <-p.wake:
			if !p.live && due == nil {
				due = time.After(holdBack)
			}
		case <-due:
			due = nil
			tick.Reset(every) // a heartbeat is for silence
			if p.print(p.clock() - int64(holdBack)) {
				due = time.After(holdBack)
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

// take takes the lines of up to a moment out of the queue, in order of time, and says whether others wait.
func (p *progress) take(until int64) (lines []string, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.SortStableFunc(p.pending, func(a, b said) int { return cmp.Compare(a.at, b.at) })
	n := 0
	for ; n < len(p.pending) && p.pending[n].at <= until; n++ {
		lines = append(lines, p.pending[n].line)
	}
	if p.dropped > 0 {
		lines = append(lines, fmt.Sprintf("(%d lines left out: they came faster than they could be written)", p.dropped))
	}
	p.pending, p.dropped = slices.Delete(p.pending, 0, n), 0
	return lines, len(p.pending) > 0
}

func (p *progress) print(until int64) (more bool) {
	lines, more := p.take(until)
	if len(lines) > 0 {
		fmt.Fprintln(p.w, strings.Join(lines, "\n"))
	}
	return more
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
	said, _ := p.take(p.clock() - int64(holdBack))
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
	p.print(math.MaxInt64)
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
