package timeline

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// What is drawn is what was judged: the lanes' trials are the judgement's takeovers, and their instants give the same figures.
func TestLanesAgreeWithTheJudgement(t *testing.T) {
	for _, dir := range recordedDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			r := load(t, dir)
			l, j := r.l, r.j
			if len(l.Trials) != len(j.Takeovers) || len(l.Faults) != len(j.Faults) {
				t.Fatalf("%d trials and %d faults are drawn of %d and %d", len(l.Trials), len(l.Faults), len(j.Takeovers), len(j.Faults))
			}
			for i := range l.Faults {
				if !reflect.DeepEqual(l.Faults[i].FaultResult, j.Faults[i]) {
					t.Errorf("fault %d is drawn as %+v, and judged as %+v", i, l.Faults[i].FaultResult, j.Faults[i])
				}
			}
			if n := marks(l, "stale"); n != j.Counts.StaleApplied {
				t.Errorf("%d effects are drawn as those of a superseded owner, of %d", n, j.Counts.StaleApplied)
			}
			for i := range l.Trials {
				agree(t, &l.Trials[i], &j.Takeovers[i])
			}
		})
	}
}

// The end of a pod's process is drawn where it was seen, not halfway between it and the call.
func TestAPodsFaultIsDrawnUntilItsProcessEnded(t *testing.T) {
	l := load(t, filepath.Join(recorded, "pods-force-delete-overlap")).l
	if over := l.Faults[0].Over; over.From < 13.05 || over.To > 13.13 {
		t.Errorf("over at %+v: its last sign of life was at 13.06s, its end was seen by 13.12s", over)
	}
}

// Of two tokens whose order nobody saw, neither writer is drawn as superseded.
func TestAWriteThatMayHaveComeInTimeIsNotDrawnAsLate(t *testing.T) {
	dir := filepath.Join(recorded, "effects-read")
	text, err := os.ReadFile(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Entry != nil && !e.Entry.Terminal })
	other, entry := h.Events[at], *h.Events[at].Entry
	other.Epoch, other.Op, entry.Writer, other.Entry = "never-seen", "never-seen", "r2.1", &entry
	h.Events = slices.Insert(h.Events, at, other)
	pos := int64(0)
	for i := range h.Events {
		if h.Events[i].N = int64(i + 1); h.Events[i].Entry != nil {
			pos++
			h.Events[i].Entry.Pos = pos
		}
	}
	r := judged(load(t, dir).e, h)
	if n := marks(r.l, "stale"); n > 0 || r.j.Counts.StaleApplied > 0 {
		t.Errorf("%d are drawn, %d counted", n, r.j.Counts.StaleApplied)
	}
}

// marks counts what went wrong under all keys.
func marks(l *Lanes, what string) (n int) {
	for i := range l.Locks {
		for _, m := range l.Locks[i].Again {
			if m.What == what {
				n++
			}
		}
	}
	return n
}

func agree(t *testing.T, lane *TrialLane, want *verdict.Takeover) {
	t.Helper()
	if !reflect.DeepEqual(&lane.Takeover, want) {
		t.Errorf("drawn as %+v, judged as %+v", lane.Takeover, *want)
	}
	if lane.Fault == "" {
		return
	}
	same := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-8 {
			t.Errorf("takeover %d: %s is drawn as %.9fs, judged as %.9fs", lane.Number, what, got, want)
		}
	}
	whole := want.Whole()
	span := func(what string, a, b Moment, r *verdict.Range) {
		t.Helper()
		if r == nil {
			return
		}
		most := math.Inf(1) // no part is longer than the whole, whatever the brackets of its ends allow
		if whole.Hi != nil {
			most = *whole.Hi
		}
		same(what+" (lo)", min(most, max(0, b.From-a.To)), r.Lo)
		if r.Hi != nil {
			same(what+" (hi)", min(most, max(0, b.To-a.From)), *r.Hi)
		}
	}
	if lane.Ended == nil {
		if !want.Censored {
			t.Errorf("takeover %d has no end and is not censored", lane.Number)
		}
		same("takeover (lo)", max(0, lane.Until-lane.Clock.To), want.Lo)
		return
	}
	span("takeover", lane.Clock, *lane.Ended, &whole)
	span("residual", lane.Clock, lane.Held.End, want.Residual)
	if lane.Next != nil { // an earlier grant may have been missed: where that is so, the judge allows more
		end, granted := lane.Held.End, lane.Next.Granted
		end.From, end.To = max(end.From, lane.Clock.From), max(end.To, lane.Clock.To)
		if r := want.Pickup; r != nil {
			earlier := *r
			earlier.Lo = max(r.Lo, min(*whole.Hi, max(0, granted.From-end.To)))
			span("pickup", end, granted, &earlier)
		}
		if r := want.Warmup; r != nil {
			later := min(*r.Hi, min(*whole.Hi, max(0, lane.Ended.To-granted.From)))
			span("warm-up", granted, *lane.Ended, &verdict.Range{Lo: r.Lo, Hi: &later})
		}
	}
}
