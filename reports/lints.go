package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

const lintTitle = "Worker protocol"

// ruleBroken is a rule of the worker protocol, and all replicas that broke it.
type ruleBroken struct {
	first    verdict.Lint
	replicas []string
}

// rulesBroken groups what each replica did by the rule: most wrong workers are wrong in every replica.
func rulesBroken(j *verdict.Judgement) (list []ruleBroken) {
	for _, l := range j.Lints {
		i := slices.IndexFunc(list, func(r ruleBroken) bool { return r.first.Code == l.Code })
		if i < 0 {
			i, list = len(list), append(list, ruleBroken{first: l})
		}
		if l.Replica != "" {
			list[i].replicas = append(list[i].replicas, l.Replica)
		}
	}
	return list
}

// mostReplicas bounds the names of those who broke a rule.
const mostReplicas = 3

func (r *ruleBroken) who() string {
	return someOf(r.replicas, mostReplicas)
}

// someOf names the first of many, and says how many more there are.
func someOf(names []string, most int) string {
	text := strings.Join(first(names, most), ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %s more", figures.Count(more))
	}
	return text
}

// brokenText is what a run that failed has broken.
func brokenText(j *verdict.Judgement) string {
	if slices.ContainsFunc(j.Rows(), func(s verdict.SLOResult) bool { return s.Verdict == verdict.Fail }) {
		return heldSentence(j)
	}
	if len(j.Lints) == 0 {
		return "Every answered promise was kept, but what the worker said does not hold: see the findings."
	}
	var codes []string
	for _, r := range rulesBroken(j) {
		codes = append(codes, r.first.Code)
	}
	return "Every answered promise was kept, but the worker broke the worker protocol: " + someOf(codes, mostReplicas) + "."
}

// readIn says where a section of the protocol is.
func readIn(section string) string { return fmt.Sprintf("docs/worker-protocol.md, %q", section) }

// lintTable is a row for each rule that was broken, with what to change below it.
func lintTable(j *verdict.Judgement) *doc.Table {
	t := &doc.Table{Label: "Lines that break the worker protocol", Columns: []doc.Column{{Name: "rule", Head: true}, {Name: "replicas"}, {Name: "what"}}}
	for _, r := range rulesBroken(j) {
		f := &r.first
		t.Rows = append(t.Rows, doc.Row{Refs: f.Evidence, Cells: []doc.Cell{codeCell(f.Code), plainCell(r.who()), plainCell(f.What)},
			Notes: []doc.Item{doc.Of("expected", f.Expected), doc.Of("change", f.Change), doc.Of("read", readIn(f.Section))}})
	}
	return t
}
