package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// judge gives the row its word.
func (r *ComparedRow) judge(p *pairing, c *Comparison) {
	switch n, m := r.Base.N, r.Head.N; {
	case !p.head.has:
		r.Word, r.Why = NoData, "only the base has this SLO"
	case !p.base.has:
		r.Word, r.Why = NoData, "only the head has this SLO"
	case n == 0 || m == 0:
		r.Word, r.Why = NoData, "no run of the "+map[bool]string{true: "base", false: "head"}[n == 0]+" has a valid value"
	case p.flawless():
		r.Word, r.Why = Unchanged, "none on either side"
		if p.head.sum() > 0 {
			r.Word, r.Why = Worse, "it happened in the head and never in the base: this needs no statistics"
		}
	case !r.Tested && stats.SmallestP(n, m) > c.Alpha/float64(max(1, c.Tested)) && !p.none():
		r.Needs = stats.ValuesNeeded(c.Alpha / float64(c.Tested+1))
		r.Word, r.Why = TooFew, fmt.Sprintf("%d beside %s: too few to show a significant difference%s; at least %d a side are needed", n, figures.Plural(m, r.Of), among(c.Tested+1), r.Needs)
	case p.none():
		r.Word, r.Why = Unchanged, "none in the head"
		if r.Adjusted != nil && *r.Adjusted <= c.Alpha {
			r.weigh(c.Tolerance)
		}
	case stats.Constant(p.base.Sample, p.head.Sample):
		r.Word, r.Why = Unchanged, "the same in every "+r.Of
	case r.Adjusted == nil || *r.Adjusted > c.Alpha:
		r.Word, r.Why = Unchanged, "not significant"
	default:
		r.weigh(c.Tolerance)
	}
}

// among says that alpha is shared.
func among(rows int) string {
	if rows <= 1 {
		return ""
	}
	return fmt.Sprintf(" among %d rows", rows)
}

// weigh says whether a significant difference is one that counts: beyond the tolerance wherever the values lie in their ranges.
func (r *ComparedRow) weigh(tolerance float64) {
	r.Word, r.Why = Unchanged, fmt.Sprintf("significant, but within the tolerance of %g%%", math.Round(1e4*tolerance)/100)
	m := r.Base.Median
	if m.Lo == nil || m.Hi == nil {
		r.Why = "significant, but more than half of the base's values have no measured end"
		return
	}
	allowed := tolerance * max(math.Abs(*m.Lo), math.Abs(*m.Hi))
	switch {
	case r.Shift.Lo != nil && *r.Shift.Lo > allowed:
		r.Word = Worse
		r.Why = r.atLeast(*r.Shift.Lo, "more") + ", significant" + r.mostly()
	case r.Shift.Hi != nil && -*r.Shift.Hi > allowed:
		r.Word = Better
		r.Why = r.atLeast(-*r.Shift.Hi, "less") + ", significant" + r.mostly()
	}
}

// atLeast words a shift by its smaller end: a share of the base's median, else a figure.
func (r *ComparedRow) atLeast(by float64, more string) string {
	switch {
	case r.Relative != nil && r.Relative.Lo != nil && r.Relative.Hi != nil:
		return fmt.Sprintf("by at least %g%% %s", math.Floor(1000*min(math.Abs(*r.Relative.Lo), math.Abs(*r.Relative.Hi))+1e-6)/10, more)
	case r.Unit == verdict.UnitSeconds:
		return "by at least " + figures.Floor(figures.Nanoseconds(by)) + " " + more
	}
	return fmt.Sprintf("by at least %.3g %s", by, more)
}

// flawless reports a row of correctness without a breach in the base: a limit other than 0 makes none of it right.
func (p *pairing) flawless() bool {
	rows := []string{"duplicate_terminal_states", "overlap.belief", "overlap.work", "overlap.effect", "abandonment.missed", "fence_regressions", "stranded"}
	return slices.Contains(rows, p.Question.Figure()) && p.base.sum() == 0 && (p.head.sum() > 0 || !slices.ContainsFunc(slices.Concat(p.base.values, p.head.values), unsure))
}

// none reports that the head has nothing of what the row measures, which is the least that there can be.
func (p *pairing) none() bool {
	return p.Unit != verdict.UnitValue && p.Question.Measure != "fence_lag" && !slices.ContainsFunc(p.head.values, func(r verdict.Range) bool { return r.Lo != 0 || unsure(r) })
}

func unsure(r verdict.Range) bool { return r.Hi == nil || *r.Hi > 0 }

// sum of what surely happened.
func (s *sample) sum() (sum float64) {
	for _, v := range s.values {
		sum += v.Lo
	}
	return sum
}

// refuse ends a comparison of what cannot be compared.
func (c *Comparison) refuse() {
	c.Answer, c.ExitCode = Refused, verdict.ExitRefused
	for _, d := range c.Differences {
		if !d.Allowed {
			c.Reasons = append(c.Reasons, differenceText(d))
		}
	}
}

// text is `field: base -> head`.
func differenceText(d Difference) string {
	s := d.Field + ": " + d.Base + " -> " + d.Head
	if d.Field == "mode" {
		s += " (never compared, whatever is allowed)"
	}
	if d.InBase {
		s += " (both in the base: " + d.Run + ")"
	}
	return s
}

// note says what a reader of the figures should know.
func (c *Comparison) note() {
	add := func(format string, args ...any) {
		c.Notes = append(c.Notes, Note{Text: fmt.Sprintf(format, args...)})
	}
	if c.Rehearsal {
		add("these are rehearsals in virtual time: they say nothing about a live system")
	}
	for _, d := range c.Differences {
		c.Notes = append(c.Notes, Note{Text: "allowed to differ: " + differenceText(d), Allowed: true})
	}
	if len(c.Base) == 1 || len(c.Head) == 1 {
		add("one run on a side: any difference between two runs of the same build, such as a busy machine, looks like a change. Take several runs of each side in turn")
	}
	for _, side := range []struct {
		name string
		runs []ComparedRun
	}{{"base", c.Base}, {"head", c.Head}} {
		for _, r := range side.runs {
			if !r.Used {
				add("%s %s does not count: %s", side.name, r.ID, r.Why)
			}
		}
	}
}

// decide gives the answer: regressed, or what keeps it from being none.
func (c *Comparison) decide() {
	var bad, open []string
	for _, f := range c.Correctness {
		if f.Regressed {
			bad = append(bad, fmt.Sprintf("%s: %d, and none in the base (%s)", f.What, f.Head, f.Run))
		}
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		what := r.Lock + " " + r.Measure + ": " + r.Why
		switch r.Word {
		case Worse:
			if r.P != nil && r.Tested || len(bad) == 0 { // what broke outright was said above
				bad = append(bad, what)
			}
		case TooFew, NoData:
			open = append(open, what)
		}
	}
	for _, r := range c.Head {
		if !r.Answered {
			open = append(open, fmt.Sprintf("head %s is %s: %s", r.ID, r.Verdict, r.Why))
		}
	}
	for _, r := range c.Base {
		if !r.Answered {
			open = append(open, fmt.Sprintf("base %s is %s: %s", r.ID, r.Verdict, r.Why))
		}
	}
	if len(c.Rows) == 0 {
		open = append(open, "no row to compare: these runs measured none of the experiment's SLOs")
	}
	switch {
	case len(bad) > 0:
		c.Answer, c.ExitCode, c.Reasons = Regressed, verdict.ExitSLOFailed, append(bad, open...)
	case len(open) > 0:
		c.Answer, c.ExitCode, c.Reasons = CannotSay, verdict.ExitInconclusive, open
	default:
		c.Answer, c.ExitCode = NoRegression, verdict.ExitPass
	}
}
