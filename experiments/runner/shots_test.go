package runner

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
)

// told is an injector that notes what it is asked to do, and fails where it is told to.
type told struct {
	path  string // of the journal
	calls []string
	fail  map[string]error
}

func (f *told) note(call string) error {
	c, err := undo.Read(f.path)
	state := undo.State("nothing")
	if err == nil && len(c.Entries) > 0 {
		state = c.Entries[len(c.Entries)-1].State
	}
	f.calls = append(f.calls, call+" at "+string(state))
	return errors.Join(err, f.fail[call])
}

func (f *told) Prepare(context.Context, history.Event) (undo.Record, error) {
	return undo.Record{Folder: "what it changes"}, f.note("prepare")
}

func (f *told) Inject(context.Context, undo.Record) (history.Span, error) {
	return history.Span{}, f.note("inject")
}

func (f *told) Confirm(context.Context, undo.Record, history.Span) (history.Span, history.Fault, error) {
	return history.Span{}, history.Fault{Hits: 1}, f.note("confirm")
}

func (f *told) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	if r.Folder != "what it changes" || ctx.Err() != nil {
		return history.Span{}, errors.New("reverted without what it needs")
	}
	return history.Span{}, f.note("revert")
}

// flight lets one shot of a fault fly and returns what was asked of its injector, and what is in history and journal afterwards.
func flight(t *testing.T, f *told, journal func(*undo.Journal)) (events []history.Kind, after undo.Content) {
	t.Helper()
	f.path = filepath.Join(t.TempDir(), undo.File)
	j, err := undo.Create(f.path, undo.Header{Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	journal(j)
	start := time.Now()
	clock := func() int64 { return int64(time.Since(start)) }
	log := NewLog()
	rec, err := history.NewRecorder(&bytes.Buffer{}, history.Header{Run: "r", Experiment: "x", Mode: history.Live, TimeScale: 1}, clock, log.Add)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Config: Config{Recorder: rec, Log: log, Journal: j, Clock: clock, Injectors: map[string]Injector{"pause": f}}}
	r.shots.fly(t.Context(), r, history.Event{Source: source, Op: "p#1", Fault: &history.Fault{ID: "p", Shot: 1, Kind: "pause", Victim: "r1.1"}}, 0)
	for _, e := range log.Since(0) {
		events = append(events, e.Kind)
	}
	after, err = undo.Read(f.path)
	if err != nil {
		t.Fatal(err)
	}
	return events, after
}

// The order of a fault's life: what is written down, when, and what is undone whichever step fails.
func TestAFaultIsWrittenDownBeforeItIsMade(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		fail  string
		calls []string
		state undo.State
		void  bool
	}{
		{"", []string{"prepare at nothing", "inject at intent", "confirm at injected", "revert at undo-intent"}, undo.Undone, false},
		{"prepare", []string{"prepare at nothing"}, "", true},
		{"inject", []string{"prepare at nothing", "inject at intent", "revert at undo-intent"}, undo.Undone, true},
		{"confirm", []string{"prepare at nothing", "inject at intent", "confirm at injected", "revert at undo-intent"}, undo.Undone, true},
		{"revert", []string{"prepare at nothing", "inject at intent", "confirm at injected", "revert at undo-intent"}, undo.Dirty, false},
	} {
		f := &told{fail: map[string]error{c.fail: broken}}
		events, after := flight(t, f, func(*undo.Journal) {})
		if !slices.Equal(f.calls, c.calls) {
			t.Errorf("%q fails: asked %q, want %q", c.fail, f.calls, c.calls)
		}
		var state undo.State
		if len(after.Entries) == 1 {
			state = after.Entries[0].State
		}
		if state != c.state {
			t.Errorf("%q fails: the journal says %q, want %q", c.fail, state, c.state)
		}
		if void := slices.Contains(events, history.FaultVoid); void != c.void {
			t.Errorf("%q fails: events %v, want void %v", c.fail, events, c.void)
		}
		if dirty := slices.Contains(events, history.RunCleanup); dirty != (c.fail == "revert") {
			t.Errorf("%q fails: events %v", c.fail, events)
		}
	}
}

// What cannot be written down is not done.
func TestAFaultThatCannotBeWrittenDownIsNotInjected(t *testing.T) {
	f := &told{}
	events, after := flight(t, f, func(j *undo.Journal) {
		if err := j.Close(); err != nil { // as good as a full disk: nothing can be written
			t.Fatal(err)
		}
	})
	if !slices.Equal(f.calls, []string{"prepare at nothing"}) || len(after.Entries) != 0 {
		t.Errorf("asked %q, journal %+v", f.calls, after)
	}
	if !slices.Contains(events, history.FaultVoid) || slices.Contains(events, history.FaultApplied) {
		t.Errorf("events %v", events)
	}
}
