package explore

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

const (
	key     = "k"
	subject = "job"
)

// state is the whole world between two steps. States share what a step does not change: whatever is changed is copied first.
type state struct {
	now      int // in steps of time
	who      []*contender
	messages []message // on their way, in the order in which they were sent
	store    *store
	ledger   *lockcore.LedgerTable

	// What is known of the store and of the ledger beside what they say themselves.
	holder, epoch int   // whose lease the key carries; holder -1 = nobody's
	ends          int   // when that lease ends
	top           int64 // highest fence ever granted
	accepted      int64 // highest epoch, by its own fence, of an accepted effect
	terminals     int
	flushed       bool
	deleted       bool
}

// contender is a process that wants the key, works under it, and writes to the ledger that the job has begun and that it is done.
type contender struct {
	m     lockcore.Attempt // nil = not now
	heard []heard          // by a machine that is wrong on purpose
	lives int              // attempts so far
	lag   int              // of its clock behind the store's
	base  int              // epochs of earlier attempts
	used  int              // epochs so far

	asked    int  // when the attempt began, on its own clock
	answered bool // it was granted or refused

	call  lockcore.Call // the last one, and whether it is still open
	open  bool
	work  workState
	ended bool  // the lock was given up: the work's context has ended
	since int   // when, on its own clock
	fence int64 // as it was told with the grant
	own   int64 // of the epoch that it was granted

	doubt, undone bool // an acquire's outcome is unknown; an undo was sent
	told          bool // a release was sent, or skipped and that said
}

// heard is one step of a machine.
type heard struct {
	now lockcore.Instant
	in  lockcore.Input
}

// store is a table, and the rules by which it is asked: its own, where nothing is wrong on purpose.
type store struct {
	table *lockcore.Table
	rules lockcore.Rules
	done  []func(*store) // to a store with rules of its own
}

type workState uint8

const (
	resting  workState = iota
	entering           // the begin is on its way
	begun              // accepted: the work may write
	writing            // the terminal state is on its way
	over               // nothing is left to write; the work has yet to stop
)

// message is a request to the store, its reply, or an effect on its way to the ledger.
type message struct {
	kind   messageKind
	op     lockcore.Op // store
	state  string      // effect
	who    int
	life   int
	call   int
	epoch  int  // of its sender, over all its attempts
	again  bool // it has arrived before
	result lockcore.Result
	pttl   time.Duration
	fence  int64
	own    int64
}

type messageKind uint8

const (
	request messageKind = iota
	reply
	effect
)

// start is a world in which nobody has done anything yet.
func (w *World) start() *state {
	s := &state{store: w.newStore(), ledger: lockcore.NewLedgerTable(), holder: -1}
	for range w.Contenders {
		s.who = append(s.who, &contender{})
	}
	return s
}

func (w *World) newStore() *store {
	t := lockcore.NewTable()
	s := &store{table: t, rules: t}
	if w.Variant.Rules != nil {
		s.rules = w.Variant.Rules(t)
	}
	return s
}

func (w *World) machine() lockcore.Attempt {
	if w.Variant.Attempt != nil {
		return w.Variant.Attempt(w.Policy)
	}
	return lockcore.NewMachine(w.Policy)
}

// copied is a state that shares everything with s.
func (s *state) copied() *state {
	n := *s
	return &n
}

// What is copied with all that it knows: a machine and a table by their values; and what is wrong on purpose, of which nothing is known
// here, by doing to a new one what was done to the old.

// change gives s a contender of its own.
func (w *World) change(s *state, who int) *contender {
	s.who = slices.Clone(s.who)
	c := *s.who[who]
	switch m := c.m.(type) {
	case nil:
	case *lockcore.Machine:
		copied := *m
		c.m = &copied
	default:
		c.m = w.machine()
		for _, h := range c.heard {
			c.m.Step(h.now, h.in, nil)
		}
	}
	s.who[who] = &c
	return &c
}

func (w *World) copyStore(old *store) *store {
	if w.Variant.Rules == nil {
		t := old.table.Snapshot()
		return &store{table: t, rules: t}
	}
	n := w.newStore()
	for _, do := range old.done {
		n.do(do)
	}
	return n
}

// do does something to a store, and remembers it where a copy must do it again.
func (s *store) do(what func(*store)) {
	what(s)
	if s.rules != lockcore.Rules(s.table) {
		s.done = append(s.done, what)
	}
}

// changeLedger gives s a ledger of its own: one that was told the same.
func (s *state) changeLedger() *lockcore.LedgerTable {
	n := lockcore.NewLedgerTable()
	for _, e := range s.ledger.Entries(0) {
		if _, err := n.Write(e.Effect); err != nil {
			panic(err) // it took the same effect before
		}
	}
	s.ledger = n
	return n
}

// send puts a message on its way.
func (s *state) send(m message) {
	s.messages = append(slices.Clip(s.messages), m)
}

// deliver takes a message from its way, or leaves a copy of it there.
func (s *state) deliver(i int, copies bool) message {
	m := s.messages[i]
	s.messages = slices.Clone(s.messages)
	if copies {
		s.messages[i].again = true
		return m
	}
	s.messages = slices.Delete(s.messages, i, i+1)
	return m
}

// step is one step of time.
func (w *World) step() time.Duration { return w.Policy.TTL / Grid }

// clock is what a contender reads on its clocks, which run alike.
func (w *World) clock(s *state, c *contender) lockcore.Instant {
	at := time.Duration(s.now-c.lag) * w.step()
	return lockcore.Instant{Mono: at, Wall: at, Boot: at}
}

// storeTime is what the store reads on its clock. It begins late enough that its microseconds are above 0.
func (w *World) storeTime(s *state) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(s.now) * w.step())
}

// token is what the key carries in an epoch.
func (w *World) token(who, epoch int) string {
	if w.Variant.OneToken || w.Variant.SharedToken {
		return "t"
	}
	return string([]byte{'a' + byte(who), byte(epoch)})
}

// fenced reports whether a message carries the fence of an epoch.
func (m message) fenced() bool {
	return m.kind == effect || m.kind == reply && m.op == lockcore.OpAcquire && m.result == lockcore.OK
}

// awaits reports whether a request is the call that the contender waits for.
func (c *contender) awaits(m message) bool {
	return c.m != nil && c.open && c.lives == m.life && c.call.ID == m.call
}
