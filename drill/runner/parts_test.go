package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// counted notes whom it is asked to strike; what is in fail fails for that victim.
type counted struct {
	mu       sync.Mutex
	asked    []string
	fail     map[string]error
	reverted map[string]int
}

func (c *counted) note(call, victim string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, call+" "+victim)
	return c.fail[call+" "+victim]
}

func (c *counted) Prepare(_ context.Context, shot history.Event) (undo.Record, error) {
	return undo.Record{Folder: shot.Fault.Victim}, c.note("prepare", shot.Fault.Victim)
}

func (c *counted) Inject(_ context.Context, r undo.Record) (history.Span, error) {
	n := int64(r.Folder[1] - '0')
	return history.Span{From: 100 - n, To: 100 + n}, c.note("inject", r.Folder)
}

func (c *counted) Confirm(_ context.Context, r undo.Record, _ history.Span) (history.Span, history.Fault, error) {
	n := int64(r.Folder[1] - '0')
	return history.Span{From: 200 + n, To: 300 - n}, history.Fault{Hits: 1, Expected: 50, Observed: 50 - n}, c.note("confirm", r.Folder)
}

func (c *counted) Revert(_ context.Context, r undo.Record) (history.Span, error) {
	if r.Shot.Fault.Victim != r.Folder || r.Shot.Fault.Victims != nil {
		return history.Span{}, errors.New("a record of another victim")
	}
	c.mu.Lock()
	c.reverted[r.Folder]++
	c.mu.Unlock()
	n := int64(r.Folder[1] - '0')
	return history.Span{From: 400 - n, To: 400 + n}, c.note("revert", r.Folder)
}

// several lets a pause of three fly, and returns what was recorded and what the journal says.
func several(t *testing.T, c *counted) ([]history.Event, undo.Content) {
	t.Helper()
	c.reverted = map[string]int{}
	path := filepath.Join(t.TempDir(), undo.File)
	r := runOf(t, path, fakes{"pause": c})
	r.shots.fly(t.Context(), r, nil, history.Event{Source: source, Op: "p#1", Fault: &history.Fault{ID: "p", Shot: 1, Kind: "pause", Victims: []string{"r1.1", "r2.1", "r3.1"}}}, 0)
	if r.shots.revertAll(t.Context(), r); len(r.shots.live) > 0 {
		t.Errorf("in flight: %v", r.shots.live)
	}
	after, err := undo.Read(path)
	testkit.Must(t, err)
	return r.Log.Since(0), after
}

// A fault of several is one shot: it is in effect while it is in all of them. Each victim has a record of its own, so that each is undone
// by itself.
func TestSeveralVictimsAreOneShotWithARecordEach(t *testing.T) {
	c := &counted{}
	events, after := several(t, c)
	var kinds []history.Kind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
		switch e.Kind {
		case history.FaultApplied:
			if e.Span != (history.Span{From: 97, To: 103}) {
				t.Errorf("applied within %v", e.Span)
			}
		case history.FaultConfirmed:
			if e.Span != (history.Span{From: 203, To: 297}) || e.Fault.Hits != 3 || e.Fault.Observed != 47 || len(e.Fault.Victims) != 3 {
				t.Errorf("confirmed within %v: %+v", e.Span, e.Fault)
			}
		case history.FaultReverted:
			if e.Span != (history.Span{From: 397, To: 403}) {
				t.Errorf("over within %v", e.Span)
			}
		}
	}
	if want := []history.Kind{history.FaultIntent, history.FaultApplied, history.FaultConfirmed, history.FaultReverted, history.FaultVerified}; !slices.Equal(kinds, want) {
		t.Errorf("recorded %v", kinds)
	}
	if len(after.Entries) != 3 {
		t.Fatalf("%d records", len(after.Entries))
	}
	for i, e := range after.Entries {
		who := fmt.Sprintf("r%d.1", i+1)
		if e.State != undo.Undone || e.Record.Shot.Fault.Victim != who || e.Record.Shot.Op != "p#1 "+who || c.reverted[who] != 1 {
			t.Errorf("record %d: %s of %s, reverted %d times", e.ID, e.State, e.Record.Shot.Fault.Victim, c.reverted[who])
		}
	}
}

// Where one of several cannot be struck the shot is void, and those that were are let go.
func TestOneOfSeveralThatCannotBeStruckVoidsTheShot(t *testing.T) {
	for _, call := range []string{"prepare", "inject", "confirm"} {
		c := &counted{fail: map[string]error{call + " r2.1": errors.New("gone")}}
		events, after := several(t, c)
		voids := 0
		for _, e := range events {
			if e.Kind == history.FaultVoid && e.Fault.Detail == "gone" {
				voids++
			}
		}
		written := map[string]int{"prepare": 1, "inject": 3, "confirm": 3}[call]
		if voids != 1 || len(after.Entries) != written || len(c.reverted) != written {
			t.Errorf("%s: %d times void, %d records, reverted %v", call, voids, len(after.Entries), c.reverted)
		}
		for _, e := range after.Entries {
			if e.State != undo.Undone {
				t.Errorf("%s: record of %s is %s", call, e.Record.Shot.Fault.Victim, e.State)
			}
		}
		if call == "prepare" && slices.Contains(c.asked, "inject r1.1") {
			t.Error("the first was struck although the second could not be")
		}
	}
}

// What cannot be undone is dirty alone: the others are undone, once.
func TestOneOfSeveralThatCannotBeUndoneIsDirtyAlone(t *testing.T) {
	c := &counted{fail: map[string]error{"revert r2.1": errors.New("still there")}}
	_, after := several(t, c)
	for _, e := range after.Entries {
		want := undo.Undone
		if e.Record.Shot.Fault.Victim == "r2.1" {
			want = undo.Dirty
		}
		if e.State != want {
			t.Errorf("record of %s is %s, want %s", e.Record.Shot.Fault.Victim, e.State, want)
		}
	}
	if c.reverted["r1.1"] != 1 || c.reverted["r3.1"] != 1 {
		t.Errorf("reverted %v", c.reverted)
	}
}

// What is tried again, because others of the shot could not be undone, is not undone twice.
func TestAPartThatIsUndoneIsNotUndoneAgain(t *testing.T) {
	c := &counted{reverted: map[string]int{}}
	r := runOf(t, filepath.Join(t.TempDir(), undo.File), fakes{"pause": c})
	shot := history.Event{Op: "p#1 r1.1", Fault: &history.Fault{ID: "p", Shot: 1, Kind: "pause", Victim: "r1.1"}}
	rec := undo.Record{Kind: "pause", Folder: "r1.1", Shot: shot}
	p := &part{Strike: &faked{c, rec}, rec: rec}
	first, err := p.revert(t.Context(), r)
	testkit.Must(t, err)
	if again, err := p.revert(t.Context(), r); err != nil || again != first || c.reverted["r1.1"] != 1 {
		t.Errorf("undone %d times, within %v and %v: %v", c.reverted["r1.1"], first, again, err)
	}
}
