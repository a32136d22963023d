package holders

import (
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/probes"
)

// longAgo are the bytes before a log's end that are searched for what its replica believed before; a follower may have written of other
// things for long.
const longAgo = 64 << 20

// mostBeliefs are the lines of a run that tell of a change. More are a pattern that matches too much.
const mostBeliefs = 10_000

// BeliefLog reads in the logs of replicas when they begin and cease to believe that they hold a lock. Each line is a change, with its own
// bracket. Where a pattern has a group key, lines are about that key alone. Files it follows itself; lines of pods are handed to Line, Cut and Past
// at any time. Looks are made one after the other.
type BeliefLog struct {
	o     BeliefLogOptions
	files *follow.Files // nil = others hand over the lines

	inbox   probes.Inbox
	writers map[string][]Life // by path, the last life last

	mu    sync.Mutex
	said  map[string]map[string]bool // of an incarnation: whether it holds a key
	began int64                      // when the first look was made; -1 = not yet; looks' alone
}

// BeliefLogOptions say which lines tell.
type BeliefLogOptions struct {
	Lock       string
	Gain, Lose *regexp.Regexp
	Glob       string                // of files; "" = lines are handed over
	Of         func(key string) bool // the key is the lock's
	Loop       bool                  // it has one key
	Lives      func() []Life
	Clock      func() int64
}

// NewBeliefLog returns a probe that follows logs from where they end now.
func NewBeliefLog(o BeliefLogOptions) *BeliefLog {
	b := &BeliefLog{
		o: o, inbox: probes.Inbox{Probe: history.BeliefProbe(o.Lock), Source: beliefSource(o.Lock), Full: "tell of who holds " + o.Lock, Most: mostBeliefs},
		writers: map[string][]Life{}, said: map[string]map[string]bool{}, began: -1,
	}
	if o.Glob == "" {
		return b
	}
	b.files = follow.New(follow.Options{
		Globs: []string{o.Glob}, Clock: o.Clock, Line: b.line,
		Want: func(path string) bool { return len(b.writers[filepath.Clean(path)]) > 0 },
		Gap:  b.inbox.FileGap,
	})
	return b
}

// Close closes the files.
func (b *BeliefLog) Close() error {
	if b.files != nil {
		b.files.Close()
	}
	return nil
}

// Line takes a line of the log of a life.
func (b *BeliefLog) Line(incarnation string, l follow.Line) {
	b.told(Life{Incarnation: incarnation}, true, l)
}

// Cut takes a stretch in which the log of a life that lived was not followed.
func (b *BeliefLog) Cut(whose string, gap history.Span) {
	b.inbox.Gap(gap, "the log of "+whose+" was not followed", false)
}

// Past takes the lines that the log of a life, and of no other, had when it began to be followed: of a lock with one key, the last change tells
// what it believed then. why says that lines before these may be missing.
func (b *BeliefLog) Past(incarnation string, at history.Span, lines []follow.Line, why string) {
	if !b.o.Loop {
		return
	}
	said := &history.Belief{Incarnation: incarnation, By: "log"}
	known := why == ""
	for _, l := range lines {
		if _, holds, ok := b.change(l); ok {
			said.Holds, known = holds, true
		}
	}
	if known {
		b.now(incarnation, "", said.Holds)
	} else {
		said.Gone, said.Why = history.GoneUnreadable, why
	}
	b.inbox.Found(beliefEvent(b.o.Lock, "", at, said))
}

// change is what a line tells: of which key, and whether it is held; ok is false where it tells nothing of this lock.
func (b *BeliefLog) change(l follow.Line) (key string, holds, ok bool) {
	for _, p := range []*regexp.Regexp{b.o.Gain, b.o.Lose} {
		text, groups := l.Find(p)
		if groups == nil {
			continue
		}
		if p.SubexpIndex("key") >= 0 {
			if key = follow.Group(p, "key", text, groups); !b.o.Of(key) {
				continue
			}
		}
		if b.o.Loop {
			key = ""
		}
		return key, p == b.o.Gain, true
	}
	return "", false, false
}

// line takes a line that was written since reading began.
func (b *BeliefLog) line(path string, l follow.Line) {
	writer, known := b.writer(path, l.At)
	b.told(writer, known, l)
}

// told takes a line of a life.
func (b *BeliefLog) told(writer Life, known bool, l follow.Line) {
	key, holds, ok := b.change(l)
	switch {
	case ok && known:
		b.inbox.Found(beliefEvent(b.o.Lock, key, l.At, &history.Belief{Incarnation: writer.Incarnation, Named: writer.Name, Holds: holds, By: "log", Direct: true}))
		b.now(writer.Incarnation, key, holds)
	case l.Cut && !ok:
		b.inbox.Cut(l.At)
	}
}

// now notes what a replica believes.
func (b *BeliefLog) now(who, key string, holds bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said[who] == nil {
		b.said[who] = map[string]bool{}
	}
	b.said[who][key] = holds
}

// last are the events of the final look: what the replicas that live believe.
func (b *BeliefLog) last(at history.Span) (events []history.Event) {
	lives := b.o.Lives() // whose owner may be handing over a line
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range lives {
		for _, key := range slices.Sorted(maps.Keys(b.said[l.Incarnation])) {
			events = append(events, beliefEvent(b.o.Lock, key, at, &history.Belief{Incarnation: l.Incarnation, Named: l.Name, Holds: b.said[l.Incarnation][key], By: "log", Prev: &at, Final: true}))
		}
	}
	return events
}

// writer is the life that wrote a line to a file: the last one that surely lived then, else the first.
func (b *BeliefLog) writer(path string, at history.Span) (Life, bool) {
	lives := b.writers[filepath.Clean(path)]
	for _, l := range slices.Backward(lives) {
		if l.Since <= at.From {
			return l, true
		}
	}
	if len(lives) == 0 {
		return Life{}, false
	}
	return lives[0], true
}

// meet takes in who writes to which file, and gives those of whom nothing is known.
func (b *BeliefLog) meet() (strangers []Life) {
	for _, l := range b.o.Lives() {
		path := filepath.Clean(l.Log)
		if l.Log == "" || slices.ContainsFunc(b.writers[path], func(o Life) bool { return o.Incarnation == l.Incarnation }) {
			continue
		}
		b.writers[path] = append(b.writers[path], l)
		strangers = append(strangers, l)
	}
	return strangers
}

// before says what replicas of whom nothing is known believed before their logs were read: what the last line of a change told. One by which
// a replica began to believe may be of an earlier life, which died as it believed; where several have such a line, nobody knows of whom it
// is true.
func (b *BeliefLog) before(strangers []Life) map[string]Said {
	all := map[string]Said{}
	var won []string
	for _, l := range strangers {
		if b.said[l.Incarnation] != nil {
			continue
		}
		holds := false
		if l.Since <= b.began {
			told := false
			whole, err := follow.Tail(l.Log, longAgo, history.Span{To: b.began}, func(line follow.Line) {
				if _, now, ok := b.change(line); ok {
					holds, told = now, true
				}
			})
			if !told && !whole {
				why := "no line of a change is in the last 64 MiB of its log"
				if err != nil {
					why = "its log cannot be read: " + err.Error()
				}
				all[l.Incarnation] = Said{Gone: history.GoneUnreadable, Why: why}
				continue
			}
		}
		b.now(l.Incarnation, "", holds)
		if all[l.Incarnation] = (Said{Holds: holds}); holds {
			won = append(won, l.Incarnation)
		}
	}
	if len(won) > 1 {
		for _, who := range won {
			delete(b.said, who)
			all[who] = Said{Gone: history.GoneUnreadable, Why: "the logs of several replicas end with a line by which they begin to hold it: one may be of an earlier life"}
		}
	}
	return all
}

// Look gives what logs have told since the last look whose function was called. The first look at a replica also tells what it believed
// before, of a lock with one key.
func (b *BeliefLog) Look(_ context.Context, final bool) (func(history.Span) []history.Event, error) {
	if b.began < 0 {
		b.began = b.o.Clock()
	}
	strangers := b.meet()
	if b.files != nil {
		if err := b.files.Read(final); err != nil {
			return nil, err
		}
	}
	first := map[string]Said{}
	if b.o.Loop {
		first = b.before(strangers)
	}
	take, err := b.inbox.Look()
	return func(at history.Span) (events []history.Event) {
		for _, who := range slices.Sorted(maps.Keys(first)) {
			s := first[who]
			events = append(events, beliefEvent(b.o.Lock, "", at, &history.Belief{Incarnation: who, Holds: s.Holds, By: "log", Gone: s.Gone, Why: s.Why}))
		}
		events = append(events, take()...)
		if final {
			events = append(events, b.last(at)...)
		}
		return events
	}, err
}
