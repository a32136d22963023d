package reports

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A trace has what the verdict has: each promise by JUnit's name with its word, each phase, each shot that was applied, and each takeover below its
// shot, as long as it may have been at most. Nothing lies outside the run, and only a pass is a success.
func TestATraceHasWhatTheVerdictHas(t *testing.T) {
	for name, suite := range map[string]string{"pass-6": "success", "fail": "failure", "inconclusive": "inconclusive", "aborted": "aborted", "dirty": "dirty", "hostile": ""} {
		e, h := testkit.Run(t, filepath.Join("testdata", "recorded", name))
		r := runOf(e, h)
		j := r.Judgement
		for i := range r.Lanes.Trials {
			r.Lanes.Trials[i].Trace = "of " + r.Lanes.Trials[i].Key
		}
		root := TraceOf(r)
		status := words(root)["test.suite.run.status"]
		if suite != "" && status != suite || (status == "success") != (j.ExitCode == 0) || (root.Wrong == "") != (j.ExitCode == 0) {
			t.Errorf("%s: status %q (%q), verdict %s", name, status, root.Wrong, j.Verdict)
		}
		cases, phases, shots, takeovers := map[string]string{}, 0, 0, 0
		var walk func(s Span, above Span)
		walk = func(s, above Span) {
			if s.From < 0 || s.To > root.To || s.To < s.From {
				t.Errorf("%s: %s from %g to %g, in a run of %g", name, s.Name, s.From, s.To, root.To)
			}
			for _, m := range s.Moments {
				if m.At < s.From {
					t.Errorf("%s: %s before %s begins", name, m.Name, s.Name)
				}
			}
			of := words(s)
			switch kind, _, _ := strings.Cut(s.Name, " "); kind {
			case "phase":
				phases++
			case "fault":
				shots++
			case "promise":
				cases[of["test.case.name"]] = of["test.case.result.status"]
			case "takeover":
				k := &r.Lanes.Trials[takeoverOf(t, r, s)]
				if k.Hi != nil && math.Abs(s.To-s.From-*k.Hi) > 1e-6 || (k.Fault != "") != (above.Name != root.Name) || above.Name != root.Name && words(above)["lockdrill.fault"] != k.Fault {
					t.Errorf("%s: %s of %v from %g to %g below %s, judged %+v", name, s.Name, of, s.From, s.To, above.Name, k.Takeover)
				}
				for _, f := range []struct {
					name string
					is   bool
				}{{"lockdrill.takeover.seconds.hi", k.Hi != nil}, {"lockdrill.takeover.pickup.seconds.lo", k.Pickup != nil}, {"lockdrill.takeover.warm_up.seconds.hi", k.Warmup != nil}} {
					if _, there := s.Figures[f.name]; there != f.is {
						t.Errorf("%s: %s of %s: %v", name, f.name, k.Key, there)
					}
				}
				if s.Link != "of "+k.Key {
					t.Errorf("%s: takeover of %s with a link to %q", name, k.Key, s.Link)
				}
				takeovers++
			}
			for _, b := range s.Below {
				walk(b, s)
			}
		}
		walk(root, Span{})
		applied := 0
		for i := range h.Events {
			if h.Events[i].Kind == history.FaultApplied {
				applied++
			}
		}
		if phases != len(r.Lanes.Phases) || phases == 0 || shots != applied || takeovers != len(j.Takeovers) || len(cases) != len(j.Rows()) {
			t.Errorf("%s: %d phases, %d shots of %d, %d takeovers of %d, %d promises of %d", name, phases, shots, applied, takeovers, len(j.Takeovers), len(cases), len(j.Rows()))
		}
		for i, c := range numbered(j) {
			if got, want := cases[c.Classname+" "+c.Name], map[string]string{"pass": "pass", "fail": "fail", "inconclusive": "inconclusive"}[string(j.Rows()[i].Verdict)]; got != want {
				t.Errorf("%s: %s %s is %q, want %q", name, c.Classname, c.Name, got, want)
			}
		}
	}
}

func words(s Span) map[string]string {
	of := map[string]string{}
	for _, l := range s.Labels {
		of[l[0]] = l[1]
	}
	return of
}

// takeoverOf is the trial that a span is of.
func takeoverOf(t *testing.T, r Run, s Span) int {
	t.Helper()
	of := words(s)
	for i := range r.Lanes.Trials {
		if k := &r.Lanes.Trials[i]; k.Fault == of["lockdrill.fault"] && k.Key == of["lockdrill.key"] && k.Victim == of["lockdrill.victim"] && k.Clock.From == s.From {
			return i
		}
	}
	t.Fatalf("nothing was judged of %v", of)
	return 0
}
