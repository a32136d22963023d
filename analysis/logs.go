package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// match is a line that matched a pattern.
type match struct {
	pattern, source string
	n               int64
}

// logMatches counts the lines that matched a pattern, over the whole run and all pods.
func (j *judging) logMatches(lock, pattern string) measured {
	m := measured{measure: verdict.MeasureLogs + "." + pattern, unit: verdict.UnitCount, of: "line", next: "read the lines: each is an event logmatch of the history"}
	if m.faults, _ = j.exposures(lock); m.faults == 0 {
		m.missing = append(m.missing, j.notExposed(lock))
	}
	by := map[string]int{}
	for _, line := range j.ix.matches {
		if line.pattern == pattern {
			m.n++
			by[line.source]++
			m.evidence = append(m.evidence, line.n)
		}
	}
	m.lo, m.hi = int64(m.n), int64(m.n)
	if blind := j.blind(probeLogs, j.window()); blind != nil { // a line that nobody read may have said anything
		m.hi, m.unended = open, blind[0].Next
		m.missing = append(m.missing, blind...)
	}
	m.saw = fmt.Sprintf("%s matched %s", figures.Plural(m.n, "line"), pattern)
	var parts []string
	for _, who := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s %d", who, by[who]))
	}
	if len(parts) > 0 {
		m.saw += ": " + strings.Join(parts, ", ")
	}
	return m
}
