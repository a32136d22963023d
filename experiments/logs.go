package experiments

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Logs says what is looked for in the logs of the pods.
type Logs struct {
	Preset   string            `rule:"words=lockdrill"` // lockdrill: the four log lines that locks like these write
	Patterns map[string]string // regular expressions (RE2) by names of your own, matched against single lines
	MaxGap   time.Duration     `rule:"positive" scale:"no"` // longest tolerated stretch in which a pod's log was not followed
}

func (l *Logs) setDefaults() { l.MaxGap = 2 * time.Second }

// LogLimit bounds how many lines match, over all pods.
type LogLimit struct {
	Pattern string `rule:"required"` // its name under probes.logs
	Bound[int]
}

// PresetLockdrill is the only word of Logs.Preset.
const PresetLockdrill = "lockdrill"

// LogPattern is a regular expression by its name. It is matched against single lines.
type LogPattern struct{ Name, Pattern string }

// preset is what locks say that are kept as the articles on leader election with Redis keep theirs, whatever the case.
func preset() []LogPattern {
	return []LogPattern{
		{"job_lock_abandoned", `(?i)job lock abandoned`},
		{"lock_not_owned", `(?i)lock not owned`},
		{"lock_will_expire", `(?i)lock will expire via TTL`},
		{"run_lock_renewal_failed", `(?i)run lock renewal failed`},
	}
}

// Named are all patterns, those of the preset too, in the order of their names; none of a nil Logs.
func (l *Logs) Named() []LogPattern {
	if l == nil {
		return nil
	}
	var all []LogPattern
	if l.Preset == PresetLockdrill {
		all = preset()
	}
	for _, name := range slices.Sorted(maps.Keys(l.Patterns)) {
		all = append(all, LogPattern{name, l.Patterns[name]})
	}
	slices.SortFunc(all, func(a, b LogPattern) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// logs checks what is looked for.
func (c *checker) logs() {
	const path = "probes.logs"
	l := c.e.Probes.Logs
	switch {
	case l == nil:
		return
	case !c.inPods():
		c.check(path, "reads the logs of pods, and there is no kubernetes section")
		return
	case len(l.Named()) == 0:
		c.check(path, "looks for nothing: preset: lockdrill, or patterns by their names")
	case l.Preset != "" && c.e.Kubernetes != nil && c.e.Kubernetes.Pods == PodsApply: // a promise about such lines could not be broken
		c.check(path+".preset", "the workers that the run makes write none of these lines: their events tell, by the SLOs not_owned, abandonment and lock_debt; the preset is for pods of your own")
	}
	if l.MaxGap < shortest && !c.touched(path) {
		c.check(path+".max_gap", "%s is too short: at least %s", figures.Spell(l.MaxGap), figures.Spell(shortest))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Patterns)) {
		at := path + ".patterns." + name
		if !identifier.MatchString(name) {
			c.check(at, "%q is no name: letters, digits, dots, dashes and underscores, at most 63", name)
		}
		if l.Preset != "" && slices.ContainsFunc(preset(), func(p LogPattern) bool { return p.Name == name }) {
			c.check(at, "the preset has a pattern of that name: take another, or leave the preset out")
		}
		if l.Patterns[name] == "" {
			c.check(at, "an empty pattern matches every line")
		} else if _, err := regexp.Compile(l.Patterns[name]); err != nil {
			c.check(at, "no regular expression: %v", err)
		}
	}
}

// logLimit checks a promise about logs.
func (c *checker) logLimit(path string, l *LogLimit) {
	if l == nil {
		return
	}
	var known []string
	for _, p := range c.e.Probes.Logs.Named() {
		known = append(known, p.Name)
	}
	switch {
	case l.Pattern == "", slices.Contains(known, l.Pattern): // a missing one is said already
	case len(known) == 0:
		c.check(path+".pattern", "no log is read: declare patterns under probes.logs")
	default:
		c.check(path+".pattern", "no pattern is called %s", unknownWord(l.Pattern, known))
	}
}
