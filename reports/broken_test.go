package reports

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Each thing that went wrong has a sentence with its fault and its replica as their owner calls it, and a link to a picture of the page.
func TestWhatWentWrongHasASentenceEach(t *testing.T) {
	r := recorded(t, "fail")
	for i := range r.Lanes.Replicas {
		for k := range r.Lanes.Replicas[i].Lives {
			if l := &r.Lanes.Replicas[i].Lives[k]; l.Incarnation == "r3.1" || l.Incarnation == "r1.1" {
				l.Called = "pod-" + l.Incarnation
			}
		}
	}
	r.Judgement.Duplicates = slices.DeleteFunc(r.Judgement.Duplicates, func(d verdict.Duplicate) bool { return d.Job == "job-00014" }) // its write is a stale one now
	g, err := brokenTable(r)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	page := htmlOf(t, r)
	for _, row := range g.Rows {
		got = append(got, row.Cells[0].Text+": "+row.Cells[1].Text)
		if link := row.Cells[2].Link; !strings.Contains(page, fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" id=%q`, link[1:])) {
			t.Errorf("%s points at no picture", link)
		}
	}
	want := []string{
		"long takeover: Lock leader: kill-leader#1 struck r3.1 (pod-r3.1), and r2.1 took over after 12.5s (626ms real x 20); promised is takeover max <= 5s.",
		"duplicate: Job job-00009 was finished at T+10.6s by r1.1, 4.79s after its lease had ended (fault pause-worker#1), while r2.1 held the lock, and at T+11.5s by r2.1, which held the lock (stale).",
		"late write: Lock job: r1.1 (pod-r1.1) wrote done of job-00014 at T+10.6s without holding the lock, after pause-worker#1 had struck it.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if broken, at := strings.Index(page, `id="broken"`), strings.Index(page, `id="timeline"`); broken < 0 || broken > at {
		t.Errorf("the sentences stand at %d, the timeline at %d", broken, at)
	}
	if page := htmlOf(t, recorded(t, "pass-1")); strings.Contains(page, `id="broken"`) {
		t.Error("a run without a fault of its own says that something went wrong")
	}
}

// What may have been late, or may not, accuses nobody.
func TestAWriteThatMayBeLateHasNoSentence(t *testing.T) {
	r := recorded(t, "fail")
	r.Judgement.Duplicates = nil
	sure, err := staleWrites(r)
	if err != nil || len(sure) == 0 {
		t.Fatalf("%d writes, %v", len(sure), err)
	}
	for i := range r.Judgement.Overlap {
		r.Judgement.Overlap[i].Stale, r.Judgement.Overlap[i].Unowned, r.Judgement.Overlap[i].Lo = 0, 0, 0
	}
	if all, err := staleWrites(r); err != nil || len(all) > 0 {
		t.Errorf("%d writes are told of, %v", len(all), err)
	}
}

// A write of a replica that no fault struck says so: it is no consequence of the drill's.
func TestAStaleWriteOfNobodyStruck(t *testing.T) {
	r := recorded(t, "fail")
	e := &history.Event{Lock: "job", Entry: &history.Entry{Subject: "j", State: "done", Writer: "r2.1"}}
	e.To = 2e9
	if got := staleSentence(r.Judgement, e, r.Lanes, ownNames(r.Lanes)); got != "Lock job: r2.1 wrote done of j at T+2.0s without holding the lock; no fault had struck it" {
		t.Error(got)
	}
	// Of one that names no writer its token does, if one replica held the lock by it.
	r.Lanes.Locks = []timeline.LockLane{{Lock: "job", Keys: []timeline.KeyLane{{Key: "k", Holds: []timeline.Hold{{Epoch: "a", Replica: "r3.1"}, {Epoch: "b", Replica: "r1.1"}, {Epoch: "b", Replica: "r2.1"}}}}}}
	e.Entry.Writer, e.Key = "", "k"
	for epoch, by := range map[string]string{"a": "r3.1", "b": "nobody known", "c": "nobody known"} {
		e.Epoch = epoch
		if got := staleSentence(r.Judgement, e, r.Lanes, ownNames(r.Lanes)); !strings.Contains(got, "job: "+by+" wrote") {
			t.Errorf("%s: %s", epoch, got)
		}
	}
}

// Two replicas that say at once that they lead, for longer than was promised, have a sentence with their fault, and a bar in the picture.
func TestTwoLeadersHaveASentence(t *testing.T) {
	r := runIn(t, "../scenarios/testdata/believes-on")
	g, err := brokenTable(r)
	if err != nil || g == nil {
		t.Fatal(err)
	}
	want := "Lock leader: r1.1 and r2.1 both relied on lock leader from T+13.4s, for 2.398s; no fault had struck either."
	if got := g.Rows[0].Cells; got[0].Text != "two holders" || got[1].Text != want {
		t.Errorf("got %s: %s\nwant %s", got[0].Text, got[1].Text, want)
	}
	page := htmlOf(t, r)
	for _, want := range []string{"both relied on lock leader", "two replicas rely on the lock at once", "two rely on it"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	r = runIn(t, "../scenarios/testdata/believes-no-longer")
	if g, err := brokenTable(r); err != nil || g != nil || strings.Contains(htmlOf(t, r), "two replicas rely") {
		t.Errorf("one leader after the other is told of: %+v, %v", g, err)
	}
}

// What followed a fault of no replica, such as a fail-over, is told beside it: nobody is said to have been left alone.
func TestAFaultOfTheSystemIsNamed(t *testing.T) {
	struck := func(id, victim string, from float64) verdict.FaultResult {
		return verdict.FaultResult{ID: id, Shot: 1, Shots: 1, Victim: victim, Confirmed: true, Effective: &verdict.Window{From: from}}
	}
	j := &verdict.Judgement{Faults: []verdict.FaultResult{struck("failover", "", 5), struck("restart", "store", 9), struck("kill", "r2.1", 7)}}
	for by, want := range map[float64]string{
		4:  "; no fault had struck it",
		6:  "; no fault had struck it, and failover#1 had struck the system at T+5.0s",
		8:  "; no fault had struck it, and failover#1 had struck the system at T+5.0s",
		10: "; no fault had struck it, and restart#1 had struck the system at T+9.0s",
	} {
		if got := after(j, by, []string{"r1.1"}, []string{"it"}, "it"); got != want {
			t.Errorf("by %gs: %q, want %q", by, got, want)
		}
	}
	if got := after(j, 8, []string{"r1.1", "r2.1"}, []string{"a", "b"}, "either"); got != ", after kill#1 had struck b" {
		t.Errorf("of one that was struck: %q", got)
	}
}
