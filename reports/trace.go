package reports

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/reports/doc"
	"github.com/lockdrill/lockdrill/reports/timeline"
)

// Span is a stretch of a run as a trace has it. Its ends are seconds of the run: what is known as a bracket reaches from the first instant at
// which it may have begun to the last at which it may have ended.
type Span struct {
	Name     string
	From, To float64
	Labels   [][2]string        // words, in their order
	Figures  map[string]float64 // an end that is open is left out
	Moments  []Moment           // what happened within it
	Link     string             // traceparent of what another system said of it; "" = nothing
	Wrong    string             // why it did not go well; "" = it did
	Below    []Span
}

// Moment is one thing that happened within a span.
type Moment struct {
	Name string
	At   float64
}

// suiteStatus are the words that OpenTelemetry has for the end of a run of tests; another verdict stands there by its own word, so that nothing
// but a pass is a success.
var suiteStatus = map[string]string{"pass": "success", "slo-failed": "failure", "aborted": "aborted"}

// TraceOf is the run with its phases, its shots with the takeovers that came of them, and its promises by the names of JUnit.
func TraceOf(r Run) Span {
	j, end := r.Judgement, r.Judgement.Run.Seconds
	root := Span{Name: "run " + j.Run.Experiment, To: end, Labels: [][2]string{
		{"test.suite.name", j.Run.Experiment}, {"test.suite.run.status", cmp.Or(suiteStatus[j.Verdict], j.Verdict)},
		{"lockdrill.run", j.Run.ID}, {"lockdrill.verdict", j.Verdict}, {"lockdrill.mode", map[bool]string{true: "live", false: "rehearsal"}[j.Run.Live]},
	}}
	for _, key := range slices.Sorted(maps.Keys(j.Run.Labels)) {
		root.Labels = append(root.Labels, [2]string{"lockdrill.label." + key, j.Run.Labels[key]})
	}
	if j.Verdict != "pass" {
		root.Wrong = j.Verdict
	}
	for i, p := range r.Lanes.Phases {
		to := end
		if i+1 < len(r.Lanes.Phases) {
			to = r.Lanes.Phases[i+1].At
		}
		root.Below = append(root.Below, Span{Name: "phase " + p.Name, From: p.At, To: to})
	}
	shots := map[string]int{}
	for i := range r.Lanes.Faults {
		f := &r.Lanes.Faults[i]
		if s := shotSpan(f, end); s != nil {
			shots[f.Op], root.Below = len(root.Below), append(root.Below, *s)
		}
	}
	for i := range r.Lanes.Trials {
		t := &r.Lanes.Trials[i]
		to := &root.Below
		if at, known := shots[t.Fault]; known {
			to = &root.Below[at].Below
		}
		*to = append(*to, takeoverSpan(t, end))
	}
	for _, c := range numbered(j) {
		name, status, wrong := c.Classname+" "+c.Name, "pass", ""
		switch {
		case c.Failure != nil:
			status, wrong = "fail", c.Failure.Message
		case c.Error != nil:
			status, wrong = "inconclusive", c.Error.Message
		}
		root.Below = append(root.Below, Span{Name: "promise " + c.Name, To: end, Wrong: wrong, Labels: [][2]string{{"test.case.name", name}, {"test.case.result.status", status}}})
	}
	return root
}

// shotSpan is nil where the shot was never applied.
func shotSpan(f *timeline.FaultLane, end float64) *Span {
	if f.Applied == nil {
		return nil
	}
	s := &Span{Name: "fault " + f.ID, From: f.Applied.From, To: min(end, f.Over.To), Labels: [][2]string{{"lockdrill.fault", f.Op}, {"lockdrill.fault.kind", f.Kind},
		{"lockdrill.victim", f.Victim}, {"lockdrill.lock", f.Lock}, {"lockdrill.key", f.Key}}}
	if !f.Confirmed {
		s.Wrong = cmp.Or(f.Why, "not confirmed")
	}
	return s
}

func takeoverSpan(t *timeline.TrialLane, end float64) Span {
	s := Span{Name: "takeover " + t.Lock, From: t.Clock.From, To: end, Link: t.Trace, Figures: map[string]float64{}, Labels: [][2]string{{"lockdrill.fault", t.Fault}, {"lockdrill.lock", t.Lock},
		{"lockdrill.key", t.Key}, {"lockdrill.class", t.Class}, {"lockdrill.victim", t.Victim}, {"lockdrill.successor", t.Successor}, {"lockdrill.ended_by", t.End}}}
	if t.Ended != nil {
		s.To = min(end, t.Ended.To)
	} else {
		s.Wrong = "its end was not seen"
	}
	figure := func(name string, r *verdict.Range) {
		if r == nil {
			return
		}
		s.Figures[name+".lo"] = r.Lo
		if r.Hi != nil {
			s.Figures[name+".hi"] = *r.Hi
		}
	}
	figure("lockdrill.takeover.seconds", total(t.Takeover))
	for i, name := range []string{"left_of_the_lease", "pickup", "warm_up"} {
		figure("lockdrill.takeover."+name+".seconds", partOf(i)(t.Takeover))
	}
	moment := func(name string, at timeline.Moment) {
		if !at.Open() {
			s.Moments = append(s.Moments, Moment{name, math.Max(s.From, at.To)})
		}
	}
	moment("lease ended", t.Held.End)
	if t.Next != nil {
		moment("granted to "+cmp.Or(doc.Clean(t.Next.Replica), "somebody"), t.Next.Granted)
	}
	return s
}
