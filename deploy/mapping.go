package deploy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/experiments"
)

// Mapping says which series tell what: the link between the rules and the names that a system gives its metrics.
type Mapping struct {
	Name       string
	LockLabel  string             // the label whose value names a lock, "" = the series have none
	Signals    map[string]*Signal // by the names in rules.yaml
	Thresholds map[string]float64 // every one of rules.yaml
}

// Signal is where one fact can be read.
type Signal struct {
	Series string   `yaml:"series"`           // a PromQL selector without a range: name{label="value"}
	By     []string `yaml:"by,omitempty"`     // labels to keep besides the lock's
	Sparse bool     `yaml:"sparse,omitempty"` // the series appears only with its first event
}

// mappingFile is a mapping as it is written.
type mappingFile struct {
	Extends    string             `yaml:"extends"`
	LockLabel  *string            `yaml:"lock_label"`
	Signals    map[string]*Signal `yaml:"signals"` // an empty one takes away what extends gives
	Thresholds map[string]float64 `yaml:"thresholds"`
}

// MappingNames are the mappings that ship, the first being the lock core's own.
func MappingNames() []string { return []string{"lockcore", "cordum", "watch"} }

// MappingSource is the file of a shipped mapping, to start one's own from.
func MappingSource(name string) (data []byte, ok bool) {
	if !slices.Contains(MappingNames(), name) {
		return nil, false
	}
	data, err := files.ReadFile("metrics/" + name + ".yaml")
	return data, err == nil
}

// ParseMapping reads a mapping. name is how messages call it. Every problem is in the error, a line each.
func ParseMapping(name string, data []byte) (*Mapping, error) {
	var f mappingFile
	if err := decode(data, &f); err != nil {
		return nil, inWords(name, err)
	}
	m := &Mapping{Name: name, Signals: map[string]*Signal{}, Thresholds: map[string]float64{}}
	if f.Extends != "" {
		base, ok := MappingSource(f.Extends)
		if !ok {
			return nil, fmt.Errorf("%s: extends: %q is not shipped; there are %s", name, f.Extends, strings.Join(MappingNames(), ", "))
		}
		var err error
		if m, err = ParseMapping(f.Extends, base); err != nil {
			return nil, err
		}
		m.Name = name
	}
	c := catalogue()
	for t, l := range c.Thresholds {
		if _, ok := m.Thresholds[t]; !ok {
			m.Thresholds[t] = l.Value
		}
	}
	return m, m.overlay(name, &f, c)
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

// inWords puts the decoder's complaints into lines of their own, without the names of our types.
func inWords(name string, err error) error {
	complaints := []string{err.Error()}
	if many := new(yaml.TypeError); errors.As(err, &many) {
		complaints = many.Errors
	}
	var problems []error
	for _, c := range complaints {
		problems = append(problems, fmt.Errorf("%s: %s", name, unknownField.ReplaceAllString(strings.TrimPrefix(c, "yaml: "), `unknown field "$1"`)))
	}
	return errors.Join(problems...)
}

// overlay puts what a file says over m.
func (m *Mapping) overlay(name string, f *mappingFile, c *rulesFile) error {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %w", name, fmt.Errorf(format, args...)))
	}
	if f.LockLabel != nil {
		m.LockLabel = *f.LockLabel
	}
	if m.LockLabel != "" && !labelName.MatchString(m.LockLabel) {
		problem("lock_label: %q is no label name", m.LockLabel)
	}
	for _, s := range slices.Sorted(maps.Keys(f.Signals)) {
		if _, ok := c.Signals[s]; !ok {
			problem("signals.%s: unknown signal%s; there are %s", s, didYouMean(s, c.Signals), list(c.Signals))
			continue
		}
		if f.Signals[s] == nil {
			delete(m.Signals, s)
			continue
		}
		m.Signals[s] = f.Signals[s]
		if err := f.Signals[s].check(); err != nil {
			problem("signals.%s.%w", s, err)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(f.Thresholds)) {
		if _, ok := c.Thresholds[t]; !ok {
			problem("thresholds.%s: unknown threshold%s; there are %s", t, didYouMean(t, c.Thresholds), list(c.Thresholds))
			continue
		}
		if v := f.Thresholds[t]; v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			problem("thresholds.%s: %v: want a number from 0 up", t, v)
		}
		m.Thresholds[t] = f.Thresholds[t]
	}
	if len(m.Signals) == 0 {
		problem("signals: none; `lockdrill export mapping` prints a mapping to start from")
	}
	return errors.Join(problems...)
}

var (
	labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	selector  = func() *regexp.Regexp {
		const matcher = `\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=|!=|=~|!~)\s*"(?:[^"\\\n]|\\.)*"\s*`
		return regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(` + matcher + `(?:,` + matcher + `)*,?)?\s*\})?$`)
	}()
)

// check says what of a signal cannot be written into an expression: a range, a function or a typo would end in rules that no
// Prometheus loads, or in rules about something else.
func (s *Signal) check() error {
	if !selector.MatchString(s.Series) {
		return fmt.Errorf(`series: %q: want a metric's name and matchers, like name_total{label="value"}, without range or function`, s.Series)
	}
	for _, l := range s.By {
		if !labelName.MatchString(l) {
			return fmt.Errorf("by: %q is no label name", l)
		}
	}
	return nil
}

// with is the series, narrowed by one more matcher.
func (s *Signal) with(matcher string) string {
	parts := selector.FindStringSubmatch(s.Series)
	own := strings.TrimSuffix(strings.TrimSpace(parts[2]), ",")
	if own != "" && matcher != "" {
		own += ","
	}
	if own+matcher == "" {
		return parts[1]
	}
	return parts[1] + "{" + own + matcher + "}"
}

func list[V any](known map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

func didYouMean[V any](word string, known map[string]V) string {
	if near := experiments.Nearest(word, slices.Sorted(maps.Keys(known))); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ""
}
