package rehearsal

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/scenarios"
)

// subjectsEnv asks for a hundred seeds of each healthy scenario, and twenty of each mutant.
const subjectsEnv = "LOCKDRILL_SUBJECTS"

// subject is a scenario and what it must not take for its own subject.
type subject struct {
	Scenario string
	Unfit    string // why it cannot be rehearsed; "" = it can
	Mutants  []mutated
}

// mutated is a scenario whose text is changed in one thing.
type mutated struct {
	Says          string
	Replace, With string
	Live          bool // run live by make subjects
}

func subjectsOf(t *testing.T) []subject {
	t.Helper()
	data, err := os.ReadFile("../../scenarios/testdata/mutants.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []subject
	if err := yaml.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Every shipped scenario is green as it is, and never with something else than its own subject: another class, one more tolerated failure,
// no second try, a wait ten times as long, a fault that is too short.
func TestNoScenarioIsGreenWithAMutantOfItsSubject(t *testing.T) {
	healthy, mutants := 3, 2
	if os.Getenv(subjectsEnv) != "" {
		healthy, mutants = 100, 20
	}
	known := map[string]bool{}
	for _, s := range subjectsOf(t) {
		known[s.Scenario] = true
		t.Run(s.Scenario, func(t *testing.T) {
			t.Parallel()
			data, ok := scenarios.Get(s.Scenario)
			if !ok {
				t.Fatal("no such scenario")
			}
			if s.Unfit != "" {
				t.Skip("NOT REHEARSED: " + s.Unfit)
			}
			info := scenarios.List()[slices.IndexFunc(scenarios.List(), func(i scenarios.Info) bool { return i.Name == s.Scenario })]
			rehearsed(t, string(data), healthy, func(seed int, j *verdict.Judgement) {
				if j.ExitCode != info.Expect {
					t.Errorf("healthy, seed %d: exit status %d, want %d: %s", seed, j.ExitCode, info.Expect, unmet(j))
				}
			})
			if len(s.Mutants) == 0 && s.Unfit == "" {
				t.Error("no mutants")
			}
			for _, m := range s.Mutants {
				if strings.Count(string(data), m.Replace) == 0 {
					t.Errorf("%s: %q is not in the file", m.Says, m.Replace)
					continue
				}
				rehearsed(t, strings.ReplaceAll(string(data), m.Replace, m.With), mutants, func(seed int, j *verdict.Judgement) {
					provoked := !slices.ContainsFunc(j.Expected, func(s verdict.SLOResult) bool { return s.Verdict != verdict.Pass })
					if j.ExitCode == verdict.ExitPass || info.Expect == verdict.ExitSLOFailed && j.ExitCode == info.Expect && provoked { // as it was to fail
						t.Errorf("%s, seed %d: green", m.Says, seed)
					}
					if os.Getenv(subjectsEnv) == "show" {
						t.Logf("%s, seed %d: %d %s", m.Says, seed, j.ExitCode, unmet(j))
					}
				})
			}
		})
	}
	for _, info := range scenarios.List() {
		if !known[info.Name] {
			t.Errorf("scenario %s has no mutants", info.Name)
		}
	}
}

// rehearsed judges rehearsals as if they had been live. Metrics are not rehearsed, so promises about them are left out.
func rehearsed(t *testing.T, text string, seeds int, then func(seed int, j *verdict.Judgement)) {
	t.Helper()
	e, err := experiments.Parse("x.yaml", []byte(text))
	if err != nil {
		t.Error(err)
		return
	}
	e.SLOs = slices.DeleteFunc(e.SLOs, func(s experiments.SLO) bool { return s.Metric != nil })
	e = RealTime(e)
	r := New(e, sim.DefaultNet())
	for seed := 1; seed <= seeds; seed++ {
		d, err := r.Run(context.Background(), int64(seed))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		then(seed, analysis.FactsOf(e, d.History).AsLive().Judge())
	}
}

// unmet are the rows that did not pass.
func unmet(j *verdict.Judgement) string {
	var rows []string
	for _, s := range j.Rows() {
		if s.Verdict != verdict.Pass {
			rows = append(rows, fmt.Sprintf("%s %s: %s, %s", s.Lock, s.Name(), s.Verdict, s.Why))
		}
	}
	return strings.Join(rows, " | ")
}

// A stale tick that the resource of an unfenced loop accepts is no contradiction of the ledger: it is counted.
func TestAStaleTickOfAnUnfencedLoopIsCounted(t *testing.T) {
	data, ok := scenarios.Get("published-loop-pause")
	if !ok {
		t.Fatal("the scenario is gone")
	}
	rehearsed(t, string(data), 3, func(seed int, j *verdict.Judgement) {
		if len(j.Findings) > 0 {
			t.Errorf("seed %d: %v", seed, j.Findings)
		}
		for _, s := range j.SLOs {
			if stale := s.Lo >= 1; stale != (s.Lock == "published") {
				t.Errorf("seed %d: %s %s is at least %g", seed, s.Lock, s.Measure, s.Lo)
			}
		}
	})
}
