package experiments

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Logs says what is looked for in the logs of observed replicas, and in files.
type Logs struct {
	Preset   string            `rule:"words=cordum|lockdrill"`                   // cordum (formerly lockdrill): the eight lines that the articles name
	Patterns map[string]string `rule:"pattern"`                                  // regular expressions (RE2) for single lines, by name
	Files    []string          `rule:"path,format=glob"`                         // patterns of more files to read
	MaxGap   time.Duration     `rule:"positive,default=2s,least=1ms" scale:"no"` // longest time in which a log was not followed
}

// LogLimit bounds how many lines match, over all logs.
type LogLimit struct {
	Pattern string `rule:"required,ref=pattern"` // its name under probes.logs
	Bound[int]
}

// LogPattern is a regular expression by its name. It is matched against single lines.
type LogPattern struct{ Name, Pattern string }

// preset is what is logged by locks that are kept as the articles on locks in Redis keep theirs: their eight lines, whatever the case.
func preset() []LogPattern {
	return []LogPattern{
		{"approval_lock_release_failed", `(?i)approval lock release failed`},
		{"job_lock_abandoned", `(?i)job lock abandoned`},
		{"job_lock_release_failed", `(?i)job lock release failed, retrying`},
		{"lock_not_owned", `(?i)lock not owned`},
		{"lock_release_skipped", `(?i)lock release skipped: token mismatch`},
		{"lock_will_expire", `(?i)lock will expire via TTL`},
		{"run_lock_release_failed", `(?i)distributed run lock release failed`},
		{"run_lock_renewal_failed", `(?i)run lock renewal failed`},
	}
}

// Named are all patterns, those of the preset too, in the order of their names; none of a nil Logs.
func (l *Logs) Named() []LogPattern {
	if l == nil {
		return nil
	}
	var all []LogPattern
	if l.Preset != "" {
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
	l, p := c.e.Probes.Logs, c.e.System.Processes
	if l == nil {
		return
	}
	there := c.inPods() || len(l.Files) > 0 || p != nil && p.Log != "" || c.Invalid("system.processes")
	if c.Refuse(!there && p != nil, path, "nobody says where the logs of the processes are: system.processes.log, or files here") ||
		c.Refuse(!there, path, "reads the logs of pods, of observed processes or of files, and there are none: a kubernetes section, system.processes.log, or files here") {
		return
	}
	made := c.e.Kubernetes != nil && c.e.Kubernetes.Pods == PodsApply // a promise about such lines could not be broken
	_ = c.Refuse(len(l.Named()) == 0, path, "looks for nothing: preset: cordum, or patterns by their names") ||
		c.Refuse(l.Preset != "" && made, path+".preset", "the workers that the run makes write none of these lines: their events tell, by the SLOs not_owned, abandonment and lock_debt; the preset is for pods of your own")
	for _, name := range slices.Sorted(maps.Keys(l.Patterns)) {
		at, wrong := path+".patterns."+name, NoPattern(l.Patterns[name], "")
		c.Refuse(!vocab.Identifier().MatchString(name), at, "%q is no name: letters, digits, dots, dashes and underscores, at most 63", name)
		c.Refuse(l.Preset != "" && slices.ContainsFunc(preset(), func(p LogPattern) bool { return p.Name == name }), at, "the preset has a pattern of that name: take another, or leave the preset out")
		_ = c.Refuse(l.Patterns[name] == "", at, "an empty pattern matches every line") || c.Refuse(wrong != "", at, "%s", wrong)
	}
}

// patternNames are the names of what is looked for.
func (c *checker) patternNames() (known []string) {
	for _, p := range c.e.Probes.Logs.Named() {
		known = append(known, p.Name)
	}
	return known
}
