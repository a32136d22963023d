// Package work is what a worker does with one lock, pure: one job, or one leader loop.
//
// There is no clock, goroutine or store in it: Step takes what happened and says what to do next, and the replica of a drill and
// the simulated one both do it. Its one invariant: no effect is asked for between the loss of the lock and the next grant, and the
// lock is given back only when the work has stopped.
package work

import (
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Spec is one piece of work under one lock.
type Spec struct {
	Policy *lockcore.Policy // with a Loop: the work is the loop's ticks, until it is told to stop
	Hold   time.Duration    // how long a job takes
	NoLook bool             // do a job that is finished already
	Wrong  Wrong
}

// Wrong is where work departs from what it should do, for work that is wrong on purpose. The zero Wrong departs nowhere.
type Wrong struct {
	NoBegin   bool // it is entered without an effect
	NoLook    bool // a finished job is done again, whatever Spec says
	TickEvery int  // a leader does a tick at every so many polls; 0 = at each
	Slow      int  // it takes so many times as long as it was asked to; 0 = once
}

// Why a stretch of work ended: history.Work.Why.
type Why string

const (
	Done    Why = "done"
	Skipped Why = "skipped" // somebody had finished the job
	Fenced  Why = "fenced"  // the lock may not be relied on any more
	Refused Why = "refused" // the ledger has seen a higher fence
	Error   Why = "error"   // the ledger did not answer
	Stopped Why = "stopped" // the replica was told to stop
)

// StateDone is the terminal state of a job.
const StateDone = "done"

// Input is one thing that happens to a piece of work, and what the lock says of itself at that moment.
type Input struct {
	Kind    Kind
	Over    bool             // the lock is given up
	Held    bool             // by the clock, the lock may be relied on
	Busy    bool             // Refusal: another has the lock
	Unknown bool             // Written: there was no answer
	Receipt lockcore.Receipt // Written: the answer
	Applied bool             // Read: the effect took place
}

// Kind of an Input.
type Kind uint8

const (
	Start    Kind = iota // once, first
	Granted              // answers Seek
	Refusal              // answers Seek
	Lost                 // the lock may not be relied on any more
	Timer                // ends Rest, Pause and Labour
	Written              // answers Write
	Read                 // answers Look
	Halted               // answers Halt: the work has stopped
	Released             // answers Release
	Quit                 // the replica is to stop
)

// Todo is what a step leaves to be done, in the order of its fields. After it there is exactly one thing to wait for.
type Todo struct {
	Cancel bool   // nobody waits for the effect in flight any more
	Exit   Why    // a stretch of work has ended
	Leave  bool   // the lock stays at its store until its TTL
	Enter  bool   // a stretch of work begins
	Answer string // of the offer: history.AckDone, AckSkipped or AckBusy
	Effect Effect // a new effect begins: it takes an operation id of its own, also where it is not sent

	Then Then
	At   time.Duration // Rest: until when, on the clock that Step is given
	For  time.Duration // Pause, Labour: how long
}

// Effect is what an effect says. The zero Effect is none.
type Effect struct {
	State    string
	Terminal bool
}

// Then is what to do last, and what answers it.
type Then uint8

const (
	Nothing Then = iota // what was waited for before goes on
	Seek                // ask for the lock: Granted or Refusal
	GiveUp              // end the seeking: Refusal
	Write               // send the effect: Written
	Look                // has the last effect taken place? Read
	Rest                // until the next poll, holding the lock or not: Timer
	Pause               // Timer
	Labour              // the work itself: Timer
	Halt                // make the work stop: Halted
	Release             // give the lock back: Released
	End                 // nothing follows
)
