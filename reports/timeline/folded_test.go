package timeline

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/sweep"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// What lies too close to another to be told apart is counted in the picture; what the table counts anyway is not.
func TestWhatIsDrawnAsOneIsCounted(t *testing.T) {
	at := func(s float64) Moment { return Moment{From: s, To: s} }
	l := &Lanes{Seconds: 1000, TimeScale: 1, Locks: []LockLane{{Lock: "job", Keys: []KeyLane{{Key: "job"}}}}, Replicas: []ReplicaLane{{Name: "r1"}}}
	for range 3 {
		l.Locks[0].Again = append(l.Locks[0].Again, Mark{What: "duplicate", Key: "job", At: at(500)})
		l.Replicas[0].Lives = append(l.Replicas[0].Lives, Life{Incarnation: "r1.1", Extent: Extent{Start: at(1), End: at(900)}, Effects: []Moment{at(10)}})
	}
	l.Replicas[0].Lives = l.Replicas[0].Lives[:1]
	p := Overview(l)
	check(t, []Picture{p})
	if want := "Drawn as one with a neighbour of its kind, for want of room: 2 marks."; !strings.Contains(p.SVG, want) {
		t.Errorf("three duplicates at one instant, and no %q", want)
	}
	l.Locks[0].Again = l.Locks[0].Again[:1]
	l.Replicas[0].Lives[0].Effects = []Moment{at(10), at(10)}
	if p := Overview(l); strings.Contains(p.SVG, "Drawn as one") {
		t.Error("effects, which the table counts, are counted in the picture")
	}
}

// A life that a kill ended unseen is drawn no longer than it was surely lived.
func TestAnUnseenEndIsNotDrawnAsLife(t *testing.T) {
	at := func(s float64) Moment { return Moment{From: s, To: s} }
	life := Life{Incarnation: "r1.1", Extent: Extent{Start: at(0), End: Moment{From: 500, To: math.Inf(1)}}, Killed: "kill#1"}
	p := Overview(&Lanes{Seconds: 1000, TimeScale: 1, Replicas: []ReplicaLane{{Name: "r1", Lives: []Life{life}}}})
	if until := "H" + num((left+right)/2) + "V"; !strings.Contains(p.SVG, until) || !strings.Contains(p.Legend, "its last sign of life") {
		t.Errorf("the life does not end at %s with its last sign", until)
	}
}

// A takeover whose effects nobody sees ends with a mark of its own.
func TestAGrantIsNoFirstEffect(t *testing.T) {
	for dir, want := range map[string]string{"good-drill": "first effect", "pods-observed-lease": "next grant: its effects are not seen"} {
		r := load(t, filepath.Join(recorded, dir))
		for _, p := range append(Trials(r.l), Overview(r.l)) {
			for _, mark := range []string{"> first effect<", "> next grant: its effects are not seen<"} {
				if strings.Contains(p.Legend, mark) != (mark == "> "+want+"<") {
					t.Errorf("%s: the legend of %s has, or lacks, %q", dir, p.ID, mark)
				}
			}
		}
		if p := Takeovers(r.e, r.j)[0]; strings.Contains(p.SVG, "or its grant where effects are not seen") != (dir == "pods-observed-lease") {
			t.Errorf("%s: the axis is not of what was measured", dir)
		}
	}
}

// Of more runs than fit, the earliest are left out and counted, and no name lies over another.
func TestTheEarliestOfManyRunsAreCounted(t *testing.T) {
	e := &compare.ArchivedExperiment{Rows: []compare.ArchivedRow{{Lock: "job", Measure: "takeover.max", Unit: verdict.UnitSeconds}}}
	for i := range maxRanges + 7 {
		hi := float64(i)
		e.Runs = append(e.Runs, compare.ArchivedRun{Started: fmt.Sprintf("2026-01-01T%02d:%02d:00Z", i/60, i%60)})
		e.Rows[0].Values = append(e.Rows[0].Values, compare.ArchivedValue{Run: i, N: 1, Hi: &hi, Limit: 30, Verdict: verdict.Pass})
	}
	ps, _ := Archive(e, "x")
	check(t, ps)
	if !strings.Contains(ps[0].SVG, "7 earlier runs left out: see the table") || len(ps[0].Rows) != len(e.Runs) {
		t.Errorf("7 are left out of %d rows, and the picture does not say so", len(ps[0].Rows))
	}
	if strings.Contains(ps[0].SVG, ">2026-01-01 00:00") || !strings.Contains(ps[0].SVG, ">2026-01-01 06:") {
		t.Error("the runs that are drawn are not the latest")
	}
	if n := strings.Count(ps[0].SVG, ">2026-01-01 "); n < 20 {
		t.Errorf("%d runs are named", n)
	}
}

// Effects under no lock are no lock that is held, and a lock that nobody held has one lane.
func TestNobodyHoldsWhatComesAboutUnderNoLock(t *testing.T) {
	r := load(t, filepath.Join(recorded, "effects-read"))
	if p := Overview(r.l); strings.Contains(p.SVG, "never held") {
		t.Error("a lock that was held is said to be none")
	}
	e, h := testkit.Run(t, filepath.Join(recorded, "effects-read"))
	e.System.Locks, e.System.Effects[0].Lock, e.System.Effects[0].Name = nil, "", "job"
	p := Overview(judged(e, h).l)
	check(t, []Picture{p})
	if !strings.Contains(p.SVG, ">effects, no lock<") || !strings.Contains(p.Desc, "over 0 locks, 0 keys") || strings.Contains(p.Legend, "held by") {
		t.Errorf("effects alone are drawn as a lock:\n%s", p.Legend)
	}
	for _, row := range p.Rows {
		if row[1] == "granted" {
			t.Errorf("a grant of no lock: %q", row)
		}
	}
}

// A row that was kept at 0 at every value of a dial is named, and has no picture.
func TestASweepsLevelRowsHaveNoPicture(t *testing.T) {
	step := func(hi float64, v verdict.Verdict) sweep.Step {
		zero := 0.0
		row := func(measure string, hi float64, v verdict.Verdict) sweep.Row {
			return sweep.Row{Lock: "job", Measure: measure, Unit: verdict.UnitCount, Lo: &zero, Hi: &hi, Verdict: v}
		}
		return sweep.Step{Value: 1, Rows: []sweep.Row{row("stranded", 0, verdict.Pass), row("abandonments", hi, verdict.Pass), row("re_executed", 0, v)}}
	}
	ps, level := Sweep(&sweep.Document{Dial: "rate", Steps: []sweep.Step{step(0, verdict.Pass), step(2, verdict.Inconclusive)}}, number)
	check(t, ps)
	if len(ps) != 2 || !slices.Equal(level, []string{"stranded of lock job"}) {
		t.Errorf("%d pictures, and %q", len(ps), level)
	}
}

// A label that has room upon a bar alone lies on a ground of its own, above the bar.
func TestALabelUponABarHasAGround(t *testing.T) {
	at := Moment{From: 0, To: 0}
	f := FaultLane{Op: "slow#1", Applied: &at, Over: Moment{From: 10, To: 10}, FaultResult: verdict.FaultResult{ID: "slow", Configured: "+400ms", Effective: &verdict.Window{From: 0}}}
	p := Overview(&Lanes{Seconds: 10, TimeScale: 1, Faults: []FaultLane{f}})
	check(t, []Picture{p})
	ground, bar := strings.Index(p.SVG, `class="ld-ground"`), strings.Index(p.SVG, `class="ld-effective"`)
	if ground < bar || bar < 0 || !strings.Contains(p.SVG, ">+400ms<") {
		t.Errorf("the ground is drawn at byte %d, the bar at %d", ground, bar)
	}
}

// What was not seen to end is not said to be ended by anything.
func TestACensoredTakeoverEndsWithNothing(t *testing.T) {
	r := load(t, filepath.Join(recorded, "failover-granted-twice"))
	for _, p := range append(Trials(r.l), Takeovers(r.e, r.j)...) {
		said := p.Desc + fmt.Sprint(p.Rows)
		if strings.Contains(said, "censored") || !strings.Contains(said, "nothing that was seen") && !strings.Contains(said, "not seen by") {
			t.Errorf("%s: %s", p.ID, said)
		}
	}
}
