package selftest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/mutants"
)

// The whole table, in virtual time.
func TestEveryAnimalIsFoundOutAndNoControlIsAccused(t *testing.T) {
	results, err := Run(context.Background(), Matrix(), Rehearsed{Seeds: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Outcome != Right {
			t.Errorf("%s: %s, %s: want %s %s; saw %s (%s)", r.Outcome, r.Animal, r.Fault, r.Measure, r.Expected, r.Seen, r.Evidence)
		}
	}
}

// What a mutant departs from passes by itself: rows that nobody answers would be no witnesses.
func TestWhatASystemTellsOfItselfIsAnswered(t *testing.T) {
	c := Case{Class: critical, Scene: oneTold}
	e, err := c.Experiment()
	if err != nil {
		t.Fatal(err)
	}
	js, err := Rehearsed{Seeds: 1}.Play(t.Context(), &c, e)
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for i := range js[0].SLOs {
		s := &js[0].SLOs[i]
		if name, _, _ := strings.Cut(s.Measure, "."); name != "metric" && name != "logs" && name != "alert" {
			continue
		}
		answered++
		if s.Lo != 0 || s.Hi == nil || *s.Hi != 0 {
			t.Errorf("%s: %+v", s.Measure, s)
		}
	}
	if answered != 3 {
		t.Errorf("%d rows of a metric, a log and an alert", answered)
	}
}

// A mutant that turns red what does not follow from its mistake is no witness for the measure.
func TestAMutantIsAccusedOfNothingElse(t *testing.T) {
	i := slices.IndexFunc(animals(), func(c Case) bool { return c.Animal == "orphans" })
	c := animals()[i]
	for _, follow := range [][]string{c.follow, {c.Flag}} { // the debt that follows from an orphan
		c.follow = follow
		rs, err := Run(t.Context(), []Case{c}, Rehearsed{Seeds: 1}, nil)
		if want := map[int]Outcome{2: Right, 1: Accused}[len(follow)]; err != nil || rs[0].Outcome != want {
			t.Errorf("%q may be red: %+v, %v, want %s", follow, rs, err, want)
		}
	}
}

// A late machine leaves a row open: that is no word about the judge. A row that passes is.
func TestAMeasureThatWasNotAnsweredShowsNothing(t *testing.T) {
	for was, want := range map[verdict.Verdict]Outcome{verdict.Inconclusive: Void, verdict.Pass: Silent, verdict.Fail: Right} {
		j := &verdict.Judgement{Faults: []verdict.FaultResult{{ID: "kill", Confirmed: true}}, SLOs: []verdict.SLOResult{{Measure: "takeover.max", Verdict: was}}}
		r := Result{Measure: "takeover.max"}
		if r.animal([]*verdict.Judgement{j}); r.Outcome != want {
			t.Errorf("%s: %s (%s), want %s", was, r.Outcome, r.Seen, want)
		}
	}
}

// late plays a drill on a machine that is late the first times.
type late struct {
	by    float64
	times int
	red   string
	plays int
}

func (l *late) Play(context.Context, *Case, *experiments.Experiment) ([]*verdict.Judgement, error) {
	j := &verdict.Judgement{Faults: []verdict.FaultResult{{ID: "pause", Confirmed: true}}}
	if l.plays++; l.plays <= l.times {
		j.Machine = &verdict.LateMachine{Worst: l.by}
	}
	for row := range strings.FieldsSeq(l.red) {
		j.SLOs = append(j.SLOs, verdict.SLOResult{Measure: row, Verdict: verdict.Fail})
	}
	return []*verdict.Judgement{j}, nil
}

// What a late machine does to any lock accuses no control, and an animal that it hides was not missed; such a case is played again. A
// control is accused of what no lateness does, and of everything where a call had the time it needs.
func TestALateMachineShowsNothing(t *testing.T) {
	const call = 0.1 // seconds, at this time scale
	control, animal := Case{Class: critical, Scene: paused}, Case{Animal: "unfenced-storage", Class: critical, Scene: paused, Flag: "stale_writes"}
	for _, c := range []struct {
		of    Case
		late  late
		want  Outcome
		plays int
	}{
		{control, late{by: call, times: 9, red: "takeover.max lock_debt.max"}, Void, liveTries},
		{control, late{by: call, times: 1, red: "takeover.max"}, Accused, 2},
		{control, late{by: call * 0.9, times: 9, red: "takeover.max"}, Accused, 1},
		{control, late{by: call, times: 9, red: "takeover.max overlap.work"}, Accused, 1},
		{control, late{by: call, times: 9}, Right, 1},
		{animal, late{by: call, times: 9}, Void, liveTries},
		{animal, late{by: call, times: 1}, Silent, 2},
		{animal, late{by: call, times: 9, red: "stale_writes"}, Right, 1},
	} {
		rs, err := Run(t.Context(), []Case{c.of}, &c.late, nil)
		if err != nil || rs[0].Outcome != c.want || c.late.plays != c.plays {
			t.Errorf("%s, %+v: %+v, %v, want %s after %d", c.of.Name(), c.late, rs, err, c.want, c.plays)
		}
	}
}

// A measure that the fault turns red in any lock would show nothing of the animal.
func TestNoAnimalIsFoundOutByWhatItsFaultDoesToAnyLock(t *testing.T) {
	for _, c := range animals() {
		e, err := c.Experiment()
		if err != nil {
			t.Fatal(err)
		}
		if excused(c.Excused(e), c.Flag) {
			t.Errorf("%s: %s turns %s red in any lock", c.Animal, c.Scene.Name, c.Flag)
		}
	}
}

func TestEveryMutantHasACase(t *testing.T) {
	named := map[string]bool{}
	for _, c := range animals() {
		if _, known := mutants.Find(c.Animal); !known {
			t.Errorf("no animal is called %s", c.Animal)
		}
		if len(c.Scene.Faults) == 0 {
			t.Errorf("%s: there is no scene %q", c.Animal, c.Scene.Name)
		}
		named[c.Animal] = true
	}
	for _, name := range mutants.Names() {
		if !named[name] {
			t.Errorf("%s has no case", name)
		}
	}
}

// The table of docs/selftest.md is the matrix.
func TestTheDocumentHasTheTable(t *testing.T) {
	const path = "../../docs/selftest.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const head, tail = "|animal|its mistake|measure|\n|---|---|---|\n", "\n## Add an animal"
	before, rest, found := strings.Cut(string(doc), head)
	_, after, closed := strings.Cut(rest, tail)
	if !found || !closed {
		t.Fatalf("%s has no table", path)
	}
	var b strings.Builder
	all := animals()
	for i := 0; i < len(all); {
		c, flags := all[i], "`"+all[i].Flag+"`"
		for i++; i < len(all) && all[i].Animal == c.Animal; i++ {
			flags += ", `" + all[i].Flag + "`"
		}
		a, _ := mutants.Find(c.Animal)
		fmt.Fprintf(&b, "|`%s`|%s|%s|\n", a.Name, a.Does, flags)
	}
	want := before + head + b.String() + tail + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(doc) != want {
		t.Errorf("%s: its table is not the matrix: go test ./drill/selftest -update", path)
	}
}

var update = flag.Bool("update", false, "write the table of docs/selftest.md")
