// Package burst decides which operations on locks fail, how and how often. The worker, the proxy and the simulation each carry out
// what it says in their own way.
//
// It knows no store, no clock and no randomness but what it is handed: who drives a burst ends it when its time is up. Its one
// invariant: the same calls, draws and ends give the same hits, and no call is hit once the count is spent or the burst has ended.
package burst

import (
	"hash/fnv"
	"io"
	"slices"
	"time"
)

// Operations on a lock. An undo is a release.
const (
	Acquire = "acquire"
	Renew   = "renew"
	Release = "release"
)

// Ways in which an operation fails.
const (
	Error     = "error"      // it is not sent: surely no effect
	Timeout   = "timeout"    // it is never sent, and nobody answers: its caller does not know the effect
	Delay     = "delay"      // it is held back, and sent late
	LostReply = "lost_reply" // it takes effect, and its caller hears nothing
)

// Why a burst has ended by itself.
const (
	CountSpent = "its count was spent"
	TimeUp     = "its time was up"
)

// Spec is what a burst does to which operations. Count or For bounds it.
type Spec struct {
	Op    string        `json:"op"`              // acquire, renew, release
	Mode  string        `json:"mode"`            // error, timeout, delay, lost_reply
	Share float64       `json:"share,omitempty"` // of the operations that it is aimed at, each by chance; 0 = all
	Delay time.Duration `json:"delay,omitempty"` // ns; mode delay: how long a call is held back
	Lock  string        `json:"lock,omitempty"`  // only of this lock; "" = all
	Key   string        `json:"key,omitempty"`   // only of this key; "" = all
	Count int           `json:"count,omitempty"` // so many operations; 0 = all until its end
	For   time.Duration `json:"for,omitempty"`   // ns; at most so long; 0 = not bounded by time
	Names []string      `json:"-"`               // only by these callers; empty = all
	Token string        `json:"-"`               // only with this token; "" = any
}

// Call is one operation as a burst sees it.
type Call struct{ Op, Lock, Key, Name, Token string }

// Aims reports whether the burst is meant for such a call.
func (s *Spec) Aims(c Call) bool {
	return s.Op == c.Op && (s.Lock == "" || s.Lock == c.Lock) && (s.Key == "" || s.Key == c.Key) &&
		(s.Token == "" || s.Token == c.Token) && (len(s.Names) == 0 || slices.Contains(s.Names, c.Name))
}

// State of a burst.
type State string

const (
	Armed State = "armed" // operations may fail
	Spent State = "spent" // its count is reached, and calls that it hit have not come back
	Ended State = "ended"
)

// Burst is a burst under way. It is not safe for concurrent use.
type Burst struct {
	Spec
	Hits   int64 // operations that were made to fail
	Spared int64 // operations that it was aimed at and that chance spared
	Held   int   // hit, and not yet done
	draw   func() float64
	ended  bool
}

// New arms a burst. draw is uniform in [0, 1); it is asked once for each call that a share below 1 is aimed at.
func New(s Spec, draw func() float64) *Burst { return &Burst{Spec: s, draw: draw} }

// State says how far it has come.
func (b *Burst) State() State {
	switch {
	case b.ended:
		return Ended
	case b.Count > 0 && b.Hits >= int64(b.Count):
		return Spent
	}
	return Armed
}

// Open reports whether such a call may be hit.
func (b *Burst) Open(c Call) bool { return b.State() == Armed && b.Aims(c) }

// Strike reports that the burst hits the call, which is held until Done.
func (b *Burst) Strike(c Call) bool {
	if !b.Open(c) {
		return false
	}
	if b.Share > 0 && b.draw() >= b.Share {
		b.Spared++
		return false
	}
	b.Hits++
	b.Held++
	return true
}

// Done takes back a call that was hit. It reports whether that was the last one of a burst whose count is spent: it is to be ended.
func (b *Burst) Done() bool {
	b.Held--
	return b.Held == 0 && b.State() == Spent
}

// End ends the burst: what it holds goes on. False = it had ended.
func (b *Burst) End() bool {
	was := b.ended
	b.ended = true
	return !was
}

// First is the burst that a call falls to: the first one that strikes it.
func First[B interface{ Strike(Call) bool }](all []B, c Call) (b B, ok bool) {
	for _, b := range all {
		if b.Strike(c) {
			return b, true
		}
	}
	return b, false
}

// Stream is a number of a burst's own by its name, so that each draws its own choices from one seed.
func Stream(name string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	return h.Sum64()
}
