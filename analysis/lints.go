package analysis

import (
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/history/lint"
)

// linter holds a worker of somebody's own against the protocol; nil where there is none. A history that was made by hand tells of no worker.
func (r *Judger) linter(h history.Header) *lint.Linter {
	s := &r.exp.System
	if h.Recorded != "" || !s.CheckWorker && len(s.Worker) == 0 {
		return nil
	}
	locks := map[string]lint.Lock{}
	for i := range s.Locks {
		l := &s.Locks[i]
		work := r.exp.WorkUnder(l.Name)
		locks[l.Name] = lint.Lock{Policy: l.Policy, Unfenced: !r.exp.Fenced(l.Name), NoLook: work != nil && !work.Look}
	}
	l := lint.New(locks)
	if s.CheckWorker && h.Mode == history.Live { // rehearsals have no such steps
		l.Stepped()
	}
	return l
}

// refuted reports that the worker broke the protocol, or that a claim of it does not hold. A finding without a code may be the machine's.
func refuted(out *verdict.Judgement) bool {
	return len(out.Lints) > 0 || slices.ContainsFunc(out.Findings, func(f verdict.Finding) bool { return f.Code != "" })
}

// lints are what the worker did against the protocol, each with what to change: what its lines show and, where the file asks about the
// worker, what is held against it otherwise.
func (j *judging) lints(out *verdict.Judgement) (list []verdict.Lint) {
	if j.said == nil {
		return nil
	}
	add := func(code, replica, what string, evidence []int64) {
		if rule, ok := lint.RuleOf(code); ok {
			list = append(list, verdict.Lint{Code: code, Replica: replica, What: what, Expected: rule.Says, Change: rule.Change, Section: rule.Section, Evidence: evidence})
		}
	}
	for _, f := range j.said.End() {
		add(f.Code, f.Source, f.What, facts.Cite(f.Evidence...))
	}
	if !j.exp.System.CheckWorker {
		return list
	}
	told := map[string]bool{}
	for _, f := range out.Findings {
		if code := string(f.Code); !told[code] {
			told[code] = true
			add(code, "", f.What, f.Evidence)
		}
	}
	for _, s := range out.Rows() {
		measure, _, _ := strings.Cut(s.Measure, ".")
		if of := s.Lock + "." + measure; s.Verdict == verdict.Fail && !told[of] {
			told[of] = true
			add(measure, "", "lock "+s.Lock+": "+strings.TrimSuffix(s.Why, "."), s.Evidence)
		}
	}
	return list
}
