package deploy

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// rulesFile is rules.yaml.
type rulesFile struct {
	Signals    map[string]fact  `yaml:"signals"`
	Thresholds map[string]limit `yaml:"thresholds"`
	Recordings []recording      `yaml:"recordings"`
	Alerts     []alert          `yaml:"alerts"`
}

type fact struct {
	Unit  string `yaml:"unit"`
	Means string `yaml:"means"`
}

type limit struct {
	Value  float64 `yaml:"value"`
	Means  string  `yaml:"means"`
	Scales string  `yaml:"scales"` // with the rules' times: time, rate; "" = not
}

type recording struct {
	Record string `yaml:"record"`
	Expr   string `yaml:"expr"`
	Drills bool   `yaml:"drills"` // about drills, not about locks
}

type alert struct {
	Alert    string `yaml:"alert"`
	Expr     string `yaml:"expr"`
	For      string `yaml:"for"`
	Severity string `yaml:"severity"`
	Drills   bool   `yaml:"drills"`
	Fires    string `yaml:"fires"` // for docs/alerts.md: when, in words
	Summary  string `yaml:"summary"`
	Next     string `yaml:"next"`
	Runbook  string `yaml:"runbook"`
	Drill    string `yaml:"drill"` // what makes it fire: a shipped scenario, or a file of the witness, which has what only an application can count
}

func catalogue() *rulesFile {
	f := &rulesFile{}
	shipped("rules.yaml", f)
	return f
}

// filler puts a mapping's series into expressions.
type filler struct {
	m       *Mapping
	c       *rulesFile
	inline  bool     // write a recording's expression where its name would stand
	missing []string // signals that the expression needs and m lacks
	scale   float64  // of times
}

// fill gives an expression or a sentence; missing is what it lacks, in which case there is none. The error is one of our own files.
func (f *filler) fill(text string) (out string, missing []string, err error) {
	f.missing = nil
	var b bytes.Buffer
	t, err := template.New("").Delims("<<", ">>").Funcs(template.FuncMap{
		"series": f.series, "by": f.by, "happened": f.happened, "limit": f.limit, "twice": f.twice, "record": f.record, "lock": f.lock,
		"legend": f.legend,
	}).Parse(text)
	if err == nil {
		err = t.Execute(&b, nil)
	}
	if err != nil {
		return "", nil, fmt.Errorf("fill in %q: %w", text, err)
	}
	slices.Sort(f.missing)
	return windows.ReplaceAllStringFunc(b.String(), f.times), slices.Compact(f.missing), nil
}

var (
	windows  = regexp.MustCompile(`\[\d+[smhd]\]|offset \d+[smhd]`)
	lasting  = regexp.MustCompile(`\d+[smhd]`)
	lastings = map[byte]float64{'s': 1e3, 'm': 60e3, 'h': 3600e3, 'd': 86400e3} // ms
)

// times multiplies the times in a text by the scale.
func (f *filler) times(text string) string {
	if f.scale == 1 {
		return text
	}
	return lasting.ReplaceAllStringFunc(text, func(t string) string {
		n, _ := strconv.ParseFloat(t[:len(t)-1], 64)
		return fmt.Sprintf("%.0fms", max(1, n*lastings[t[len(t)-1]]*f.scale))
	})
}

func (f *filler) signal(name string) (*Signal, error) {
	if _, ok := f.c.Signals[name]; !ok {
		return nil, fmt.Errorf("no signal %q", name)
	}
	s, ok := f.m.Signals[name]
	if !ok {
		f.missing = append(f.missing, name)
		return &Signal{Series: name}, nil
	}
	return s, nil
}

func (f *filler) series(name string, matchers ...string) (string, error) {
	s, err := f.signal(name)
	if err != nil {
		return "", err
	}
	return s.with(strings.Join(matchers, ",")), nil
}

// labels are what is kept of a signal: the lock's label and its own. name "" = the lock's alone.
func (f *filler) labels(name string) ([]string, error) {
	var all []string
	if f.m.LockLabel != "" {
		all = append(all, f.m.LockLabel)
	}
	if name == "" {
		return all, nil
	}
	s, err := f.signal(name)
	if err != nil {
		return nil, err
	}
	return append(all, s.By...), nil
}

func (f *filler) by(name string, more ...string) (string, error) {
	all, err := f.labels(name)
	if err != nil {
		return "", err
	}
	if all = append(all, more...); len(all) == 0 {
		return "", nil
	}
	return " by (" + strings.Join(all, ", ") + ")", nil
}

// legend names a line of a panel by its labels.
func (f *filler) legend(name string) (string, error) {
	all, err := f.labels(name)
	if err != nil {
		return "", err
	}
	for i, l := range all {
		all[i] = "{{" + l + "}}"
	}
	return strings.Join(all, " "), nil
}

// happened counts the events of a counter. A sparse one begins at its first event, of which increase() sees nothing: its appearance
// counts as well.
func (f *filler) happened(name, window string) (string, error) {
	s, err := f.signal(name)
	if err != nil {
		return "", err
	}
	by, err := f.by(name)
	if err != nil {
		return "", err
	}
	series := s.with("")
	counted := fmt.Sprintf("sum%s (increase(%s[%s]))", by, series, window)
	if !s.Sparse {
		return counted, nil
	}
	return fmt.Sprintf("(%s > 0 or sum%s (%s unless %s offset %s))", counted, by, series, series, window), nil
}

func (f *filler) threshold(name string) (float64, error) {
	if _, ok := f.c.Thresholds[name]; !ok {
		return 0, fmt.Errorf("no threshold %q", name)
	}
	switch v := f.m.Thresholds[name]; f.c.Thresholds[name].Scales {
	case "time":
		return v * f.scale, nil
	case "rate":
		return v / f.scale, nil
	default:
		return v, nil
	}
}

func (f *filler) limit(name string) (string, error) {
	v, err := f.threshold(name)
	return strconv.FormatFloat(v, 'f', -1, 64), err
}

// twice is double a threshold in seconds as a PromQL duration, at least a day.
func (f *filler) twice(name string) (string, error) {
	v, err := f.threshold(name)
	return fmt.Sprintf("%.0fs", max(2*v, 86400*f.scale)), err
}

func (f *filler) record(name string) (string, error) {
	for _, r := range f.c.Recordings {
		if r.Record != name {
			continue
		}
		inner := *f
		expr, missing, err := inner.fill(r.Expr)
		f.missing = append(f.missing, missing...)
		if f.inline {
			return "(" + expr + ")", err
		}
		return name, err
	}
	return "", fmt.Errorf("no recording %q", name)
}

// lock names the lock that an alert is about.
func (f *filler) lock() string {
	if f.m.LockLabel == "" {
		return "any lock"
	}
	return "{{ $labels." + f.m.LockLabel + " }}"
}
