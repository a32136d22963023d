package runner

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// fakes are injectors by kind, which learn all from the record.
type fakes map[string]fake

type fake interface {
	Prepare(context.Context, history.Event) (undo.Record, error)
	Inject(context.Context, undo.Record) (history.Span, error)
	Confirm(context.Context, undo.Record, history.Span) (history.Span, history.Fault, error)
	Revert(context.Context, undo.Record) (history.Span, error)
}

func (f fakes) Makes(s fault.Spec) bool { return f[s.Kind()] != nil }

func (f fakes) Prepare(ctx context.Context, _ fault.Spec, shot history.Event) (Strike, error) {
	rec, err := f[shot.Fault.Kind].Prepare(ctx, shot)
	rec.Kind, rec.Shot = shot.Fault.Kind, shot
	return &faked{f[shot.Fault.Kind], rec}, err
}

// faked is a shot of a fake.
type faked struct {
	fake
	rec undo.Record
}

func (f *faked) Record() undo.Record { return f.rec }

func (f *faked) Within() time.Duration {
	if p, ok := f.fake.(interface {
		Within(history.Event) time.Duration
	}); ok {
		return p.Within(f.rec.Shot)
	}
	return 0
}

func (f *faked) Inject(ctx context.Context) (history.Span, error) { return f.fake.Inject(ctx, f.rec) }

func (f *faked) Confirm(ctx context.Context, applied history.Span) (history.Span, history.Fault, error) {
	return f.fake.Confirm(ctx, f.rec, applied)
}

func (f *faked) Revert(ctx context.Context) (history.Span, error) { return f.fake.Revert(ctx, f.rec) }

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
	r := runOf(t, f.path, fakes{"pause": f})
	journal(r.Journal)
	r.shots.fly(t.Context(), r, nil, history.Event{Source: source, Op: "p#1", Fault: &history.Fault{ID: "p", Shot: 1, Kind: "pause", Victim: "r1.1"}}, 0)
	for _, e := range r.Log.Since(0) {
		events = append(events, e.Kind)
	}
	after, err := undo.Read(f.path)
	testkit.Must(t, err)
	return events, after
}

// runOf is a run that has just a journal, a history and injectors.
func runOf(t *testing.T, path string, injectors fakes) *run {
	t.Helper()
	j, err := undo.Create(path, undo.Header{Run: "r"})
	testkit.Must(t, err)
	start := time.Now()
	clock := func() int64 { return int64(time.Since(start)) }
	log := NewLog()
	rec, err := history.NewRecorder(&bytes.Buffer{}, history.Header{Run: "r", Experiment: "x", Mode: history.Live, TimeScale: 1}, clock, log.Add)
	testkit.Must(t, err)
	return &run{Config: Config{Recorder: rec, Log: log, Journal: j, Clock: clock, Injectors: injectors}}
}

// held is an injector whose fault can be ended only when another has been: it strikes what that one makes stand still.
type held struct {
	told
	by     *standing
	failed chan struct{} // a try that came too early
}

func (f *held) Revert(context.Context, undo.Record) (history.Span, error) {
	select {
	case <-f.by.over:
		return history.Span{}, nil
	default:
		f.failed <- struct{}{}
		return history.Span{}, errors.New("no answer")
	}
}

// standing is the other one.
type standing struct {
	told
	over chan struct{}
}

func (f *standing) Revert(context.Context, undo.Record) (history.Span, error) {
	close(f.over)
	return history.Span{}, nil
}

// A fault that cannot be ended because another one stands in the way is ended after that, and the run is not dirty.
func TestAFaultIsEndedAfterTheOneThatStandsInTheWay(t *testing.T) {
	for _, end := range []string{"in its time", "when all is reverted"} {
		path := filepath.Join(t.TempDir(), undo.File)
		pause := &standing{told: told{path: path}, over: make(chan struct{})}
		clock := &held{told: told{path: path}, by: pause, failed: make(chan struct{}, 1)}
		r := runOf(t, path, fakes{"pause": pause, "clock": clock})
		shot := func(id, kind string) history.Event {
			return history.Event{Source: source, Op: id + "#1", Fault: &history.Fault{ID: id, Shot: 1, Kind: kind, Victim: "r1.1"}}
		}
		first, err := r.shots.writeDown(t.Context(), r, nil, shot("p", "pause"))
		testkit.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		r.shots.wg.Go(func() { r.shots.fly(ctx, r, nil, shot("c", "clock"), 0) })
		<-clock.failed
		if end == "in its time" {
			if err := r.shots.revert(ctx, r, first); err != nil {
				t.Error(err)
			}
		} else {
			cancel()
			r.shots.revertAll(ctx, r)
		}
		r.shots.wg.Wait()
		cancel()
		c, err := undo.Read(path)
		dirty := slices.ContainsFunc(r.Log.Since(0), func(e history.Event) bool { return e.Kind == history.RunCleanup })
		if err != nil || len(c.Entries) != 2 || len(c.Open()) != 0 || dirty {
			t.Errorf("%s: %+v, dirty %v, %v", end, c.Entries, dirty, err)
		}
	}
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
