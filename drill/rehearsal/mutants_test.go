package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is one deliberate mistake: a few lines of one source file, and what stands there instead.
type mutant struct {
	name, wrong, file string
	was, now          string
}

const mutantsDir = "testdata/mutants"

// readMutant reads NAME.mutant: a line that says what is wrong, "file: PATH", and below "was:" and "now:" the lines.
func readMutant(path string) (mutant, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return mutant{}, fmt.Errorf("read mutant: %w", err)
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(path), ".mutant")}
	var head string
	var found, both bool
	head, m.was, found = strings.Cut(string(data), "\nwas:\n")
	m.was, m.now, both = strings.Cut(m.was, "now:\n")
	m.wrong, m.file, _ = strings.Cut(head, "\nfile: ")
	if !found || !both || m.was == "" || m.was == m.now || m.wrong == "" || m.file == "" {
		return mutant{}, fmt.Errorf("mutant %s is not of the form of docs/testing.md", m.name)
	}
	return m, nil
}

// apply gives the source of m's file with the mistake in it.
func (m mutant) apply() (path string, src []byte, err error) {
	path, err = filepath.Abs(filepath.Join("../..", filepath.FromSlash(m.file)))
	if err != nil {
		return "", nil, fmt.Errorf("apply mutant: %w", err)
	}
	right, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("the mutant has rotted: %s: %w", m.name, err)
	}
	if n := strings.Count(string(right), m.was); n != 1 {
		return "", nil, fmt.Errorf("the mutant has rotted: %s: its lines stand %d times in %s, not once", m.name, n, m.file)
	}
	return path, []byte(strings.Replace(string(right), m.was, m.now, 1)), nil
}

func mutants(t *testing.T) []mutant {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(mutantsDir, "*.mutant"))
	if err != nil {
		t.Fatal(err)
	}
	var ms []mutant
	for _, p := range paths {
		m, err := readMutant(p)
		if err != nil {
			t.Error(err)
			continue
		}
		ms = append(ms, m)
	}
	return ms
}

// Every mutant still fits its source file, and gives one that can be parsed. Whether it is caught, make mutants says.
func TestMutantsFit(t *testing.T) {
	ms := mutants(t)
	page, err := os.ReadFile("../../docs/testing.md")
	if err != nil || !strings.Contains(string(page), fmt.Sprintf("puts %d deliberate mistakes", len(ms))) {
		t.Errorf("%d mutants; docs/testing.md says otherwise (%v)", len(ms), err)
	}
	_, table, _ := strings.Cut(string(page), "| what | mutants |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(table, -1) {
		if !slices.ContainsFunc(ms, func(m mutant) bool { return m.name == name[1] }) {
			t.Errorf("docs/testing.md names mutant %s, which there is not", name[1])
		}
	}
	for _, m := range ms {
		path, src, err := m.apply()
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.HasSuffix(path, "_test.go") {
			t.Errorf("mutant %s is one of a test", m.name)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution); err != nil {
			t.Errorf("the mutant has rotted: %s: %v", m.name, err)
		}
	}
}

// mutantLimit is how long the truth test of one mutant may take: a world without an end is a mistake too, but not one that was caught.
const mutantLimit = 3 * time.Minute

// TestMutantsAreCaught prints the table of make mutants: LOCKDRILL_MUTANTS is all, or names with commas between them.
func TestMutantsAreCaught(t *testing.T) {
	which := os.Getenv("LOCKDRILL_MUTANTS")
	if which == "" {
		t.Skip("LOCKDRILL_MUTANTS names none: make mutants")
	}
	dir, names, tried := t.TempDir(), strings.Split(which, ","), 0
	row := func(name, file, wrong, caught string, took time.Duration) {
		fmt.Printf("%-30s %-24s %5.1fs  %s\n%56s %s\n", name, file, took.Seconds(), wrong, "", caught)
	}
	control := truthOf(t.Context(), dir, nil)
	row("(none)", "-", "the control: nothing is wrong", control.text(), control.took)
	if control.caught != "" || control.err != nil {
		t.Fatal("the truth test fails without a mutant: the table would mean nothing")
	}
	for _, m := range mutants(t) {
		if which != "all" && !slices.Contains(names, m.name) {
			continue
		}
		tried++
		c := truthOf(t.Context(), dir, &m)
		if c.err == nil && c.caught == "" {
			c = cases(t.Context(), dir, &m)
		}
		row(m.name, m.file, m.wrong, c.text(), c.took)
		switch {
		case c.err != nil:
			t.Errorf("mutant %s: %v", m.name, c.err)
		case c.caught == "":
			t.Errorf("mutant %s survives", m.name)
		}
	}
	if which != "all" && tried != len(names) {
		t.Errorf("of %s, there are %d mutants", which, tried)
	}
	fmt.Printf("%d mutants\n", tried)
}

// court is what became of one mutant before the truth test.
type court struct {
	caught string // by what; "" = by nothing
	took   time.Duration
	err    error // nothing is known
}

func (c court) text() string {
	switch {
	case c.err != nil:
		return "ERROR " + c.err.Error()
	case c.caught == "":
		return "not caught by anything"
	}
	return "caught by " + c.caught
}

// How the truth test says what it found.
var (
	failed    = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	complaint = regexp.MustCompile(`(?m)^\s+(?:truth|observed|outside|readings)_test\.go:\d+: (.*)$`)
)

// truthOf builds the truth test with m in the place of what is right, and runs it.
func truthOf(ctx context.Context, dir string, m *mutant) (c court) {
	begun := time.Now()
	defer func() { c.took = time.Since(begun) }()
	bin := filepath.Join(dir, "truth.test")
	build := []string{"test", "-c", "-ldflags", "-s -w", "-o", bin}
	if m != nil {
		overlay, err := m.overlay(dir)
		if err != nil {
			return court{err: err}
		}
		build = append(build, "-overlay", overlay)
	}
	if out, err := exec.CommandContext(ctx, "go", append(build, ".")...).CombinedOutput(); err != nil {
		return court{err: fmt.Errorf("it does not compile: %s", out)}
	}
	ctx, stop := context.WithTimeout(ctx, mutantLimit)
	defer stop()
	out, err := exec.CommandContext(ctx, bin, "-test.run", "^(TestTruthInRange|TestTruthFromOutside|TestTruthOfReadings|TestSeedsThatFailed|TestSeedsFromOutsideThatFailed|TestSwarmSeedsFromOutsideThatFailed)$").CombinedOutput()
	said, by := complaint.FindSubmatch(out), failed.FindSubmatch(out)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return court{}
	case ctx.Err() != nil:
		return court{err: fmt.Errorf("no end within %s", mutantLimit)}
	case errors.As(err, &exit) && said != nil && by != nil:
		return court{caught: string(by[1]) + ": " + string(said[1])}
	}
	return court{err: fmt.Errorf("run the truth test: %w: %s", err, out)}
}

// cases are what random worlds do not tell: where two kinds of evidence say the same, only a history without the one shows a mistake in
// the other, and none loses a line. So a mutant of the judge, or of what it reads, that the truth test passes is held to the judge's own tests.
func cases(ctx context.Context, dir string, m *mutant) (c court) {
	begun := time.Now()
	defer func() { c.took = time.Since(begun) }()
	overlay, err := m.overlay(dir)
	if err != nil || !strings.HasPrefix(m.file, "analysis/") && !strings.HasPrefix(m.file, "history/") {
		return court{err: err}
	}
	// The ledger only counts mutants.
	out, err := exec.CommandContext(ctx, "go", "test", "-count=1", "-skip", "^TestTheLedgerOfOracles$", "-overlay", overlay, "../../analysis").CombinedOutput()
	var exit *exec.ExitError
	switch by := failed.FindAllSubmatch(out, -1); {
	case err == nil:
		return court{}
	case errors.As(err, &exit) && len(by) > 0:
		return court{caught: "the judge's " + string(by[len(by)-1][1])}
	}
	return court{err: fmt.Errorf("run the judge's tests: %w: %s", err, out)}
}

// overlay writes the mutant and the file that puts it into the place of its source.
func (m mutant) overlay(dir string) (string, error) {
	path, src, err := m.apply()
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, m.name+".go")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	overlay := filepath.Join(dir, m.name+".json")
	return overlay, errors.Join(os.WriteFile(mutated, src, 0o600), os.WriteFile(overlay, replace, 0o600))
}
