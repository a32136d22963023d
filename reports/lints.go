package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
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

// lintItems are the broken rules with what to change, and where the protocol has them.
func lintItems(j *verdict.Judgement) (list []item) {
	for _, r := range rulesBroken(j) {
		f := &r.first
		seen := events(f.Evidence)
		if seen != "" {
			seen = " (" + seen + ")"
		}
		who := r.who()
		if who != "" {
			who += ": "
		}
		list = append(list, item{f.Code, fmt.Sprintf("%s%s%s. Expected: %s. Change: %s. Read: %s.", who, f.What, seen, f.Expected, f.Change, readIn(f.Section))})
	}
	return list
}

// brokenText is what a run that failed has broken.
func brokenText(j *verdict.Judgement) string {
	if slices.ContainsFunc(j.Rows(), func(s verdict.SLOResult) bool { return s.Verdict == verdict.Fail }) {
		return "At least one promise was broken."
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

func lintTable(list []verdict.Lint, ev *evidence) *Table {
	return tableOf("Lines that break the worker protocol", []string{"kind", "replica", "what", "expected", "change", "where", "events"}, list,
		func(l verdict.Lint) []Cell {
			return []Cell{codeCell(l.Code), plainCell(l.Replica), plainCell(l.What), plainCell(l.Expected), plainCell(l.Change), plainCell(readIn(l.Section)), ev.cell(l.Evidence)}
		})
}
