package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// points are values that are known exactly.
func points(xs ...float64) []verdict.Range {
	var rs []verdict.Range
	for _, x := range xs {
		rs = append(rs, verdict.Range{Lo: x, Hi: &x})
	}
	return rs
}

func between2(lo, hi float64) verdict.Range { return verdict.Range{Lo: lo, Hi: &hi} }

// observed is a run that passed, with the given rows.
func observed(id string, samples ...verdict.Sample) *Observed {
	var rows []Row
	for _, s := range samples {
		rows = append(rows, Row{Sample: s, Verdict: verdict.Pass})
	}
	return &Observed{
		Run: ComparedRun{ID: id, Started: "2026-01-01T00:00:" + id + "Z", Verdict: "pass", Answered: true, Used: true}, Experiment: "drill", Rows: rows,
		Failures:    []Failures{{"duplicate terminal states", 0}, {"stranded jobs", 0}},
		Environment: []experiments.Setting{{Path: "mode", Value: "live"}, {Path: "tool", Value: "v1"}, {Path: "system.locks.job.policy.ttl", Value: "60s"}},
	}
}

func takeovers(values ...verdict.Range) verdict.Sample {
	return verdict.Sample{Question: &experiments.Limit{Lock: "job", Measure: "takeover", Trials: true}, Unit: "s", Of: "kill", Values: values}
}

func counted(measure string, n float64) verdict.Sample {
	return verdict.Sample{Question: &experiments.Limit{Lock: "job", Measure: measure}, Unit: "count", Of: verdict.OfRun, Values: points(n)}
}

// side is n runs that f makes.
func side(name string, n int, f func(i int) []verdict.Sample) []*Observed {
	var runs []*Observed
	for i := range n {
		runs = append(runs, observed(fmt.Sprintf("%s%d", name, i), f(i)...))
	}
	return runs
}

var usual = CompareOptions{Alpha: 0.05, Tolerance: 0.1}

func compared(t *testing.T, base, head []*Observed, o CompareOptions) *Comparison {
	t.Helper()
	c, err := Compare(base, head, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func word(c *Comparison, measure string) Word {
	for _, r := range c.Rows {
		if r.Measure == measure {
			return r.Word
		}
	}
	return "(no row)"
}

// kills are ten takeovers around the middle.
func kills(middle float64) []verdict.Range {
	var rs []verdict.Range
	for i := range 10 {
		x := middle * (1 + 0.004*float64(i-5))
		rs = append(rs, between2(x, x+0.001))
	}
	return rs
}

func TestWorseTakesBothSignificanceAndTheTolerance(t *testing.T) {
	open := kills(1)
	for i := range open {
		open[i].Hi = nil
	}
	for name, c := range map[string]struct {
		base, head []verdict.Range
		tolerance  float64
		want       Word
		answer     Answer
	}{
		"a third more":                      {kills(1), kills(1.33), 0.1, Worse, Regressed},
		"a third less":                      {kills(1.33), kills(1), 0.1, Better, NoRegression},
		"significant, within the tolerance": {kills(1), kills(1.06), 0.1, Unchanged, NoRegression},
		"the same, and no tolerance":        {kills(1), kills(1.06), 0, Worse, Regressed},
		"the same values":                   {kills(1), kills(1), 0, Unchanged, NoRegression},
		"a base not seen to end":            {open, kills(9), 0.1, Unchanged, NoRegression}, // it may have been larger still
		"a head not seen to end":            {kills(0.5), open, 0.1, Worse, Regressed},
		"three and three":                   {kills(1)[:3], kills(2)[:3], 0.1, TooFew, CannotSay},
		"four and four":                     {kills(1)[:4], kills(2)[:4], 0.1, Worse, Regressed},
		"nothing in the base":               {nil, kills(1), 0.1, NoData, CannotSay},
	} {
		got := compared(t, []*Observed{observed("b", takeovers(c.base...))}, []*Observed{observed("h", takeovers(c.head...))}, CompareOptions{Alpha: 0.05, Tolerance: c.tolerance})
		if word(got, "takeover") != c.want || got.Answer != c.answer {
			t.Errorf("%s: %q (%s), answer %s; want %q, %s", name, word(got, "takeover"), got.Rows[0].Why, got.Answer, c.want, c.answer)
		}
	}
}

// One failure of correctness is a regression, whatever is asked for and however the run ended; where the base has it too, it is not.
func TestCorrectnessTakesNoStatistics(t *testing.T) {
	same := func() []*Observed { return []*Observed{observed("b", takeovers(kills(1)...))} }
	broken := func() *Observed {
		o := observed("h", takeovers(kills(1)...))
		o.Failures[0].N = 1
		return o
	}
	c := compared(t, same(), []*Observed{broken()}, CompareOptions{Alpha: 0.05, Tolerance: 0.1, SLOs: []string{"takeover"}})
	if c.Answer != Regressed || c.ExitCode != 10 || !strings.Contains(c.Reasons[0], "duplicate terminal states: 1, and none in the base (h)") {
		t.Errorf("%s, %d, %q", c.Answer, c.ExitCode, c.Reasons)
	}
	aborted := broken()
	aborted.Run.Answered, aborted.Run.Used = false, false
	aborted.Rows[0].Values = nil
	if c := compared(t, same(), []*Observed{aborted}, usual); c.Answer != Regressed {
		t.Errorf("in an aborted run: %s, %q", c.Answer, c.Reasons)
	}
	too, more := same(), broken()
	too[0].Failures[0].N, more.Failures[0].N = 1, 3
	if c := compared(t, too, []*Observed{more}, usual); c.Answer != NoRegression || c.Correctness[0].Regressed {
		t.Errorf("in both: %s, %q", c.Answer, c.Reasons)
	}
	// As a row: with the same in the base it is a count like any other.
	dup := func(n float64) []verdict.Sample {
		return []verdict.Sample{counted("duplicate_terminal_states", n)}
	}
	if c := compared(t, side("b", 1, func(int) []verdict.Sample { return dup(0) }), side("h", 1, func(int) []verdict.Sample { return dup(1) }), usual); word(c, "duplicate_terminal_states") != Worse {
		t.Errorf("row: %+v", c.Rows[0])
	}
	if c := compared(t, side("b", 6, func(int) []verdict.Sample { return dup(1) }), side("h", 6, func(i int) []verdict.Sample { return dup(float64(4 + i)) }), usual); word(c, "duplicate_terminal_states") != Worse || !c.Rows[0].Tested {
		t.Errorf("more of them: %+v", c.Rows[0])
	}
}

// A run that gave no answer itself is never no regression, on neither side.
func TestRunsWithoutAnAnswerGiveNone(t *testing.T) {
	for _, given := range []string{"inconclusive", "aborted", "dirty", "error"} {
		for _, which := range []int{0, 1} {
			sides := [][]*Observed{{observed("b1", takeovers(kills(1)...)), observed("b2", takeovers(kills(1)...))}, {observed("h1", takeovers(kills(1)...)), observed("h2", takeovers(kills(1)...))}}
			bad := &sides[which][1].Run
			bad.Verdict, bad.Answered, bad.Why = given, false, "for a reason"
			c := compared(t, sides[0], sides[1], usual)
			if c.Answer != CannotSay || c.ExitCode != 11 || !strings.Contains(strings.Join(c.Reasons, "\n"), "2 is "+given+": for a reason") {
				t.Errorf("%s on side %d: %s, %q", given, which, c.Answer, c.Reasons)
			}
		}
	}
}

func TestDifferentEnvironmentsAreRefused(t *testing.T) {
	run := func(id string, change ...string) *Observed {
		o := observed(id, takeovers(kills(1)...))
		for i := 0; i+1 < len(change); i += 2 {
			at := slices.IndexFunc(o.Environment, func(s experiments.Setting) bool { return s.Path == change[i] })
			if at < 0 {
				o.Environment = append(o.Environment, experiments.Setting{Path: change[i], Value: change[i+1]})
			} else {
				o.Environment[at].Value = change[i+1]
			}
		}
		return o
	}
	const ttl = "system.locks.job.policy.ttl"
	for name, c := range map[string]struct {
		base, head []*Observed
		allow      []string
		answer     Answer
		reason     string
	}{
		"the lock":           {[]*Observed{run("b")}, []*Observed{run("h", ttl, "30s")}, nil, Refused, ttl + ": 60s -> 30s"},
		"allowed":            {[]*Observed{run("b")}, []*Observed{run("h", ttl, "30s")}, []string{ttl}, NoRegression, ""},
		"allowed from above": {[]*Observed{run("b")}, []*Observed{run("h", ttl, "30s")}, []string{"system.locks"}, NoRegression, ""},
		"no part of a word":  {[]*Observed{run("b")}, []*Observed{run("h", ttl, "30s")}, []string{"system.loc"}, Refused, ttl},
		"another allowed":    {[]*Observed{run("b")}, []*Observed{run("h", ttl, "30s", "tool", "v2")}, []string{"tool"}, Refused, ttl},
		"all":                {[]*Observed{run("b")}, []*Observed{run("h", ttl, "30s", "tool", "v2")}, []string{"all"}, NoRegression, ""},
		"a rehearsal":        {[]*Observed{run("b")}, []*Observed{run("h", "mode", "rehearsal")}, []string{"all", "mode"}, Refused, "mode: live -> rehearsal"},
		"only in the head":   {[]*Observed{run("b")}, []*Observed{run("h", "faults.kill.at", "3s")}, nil, Refused, "faults.kill.at: (not set) -> 3s"},
		"a mixed base":       {[]*Observed{run("b1"), run("b2", "tool", "v2")}, []*Observed{run("h")}, nil, Refused, "tool: v1 -> v2 (both in the base: b2)"},
		"a mixed head":       {[]*Observed{run("b")}, []*Observed{run("h1"), run("h2", "tool", "v2")}, nil, Refused, "tool: v1 -> v2"},
	} {
		got := compared(t, c.base, c.head, CompareOptions{Alpha: 0.05, Tolerance: 0.1, Allow: c.allow})
		if got.Answer != c.answer || !strings.Contains(strings.Join(got.Reasons, "\n"), c.reason) {
			t.Errorf("%s: %s, %q; want %s, %q", name, got.Answer, got.Reasons, c.answer, c.reason)
		}
		if got.Answer == Refused && (got.ExitCode != 13 || len(got.Rows) > 0) {
			t.Errorf("%s: refused with status %d and %d rows", name, got.ExitCode, len(got.Rows))
		}
		allowed := func(n Note) bool { return n.Allowed && strings.Contains(n.Text, "allowed to differ: "+ttl) }
		if c.allow != nil && c.answer == NoRegression && !slices.ContainsFunc(got.Notes, allowed) {
			t.Errorf("%s: what was allowed is not said: %v", name, got.Notes)
		}
	}
}

// Holm's correction: the smallest P of three counts three times, the next twice, and none less than one before it.
func TestAlphaIsSharedAmongRows(t *testing.T) {
	rows := func(by ...float64) func(int) []verdict.Sample {
		return func(i int) []verdict.Sample {
			var rs []verdict.Sample
			for k, b := range by {
				rs = append(rs, counted(fmt.Sprintf("metric.m%d.max", k), float64(i)+b))
			}
			return rs
		}
	}
	c := compared(t, side("b", 6, rows(0, 0, 0)), side("h", 6, rows(9, 4.5, 1.5)), usual)
	for i, times := range []float64{3, 2, 1} {
		r := c.Rows[i]
		if want := min(1, *r.P*times); r.Adjusted == nil || math.Abs(*r.Adjusted-want) > 1e-12 {
			t.Errorf("P %g of row %d: adjusted %v, want %g", *r.P, i+1, r.Adjusted, want)
		}
	}
	if c.Tested != 3 || *c.Rows[0].P >= *c.Rows[1].P || *c.Rows[1].P >= *c.Rows[2].P {
		t.Errorf("%d tested", c.Tested)
	}
}

// Each row says why it has its word.
func TestRowsSayWhy(t *testing.T) {
	for want, c := range map[string][2][]float64{
		"none in the head":         {{0, 0}, {0, 0}},
		"the same in every run":    {{3, 3, 3, 3}, {3, 3, 3, 3}},
		"not significant":          {{1, 0, 0, 0}, {0, 0, 0, 1}},
		"by at least 2 more, sign": {{0, 0, 0, 0}, {2, 2, 2, 2}},
		"1 beside 3 runs: too few": {{1}, {2, 3, 4}},
	} {
		side := func(name string, values []float64) []*Observed {
			return side(name, len(values), func(i int) []verdict.Sample { return []verdict.Sample{counted("abandonments", values[i])} })
		}
		if got := compared(t, side("b", c[0]), side("h", c[1]), usual); !strings.HasPrefix(got.Rows[0].Why, want) {
			t.Errorf("%v: %q (%s), want %q", c, got.Rows[0].Word, got.Rows[0].Why, want)
		}
	}
}

// Rows that could not show anything cost the others nothing, and say how many runs it takes.
func TestRowsThatAreTooFewTakeNoShareOfAlpha(t *testing.T) {
	rows := func(middle float64) func(int) []verdict.Sample {
		return func(i int) []verdict.Sample {
			rs := []verdict.Sample{takeovers(kills(middle)[i*2 : i*2+2]...)}
			for k := range 9 {
				rs = append(rs, counted(fmt.Sprintf("metric.m%d.max", k), float64(k+i)))
			}
			return rs
		}
	}
	c := compared(t, side("b", 2, rows(1)), side("h", 2, rows(2)), usual)
	if c.Tested != 1 || word(c, "takeover") != Worse {
		t.Errorf("%d rows tested, takeover %q", c.Tested, word(c, "takeover"))
	}
	r := c.Rows[1]
	if r.Word != TooFew || r.Needs != 5 || r.Tested {
		t.Errorf("a count of two runs a side: %+v", r)
	}
	// 5 a side of 3 rows is enough for each of them, as the row says.
	three := func(by float64) func(int) []verdict.Sample {
		return func(i int) []verdict.Sample {
			return []verdict.Sample{counted("abandonments", float64(i)+by), counted("re_executed", float64(i)+by), counted("busy.count", float64(i)+by)}
		}
	}
	if c := compared(t, side("b", 5, three(0)), side("h", 5, three(9)), usual); c.Tested != 3 || word(c, "busy.count") != Worse {
		t.Errorf("%d rows tested: %+v", c.Tested, c.Rows[2])
	}
}

func TestRowsAreAskedForByName(t *testing.T) {
	rows := func(int) []verdict.Sample {
		held := counted("held[bulk].p95", 3)
		held.Question.Lock = "loop"
		return []verdict.Sample{takeovers(kills(1)...), counted("abandonment.missed", 0), counted("abandonment.late", 0), counted("abandonments", 0), held}
	}
	for slo, want := range map[string]string{
		"takeover": "job/takeover", "job": "job/takeover job/abandonment.missed job/abandonment.late job/abandonments",
		"abandonment": "job/abandonment.missed job/abandonment.late", "job/abandonments": "job/abandonments", "held": "loop/held[bulk].p95",
		"loop/takeover": "error", "take": "error", "": "error",
	} {
		c, err := Compare(side("b", 1, rows), side("h", 1, rows), CompareOptions{Alpha: 0.05, SLOs: []string{slo}})
		got := "error"
		if err == nil {
			var names []string
			for _, r := range c.Rows {
				names = append(names, r.Lock+"/"+r.Measure)
			}
			got = strings.Join(names, " ")
		} else if !strings.Contains(err.Error(), "there are job/takeover, job/abandonment.missed") {
			t.Errorf("%q: %v", slo, err)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", slo, got, want)
		}
	}
}

func TestComparisonHasNoNullLists(t *testing.T) {
	doc, err := json.Marshal(compared(t, []*Observed{observed("b")}, []*Observed{observed("h")}, usual))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(doc), "null") || !strings.Contains(string(doc), `"answer":"cannot-say"`) { // there is no row
		t.Errorf("%s", doc)
	}
}

// Values that were not seen to end have no upper end in the document either, wherever they stand in a sample.
func TestComparisonOfOpenValuesIsADocument(t *testing.T) {
	open := kills(1)
	for i := range open {
		open[i].Hi = nil
	}
	c := compared(t, []*Observed{observed("b", takeovers(open...))}, []*Observed{observed("h", takeovers(kills(1)...))}, usual)
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
	if r := c.Rows[0]; r.Base.Median.Hi != nil || r.Shift.Lo != nil || r.Shift.Hi == nil {
		t.Errorf("median %+v, shift %+v", r.Base.Median, r.Shift)
	}
}

// drawnSide is a drill with a takeover row of ranges, some of them open, and rows of one value a run: small counts with many ties, and a
// duration. by is what the head's takeovers are multiplied by.
func drawnSide(rnd *rand.Rand, name string, runs int, by float64) []*Observed {
	return side(name, runs, func(int) []verdict.Sample {
		var ks []verdict.Range
		for range 4 {
			x := (1 + rnd.ExpFloat64()/4) * by
			r := between2(x-rnd.Float64()/50, x+rnd.Float64()/50)
			if rnd.IntN(30) == 0 {
				r.Hi = nil
			}
			ks = append(ks, r)
		}
		few := 0.0
		for range 12 {
			few += float64(rnd.IntN(6) / 5)
		}
		return []verdict.Sample{
			takeovers(ks...), counted("abandonments", few), counted("busy.count", float64(rnd.IntN(40))), counted("wait.p95", rnd.ExpFloat64()),
			counted("re_executed", float64(rnd.IntN(2))),
		}
	})
}

// Nothing has changed, and with no tolerance to hide behind, any row at all is called worse or better in at most alpha of the worlds.
func TestFalseAlarmsStayBelowAlpha(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	const worlds, alpha = 500, 0.1
	alarms := 0
	for range worlds {
		c := compared(t, drawnSide(rnd, "b", 6, 1), drawnSide(rnd, "h", 5, 1), CompareOptions{Alpha: alpha})
		if slices.ContainsFunc(c.Rows, func(r ComparedRow) bool { return r.Word == Worse || r.Word == Better }) {
			alarms++
		}
	}
	t.Logf("%d of %d worlds", alarms, worlds)
	if most := int(worlds * alpha); alarms > most || alarms < most/5 { // far fewer: the test would find nothing
		t.Errorf("%d alarms in %d worlds without a change, alpha %g", alarms, worlds, alpha)
	}
}

// A change of two fifths is found.
func TestPower(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	const worlds = 200
	found := 0
	for range worlds {
		c := compared(t, drawnSide(rnd, "b", 6, 1), drawnSide(rnd, "h", 6, 1.4), usual)
		if word(c, "takeover") == Worse {
			found++
		}
	}
	t.Logf("%d of %d", found, worlds)
	if found < worlds*9/10 {
		t.Errorf("a takeover of 1.4 times as long was found in %d of %d worlds", found, worlds)
	}
}
