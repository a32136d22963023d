package injectors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

func hookOf(t *testing.T, c fault.Commands) *struck {
	t.Helper()
	c.Dir, c.Within = t.TempDir(), 20*time.Second
	started := recorded{{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", PID: 4711}}}
	w := newWorld(t)
	w.Past, w.shot.Key = started.past, "the-key"
	return w.prepare(&fault.Hook{Commands: c})
}

// Each command is told at which step it is and whom it strikes; which one undoes it is written down before the first is run.
func TestAHookTellsItsCommandsWhomTheyStrike(t *testing.T) {
	say := []string{"sh", "-c", `echo "$LOCKDRILL_STEP $LOCKDRILL_FAULT $LOCKDRILL_VICTIM_NAME $LOCKDRILL_VICTIM_PID $LOCKDRILL_VICTIM_KEY" | tee -a steps`}
	h := hookOf(t, fault.Commands{Do: say, Confirm: say, Undo: say})
	if h.Rec.Hook.Undo[2] != say[2] || h.Rec.Hook.Mark != "test/hook/x#1" {
		t.Errorf("written down: %+v", h.Rec.Hook)
	}
	span, err := h.Inject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, seen, err := h.confirm(span)
	if want := "do: do x#1 r1 4711 the-key; confirm: confirm x#1 r1 4711 the-key"; err != nil || seen.Detail != want || seen.Hits != 1 {
		t.Errorf("%+v, %v, want %q", seen, err, want)
	}
	for range 2 { // whoever undoes it may do so again, in another process, which has nothing but the record
		if err := h.elsewhere(); err != nil {
			t.Error(err)
		}
	}
	steps, err := os.ReadFile(filepath.Join(h.Rec.Hook.Dir, "steps"))
	if err != nil || strings.Count(string(steps), "undo x#1 r1 4711 the-key\n") != 2 {
		t.Errorf("%s, %v", steps, err)
	}
}

// The exit status is believed: not done is an error, not seen is void, not undone is dirty, each with what the command has said.
func TestAHookBelievesTheExitStatus(t *testing.T) {
	bad := []string{"sh", "-c", "echo no luck >&2; exit 3"}
	h := hookOf(t, fault.Commands{Do: bad, Confirm: bad, Undo: bad})
	if _, err := h.Inject(t.Context()); err == nil || err.Error() != "do: sh ended with exit status 3: no luck" {
		t.Error(err)
	}
	if _, _, err := h.confirm(history.Span{}); voidOf(err) != "unconfirmed" || err.Error() != "confirm: sh ended with exit status 3: no luck" {
		t.Error(err)
	}
	if _, err := h.Revert(t.Context()); err == nil || err.Error() != "undo: sh ended with exit status 3: no luck" {
		t.Error(err)
	}
	h.Rec.Hook.Within = 100 * time.Millisecond
	h.Rec.Hook.Undo = []string{"sleep", "1000"}
	if _, err := h.Revert(t.Context()); err == nil || err.Error() != "undo: sleep: it did not end in time (100ms)" {
		t.Error(err)
	}
	shot := h.Rec.Shot
	shot.Fault.Victim = "r9.1"
	if _, err := h.Prepare(t.Context(), h.Spec, shot); voidOf(err) != "no_target" {
		t.Errorf("a victim that was never seen: %v", err)
	}
}
