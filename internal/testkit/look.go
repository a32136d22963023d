package testkit

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// Probe is what makes looks.
type Probe interface {
	Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error)
}

// Timeout reports an error that only says that time was up.
func Timeout(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// Look makes one look with the bracket given, and checks what it yields.
func Look(t *testing.T, p Probe, at history.Span, final bool) []history.Event {
	t.Helper()
	report, err := p.Look(t.Context(), final)
	for end := time.Now().Add(time.Minute); Timeout(err) && time.Now().Before(end); { // on a busy machine the runner looks again as well
		report, err = p.Look(t.Context(), final)
	}
	if err != nil {
		t.Fatalf("Look: %v", err)
	}
	events := report(at)
	for _, e := range events {
		if err := e.Check(); err != nil {
			t.Errorf("event %+v: %v", e, err)
		}
	}
	return events
}

// MS is a millisecond of a history.
const MS = int64(time.Millisecond)

// At is a bracket of 1 ms.
func At(millis int64) history.Span { return history.Span{From: millis * MS, To: (millis + 1) * MS} }
