package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/metrics"
	"github.com/lockdrill/lockdrill/scenarios"
)

// docs/articles.md says for each point of the articles what stands for it: every scenario, profile, field, word, metric, alert and command
// in that column exists, each row says how its figures came about, and the tests that hold it are there.
func TestTheArticlesTableNamesWhatExists(t *testing.T) {
	t.Parallel()
	known, tests := shippedNames(t), allTests(t)
	quoted, how := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`^(live|rehearsed|sum|test|nothing yet)\b`)
	tables, rows, names := 0, 0, 0
	points, _, _ := strings.Cut(string(read(t, "../../docs/articles.md")), "\n## Published and safe")
	for line := range strings.Lines(points) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---"):
			continue
		case len(cells) != 4:
			t.Errorf("a row has %d columns, want 4: %s", len(cells), line)
			continue
		case strings.Contains(cells[1], "what stands for it"):
			tables++
			continue
		}
		rows++
		found := quoted.FindAllStringSubmatch(cells[1], -1)
		if len(found) == 0 && !strings.Contains(cells[1], "](") && !strings.HasPrefix(strings.TrimSpace(cells[2]), "nothing yet") {
			t.Errorf("nothing stands for %q, and the row does not say so", cells[0])
		}
		for _, m := range found {
			if names++; !known(m[1]) {
				t.Errorf("there is no %q, which stands for %q", m[1], cells[0])
			}
		}
		held := quoted.FindAllStringSubmatch(cells[3], -1)
		if len(held) == 0 {
			t.Errorf("no test holds %q", cells[0])
		}
		for _, m := range held {
			if !tests[m[1]] {
				t.Errorf("there is no test %q, which holds %q", m[1], cells[0])
			}
		}
		if !how.MatchString(strings.TrimSpace(cells[2])) {
			t.Errorf("the row of %q does not say whether its figures are live, rehearsed, a sum or of a test: %q", cells[0], cells[2])
		}
	}
	if tables != 5 || rows < 40 || names < 80 {
		t.Errorf("%d tables with %d rows and %d names: is the test looking?", tables, rows, names)
	}
	for _, wrong := range []string{"no-such-drill", "lockcore_no_total", "LockNothing", "lockdrill dance", "lockdrill run --dance", "system.dance", "L99", "acme/scheduler"} {
		if known(wrong) {
			t.Errorf("%q passes for something that exists", wrong)
		}
	}
}

// allTests are the names of all tests of this module.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	names, declared := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata") {
			for _, m := range declared.FindAllSubmatch(read(t, path), -1) {
				names[string(m[1])] = true
			}
		}
		return err
	})
	if err != nil || names["TestNoSuchTest"] {
		t.Fatal(err, "or a test that cannot be")
	}
	return names
}

// The page says of each alert that the articles' metrics cannot tell what it would take, and of no other.
func TestTheArticlesPageSaysWhichMetricsAreMissing(t *testing.T) {
	t.Parallel()
	_, page, _ := strings.Cut(string(read(t, "../../docs/articles.md")), "\n## Alerts on the articles' metrics")
	said, left := []string{}, []string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Lock\\w+)` \\| .*\\(`([^)]+)`\\) \\|$").FindAllStringSubmatch(page, -1) {
		needs := strings.Split(strings.ReplaceAll(m[2], "`", ""), ", ")
		slices.Sort(needs)
		said = append(said, m[1]+": "+strings.Join(needs, ", "))
	}
	for _, m := range regexp.MustCompile(`(\w+) is left out: the mapping has (.*)`).FindAllStringSubmatch(try(t, "export", "alerts", "--metrics", "cordum").stderr, -1) {
		needs := strings.Split(strings.ReplaceAll(m[2], "no ", ""), ", ")
		slices.Sort(needs)
		left = append(left, m[1]+": "+strings.Join(needs, ", "))
	}
	slices.Sort(said)
	slices.Sort(left)
	if len(left) == 0 || !slices.Equal(said, left) {
		t.Errorf("the page says\n%s\nand the export leaves out\n%s", strings.Join(said, "\n"), strings.Join(left, "\n"))
	}
}

// shippedNames reports whether something of that name is shipped.
func shippedNames(t *testing.T) func(name string) bool {
	t.Helper()
	names, fields := map[string]bool{}, schemaFields(t)
	for _, s := range scenarios.List() {
		names[s.Name] = true
	}
	for _, p := range experiments.ProfileNames() {
		names[p] = true
	}
	if _, err := metrics.New(registered(names)); err != nil {
		t.Fatal(err)
	}
	series := regexp.MustCompile(`series: '?(\w+)`)
	for _, of := range []string{"lockcore", "cordum"} {
		for _, m := range series.FindAllStringSubmatch(try(t, "export", "mapping", "--metrics", of).stdout, -1) {
			names[m[1]] = true
		}
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(read(t, "../../deploy/rules.yaml")), -1) {
		names[m[1]] = true
	}
	return func(name string) bool {
		if rest, ok := strings.CutPrefix(name, "lockdrill "); ok {
			return commandExists(strings.Fields(rest))
		}
		path := strings.Split(name, ".")
		return names[name] || !slices.ContainsFunc(path, func(f string) bool { return !fields[f] }) || try(t, "explain", name).code == verdict.ExitPass
	}
}

// registered takes note of the names of what is registered.
type registered map[string]bool

var fullName = regexp.MustCompile(`fqName: "(\w+)"`)

func (r registered) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 10)
	c.Describe(descs)
	close(descs)
	for d := range descs {
		r[fullName.FindStringSubmatch(d.String())[1]] = true
	}
	return nil
}

func (registered) MustRegister(...prometheus.Collector) {}
func (registered) Unregister(prometheus.Collector) bool { return false }

// schemaFields are the names of all fields of an experiment file.
func schemaFields(t *testing.T) map[string]bool {
	t.Helper()
	data, err := experiments.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	for f := range schema.Properties {
		fields[f] = true
	}
	for _, d := range schema.Defs {
		for f := range d.Properties {
			fields[f] = true
		}
	}
	return fields
}

// commandExists reports whether there is such a command with such flags.
func commandExists(args []string) bool {
	cmd, rest, err := newRootCmd(streams{Out: os.Stdout, Err: os.Stderr}, args).Find(args)
	return err == nil && cmd.HasParent() && cmd.ParseFlags(rest) == nil && (cmd.Runnable() || len(rest) == 0)
}
