package analysis

import (
	"slices"

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
		locks[l.Name] = lint.Lock{Policy: l.Policy, Unfenced: work != nil && !work.Fenced, NoLook: work != nil && !work.Look}
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

// lints are what the worker said against the protocol, each with what to change.
func (j *judging) lints() (list []verdict.Lint) {
	if j.said == nil {
		return nil
	}
	for _, f := range j.said.End() {
		rule, _ := lint.RuleOf(f.Code)
		list = append(list, verdict.Lint{Code: f.Code, Replica: f.Source, What: f.What, Expected: rule.Says, Change: rule.Change, Section: rule.Section, Evidence: facts.Cite(f.Evidence...)})
	}
	return list
}
