package facts

import (
	"testing"

	"github.com/lockdrill/lockdrill/history"
)

// What is told first came first, whatever the brackets: those of two lines of one life are not equally wide.
func TestTheOrderOfAPodsDoingsIsThatOfItsLines(t *testing.T) {
	gave := &Call{Source: "r1.1", Outcome: history.OK, told: 7, Sent: history.Span{From: 100, To: 140}}
	for n, want := range map[int64]bool{6: true, 8: false} {
		w := &Stint{exit: n, by: "r1.1", End: history.Span{From: 110, To: 120}}
		e := &Epoch{Lease: lease{gave: gave}}
		if e.stoppedToGive(w) != want {
			t.Errorf("line %d, and the release in line 7: stopped before it: %t", n, !want)
		}
	}
}

// How far a clock is known may change between a call and its answer, and what was heard at once narrows one and not the other: neither
// says how late the answer was.
func TestTheAnswerOfAPodIsKnownAsFarAsItsLineSays(t *testing.T) {
	for answered, want := range map[int64]history.Span{0: {From: 100, To: 130}, 105: {From: 105, To: 130}} {
		c := &Call{Sent: history.Span{From: 100, To: 101}, Span: history.Span{From: 100, To: Open}}
		c.finish(&history.Event{Span: history.Span{From: 100, To: 130}, Clock: history.ClockBounds, Outcome: history.Fail,
			Call: &history.Call{Result: history.ResultHeld, Answered: answered}})
		if c.answered != want {
			t.Errorf("answered in %v, want %v", c.answered, want)
		}
	}
}
