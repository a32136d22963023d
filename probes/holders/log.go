package holders

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
)

// Bounds of what a log source keeps.
const (
	mostSightings = 20_000
	oldLines      = 1 << 20 // bytes before a file's end that are read at the beginning
)

// Log finds a line of a replica's log about the key and its present token. Lines of pods are handed to Line; files are followed by Read.
type Log struct {
	lives   func() []Life
	pattern *regexp.Regexp // groups key and token
	lease   func(lock string) time.Duration
	clock   func() int64
	files   *follow.Files // nil = others hand over the lines

	mu    sync.Mutex
	read  map[string]bool     // files whose old lines were read
	seen  map[string]sighting // by key and token's fingerprint
	order []string            // of those, the oldest first
	err   error
}

// NewLog returns a source that follows the files of glob on a bus; "" = lines are handed to Line. lease is how long a token of a lock stays where
// nobody renews it; 0 = not known.
func NewLog(pattern *regexp.Regexp, bus *follow.Bus, glob string, lives func() []Life, lease func(lock string) time.Duration, clock func() int64) *Log {
	g := &Log{lives: lives, pattern: pattern, lease: lease, clock: clock, read: map[string]bool{}, seen: map[string]sighting{}}
	if glob != "" {
		g.files = bus.Follow(follow.Options{
			Globs: []string{glob}, Clock: clock,
			Line: func(path string, line follow.Line) {
				if l, ok := g.writer(path); ok {
					g.line(l.Incarnation, line, l.Since > line.At.From)
				}
			},
			Gap: func(string, history.Span, string, bool) {}, // no line is no word
		})
	}
	return g
}

// writer is the life whose log is at path.
func (g *Log) writer(path string) (Life, bool) {
	for _, l := range g.lives() {
		if l.Log == path {
			return l, true
		}
	}
	return Life{}, false
}

// Line takes a line of the log of a life.
func (g *Log) Line(incarnation string, line follow.Line) { g.line(incarnation, line, false) }

// line takes a line. A log goes on over restarts: an old line was perhaps written by the life before.
func (g *Log) line(incarnation string, line follow.Line, old bool) {
	text, groups := line.Find(g.pattern)
	if groups == nil {
		return
	}
	id := tokenID(follow.Group(g.pattern, "key", text, groups), follow.Group(g.pattern, "token", text, groups))
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.seen[id]; !known {
		g.order = append(g.order, id)
	}
	if len(g.order) > mostSightings {
		delete(g.seen, g.order[0])
		g.order = g.order[1:]
	}
	g.seen[id] = sighting{incarnation, line.At, old}
}

// Read reads what the files have got since the last time; of a replica that is new to it, also the lines before. It may be called at any
// time.
func (g *Log) Read() {
	if g.files == nil {
		return
	}
	err := g.files.Read(false)
	for _, l := range g.lives() {
		g.mu.Lock()
		known := g.read[l.Incarnation]
		g.read[l.Incarnation] = true
		g.mu.Unlock()
		if !known && l.Log != "" {
			g.readOld(l)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// readOld reads the lines before the present end of a life's log: they were written at any time up to now.
func (g *Log) readOld(l Life) {
	// What cannot be read now, reading on tells of.
	_, _ = follow.Tail(l.Log, oldLines, history.Span{To: g.clock()}, func(line follow.Line) { g.line(l.Incarnation, line, true) })
}

// Close closes the files.
func (g *Log) Close() {
	if g.files != nil {
		g.files.Close()
	}
}

// Word implements Source.
func (*Log) Word() string { return "log" }

// Ask implements Source.
func (g *Log) Ask(_ context.Context, q Question) Answer {
	g.Read()
	return g.Recall(q)
}

// Recall implements Instant.
func (g *Log) Recall(q Question) Answer {
	lives := g.lives()
	g.mu.Lock()
	defer g.mu.Unlock()
	s, known := g.seen[tokenID(q.Key, q.Value)]
	switch {
	case !known && g.err != nil:
		return unknown(oneLine(g.err.Error()))
	case !known:
		return unknown("no line with its present token")
	case !s.younger(q):
		return unknown("the line with its token is older than the grant")
	case !among(lives, s.incarnation):
		return unknown(fmt.Sprintf("the line is of %s, which is dead", s.incarnation))
	case s.old && !g.outlived(lives, s.incarnation, q.Lock):
		return unknown("the line with its token may be of an earlier life, whose lease is not surely over")
	}
	return Answer{Holders: slices.Clone([]string{s.incarnation})}
}

// outlived reports that a life is older than a lease: a token that is still there is not that of the life before it.
func (g *Log) outlived(lives []Life, incarnation, lock string) bool {
	lease := g.lease(lock)
	for _, l := range lives {
		if l.Incarnation == incarnation {
			return lease > 0 && g.clock()-l.Since > int64(lease)
		}
	}
	return false
}
