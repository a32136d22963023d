// Package injectors makes faults. A fault is a row: who is meant, what is done, what must be seen, what ends it, each a function of one of a
// few mechanisms. The engine is the same for all; brackets, words of void shots and records are its own.
//
// It does not decide when or at whom (the conductor does) and does not write the history (the runner does). Its one
// invariant: Confirm returns without an error only if the fault was observed to have happened.
package injectors

import (
	"context"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// step is one of the four things that a row does.
type step = func(context.Context, *Hit) error

func nothing(context.Context, *Hit) error { return nil }

// Row is one way to make a fault of a kind, or of one of its forms.
type Row struct {
	Needs func(*Hit) bool          // what it takes is there: of several rows, the first that has it makes the fault
	Find  step                     // fills Rec with all that undoing takes; it changes nothing
	Do    step                     // where it fails, it may be done in part: End is called
	See   step                     // fills Window and Saw; an error voids the shot
	End   step                     // by Rec alone, in any process, again and again; nil = nothing is undone
	Takes func(*Hit) time.Duration // to be made and seen, beyond its declared time; nil = no longer than any
}

// Hit is a shot on its way: its fault as it is run, and its victim as that was seen to start, both resolved once.
type Hit struct {
	*Reach
	Spec    fault.Spec       // nil in a process that only undoes
	Victim  *history.Replica // nil = the store, several, or nobody who was seen to start
	Rec     undo.Record
	Applied history.Span // of Do; a step that waits first begins it anew
	Window  history.Span // in which it was seen
	Ended   history.Span // of its end, where a step knows that better than its own bracket
	Saw     history.Fault
	row     Row

	// What steps have learned on the way.
	ground   *ground        // of the network
	pids     map[string]int // of replicas that run, after the first so many events
	read     int
	said     string        // by a command, or of a primary
	podGrace time.Duration // of the victim
	doubt    error         // why a call may not have been done; nil = it was
	parts    []*Hit        // of a drain: one of each pod
	manifest kube.Object   // filled in
	object   string        // UID of what was made
	key      string        // of a cluster, whose primary hands over
	primary  string        // its address, before
}

func (h *Hit) fault() *history.Fault { return h.Rec.Shot.Fault }

// lasts is the declared time.
func (h *Hit) lasts() time.Duration { return time.Duration(h.Rec.Shot.Fault.Declared) }

// voidError is a shot that must not count; its word is that of fault.void.
type voidError struct {
	word history.VoidReason
	text string
}

func (e *voidError) Error() string            { return e.text }
func (e *voidError) Void() history.VoidReason { return e.word }

func void(word history.VoidReason, format string, args ...any) error {
	return &voidError{word, fmt.Sprintf(format, args...)}
}

// begin resolves a shot to its row.
func (r *Reach) begin(s fault.Spec, shot history.Event) (*Hit, error) {
	h := &Hit{Reach: r, Spec: s, pids: map[string]int{}, Rec: undo.Record{Kind: s.Kind(), Shot: shot}}
	if shot.Fault != nil && shot.Fault.Victim != "" && r.Past != nil {
		h.Victim = startOf(r.Past(), shot.Fault.Victim)
	}
	for _, row := range rowsOf(s.Kind(), fault.Of(s).Form()) {
		if row.Needs(h) {
			h.row = row
			return h, nil
		}
	}
	return h, fmt.Errorf("a %s takes something that this drill has not", s.Kind())
}

// Makes reports that there is what the fault takes.
func (r *Reach) Makes(s fault.Spec) bool {
	_, err := r.begin(s, history.Event{})
	return err == nil
}

// Prepare says whom a shot strikes, and writes down how it is undone. It changes nothing.
func (r *Reach) Prepare(ctx context.Context, s fault.Spec, shot history.Event) (*Hit, error) {
	h, err := r.begin(s, shot)
	if err == nil && h.row.Find != nil {
		err = h.row.Find(ctx, h)
	}
	return h, err
}

// Record is how the shot is undone.
func (h *Hit) Record() undo.Record { return h.Rec }

// Within is how long the shot may take to be made and seen, beyond its declared time; 0 = no longer than any.
func (h *Hit) Within() time.Duration {
	if h.row.Takes == nil {
		return 0
	}
	return h.row.Takes(h)
}

// Inject makes the fault; the bracket is the fault's time.
func (h *Hit) Inject(ctx context.Context) (history.Span, error) {
	h.Applied = history.At(h.now())
	err := h.row.Do(ctx, h)
	if h.Applied.To == h.Applied.From { // else the step has told its own
		h.Applied.To = h.now()
	}
	return h.Applied, err
}

// Confirm sees what was made: of several parts, within a bracket of all.
func (h *Hit) Confirm(ctx context.Context, applied history.Span) (history.Span, history.Fault, error) {
	h.Applied, h.Window, h.Saw = applied, applied, history.Fault{}
	err := h.row.See(ctx, h)
	return h.Window, h.Saw, err
}

// Revert ends the fault, and reads back that it has ended; "the target is gone" counts as ended.
func (h *Hit) Revert(ctx context.Context) (history.Span, error) {
	if h.row.End == nil {
		return h.Rec.Shot.Span, nil
	}
	h.Ended = history.Span{}
	span := history.At(h.now())
	err := h.row.End(ctx, h)
	if span.To = h.now(); h.Ended != (history.Span{}) {
		span = h.Ended
	}
	return span, err
}

// now is the time of the run; a process that only undoes has none.
func (r *Reach) now() int64 {
	if r.Clock == nil {
		return 0
	}
	return r.Clock()
}
