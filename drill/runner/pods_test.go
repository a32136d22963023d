package runner

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/drill/conductor"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// slow is an injector whose shots take their time, and which says what it saw of a death.
type slow struct {
	told
	left time.Duration // of its time, when it was to confirm
}

func (s *slow) Within(history.Event) time.Duration { return time.Hour }

func (s *slow) Confirm(ctx context.Context, _ undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	by, _ := ctx.Deadline()
	s.left = time.Until(by)
	return applied, history.Fault{Death: &history.Death{Sign: 7, Means: "api"}}, nil
}

func TestAPatientInjectorHasItsTimeAndItsWord(t *testing.T) {
	f := &slow{told: told{path: filepath.Join(t.TempDir(), undo.File)}}
	r := runOf(t, f.path, fakes{"kill": f})
	r.shots.fly(t.Context(), r, nil, history.Event{Source: source, Op: "k#1", Fault: &history.Fault{ID: "k", Shot: 1, Kind: "kill", Victim: "r1.1"}}, 0)
	if f.left < 50*time.Minute {
		t.Errorf("it had %s to confirm", f.left)
	}
	for _, e := range r.Log.Since(0) {
		if e.Kind == history.FaultConfirmed {
			if d := e.Fault.Death; d == nil || d.Sign != 7 {
				t.Errorf("confirmed with %+v", d)
			}
			return
		}
	}
	t.Error("never confirmed")
}

// pending is a fleet of which no life has come yet.
type pending struct{ asked int }

func (f *pending) Start(context.Context, protocol.Configure) (history.Replica, history.Span, error) {
	f.asked++
	return history.Replica{}, history.Span{}, nil
}
func (*pending) Send(string, protocol.Command) error { return nil }
func (*pending) Stop(context.Context) error          { return nil }

func TestALifeThatHasNotComeYetIsNotRecorded(t *testing.T) {
	r, f := runOf(t, filepath.Join(t.TempDir(), undo.File), nil), &pending{}
	r.Fleet, r.Configure = f, func(string, string) protocol.Configure { return protocol.Configure{} }
	r.start(t.Context(), &conductor.Start{Name: "r1", Incarnation: "r1.1"})
	if events := r.Log.Since(0); f.asked != 1 || len(events) != 0 || r.err != nil {
		t.Errorf("asked %d times, recorded %+v: %v", f.asked, events, r.err)
	}
}
