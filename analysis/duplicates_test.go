package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// finishedTwice plays a job that r1.1 and r2.1 both finish: r1.1 has it from 10, and its lease of 60 s is over at 70 where a pause from 20
// to 80 keeps it from giving the job up; r2.1 has it from 75 on.
func finishedTwice(t *testing.T, paused bool, first, second float64) *verdict.Judgement {
	t.Helper()
	tp := newTape("a job is finished twice")
	tp.start(0.1, "r1.1", "r2.1")
	tp.phase(0.2, history.PhaseSteady)
	tp.phase(5, history.PhaseFaults)
	tp.offer(9.9, jobs(1), "j1", "r1.1")
	tp.grant(10, "r1.1", jobs(1), "a1", 11)
	tp.begin(10.002, "a1", "j1")
	if paused {
		tp.shot("freeze#1", "pause", "", "r1.1")
		tp.fault(20, 20+ms, history.FaultApplied, "freeze#1", "a1")
		tp.fault(20, 20+2*ms, history.FaultConfirmed, "freeze#1", "a1")
		tp.fault(80, 80+ms, history.FaultReverted, "freeze#1", "a1")
		tp.fault(80, 80+2*ms, history.FaultVerified, "freeze#1", "a1")
	}
	tp.write(first, "a1", "j1", "succeeded", "")
	tp.exit(first+5*ms, "a1", "j1", history.AckDone)
	tp.grant(75, "r2.1", jobs(1), "b1", 12)
	tp.begin(75.002, "b1", "j1")
	tp.finish(second, "b1", "j1")
	tp.finale(100, 190, "r1.1", "r2.1")
	e, _ := load(t, "pause-90s-unfenced")
	return Judge(e, tp.history(t))
}

// The late write of a paused holder is stale whether it came second or first: what kept it from being stopped is the same. Who wrote, under
// which lease and after which fault is told; a value of the key never is.
func TestTheCauseOfADuplicateIsToldFromBothWrites(t *testing.T) {
	for _, c := range []struct {
		name          string
		paused        bool
		first, second float64
		kind, text    string
	}{
		{"the late write came first", true, 80.01, 90, "stale",
			"Job j1 was finished at T+80.0s by r1.1, 10s after its lease had ended (fault freeze#1), while r2.1 held the lock, and at T+90.0s by r2.1, which held the lock (stale)"},
		{"the late write came second", true, 80.01, 78, "stale", "by r1.1, 10s after its lease had ended (fault freeze#1)"},
		{"both held the lock", false, 60, 90, "repeated", "by r1.1, which held the lock, and at T+90.0s by r2.1, which held the lock (repeated)"},
	} {
		j := finishedTwice(t, c.paused, c.first, c.second)
		if len(j.Duplicates) != 1 {
			t.Fatalf("%s: %+v", c.name, j.Duplicates)
		}
		d, why := j.Duplicates[0], row(t, j, "job", "duplicate_terminal_states").Why
		if strings.Join(d.Kinds, " ") != c.kind || !strings.Contains(why, c.text) || strings.Contains(why, "a1") || strings.Contains(why, "b1") {
			t.Errorf("%s: %v, %s", c.name, d.Kinds, why)
		}
	}
}
