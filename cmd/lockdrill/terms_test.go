package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history/lint"
	"github.com/lockdrill/lockdrill/lockcore/metrics"
	"github.com/lockdrill/lockdrill/scenarios"
)

// everyday are heads of columns and labels of lines that mean what they mean in English.
var everyday = strings.Fields(`lock key from to at events what who when where detail run runs why next note time event of level folder report left none finding findings
	fault replica form kind operation ratio result reason measure side started target drill besides warnings warning remarks duplicate does now limit verdict
	labels changed probes epochs during-the-faults after-the-last-fault exit-status all-figures run-again max_run machine step outcome by`)

// Every word that an output shows as a label, a head of a column, a measure, a verdict or a reason is one that explain knows.
func TestExplainKnowsEveryWordOfTheOutputs(t *testing.T) {
	t.Parallel()
	terms := shownTerms(t)
	if len(terms) < 80 {
		t.Fatalf("%d terms: this test looks in the wrong place", len(terms))
	}
	for _, term := range append(terms, "tick gap", "duplicate terminal states", "blind", "void", "no_target", "scale", "steady state", "strained", "pooled", "burst", "jeopardy", "horizon", "residual", "trial", "redelivery", "in flight", "renewal", "band", "breach", "kill switch", "same") {
		for _, part := range strings.Split(term, ", ") {
			part = strings.TrimSuffix(part, " within") // of compare: base within, head within
			if !explained(part) && !slices.Contains(everyday, strings.ReplaceAll(strings.ToLower(part), " ", "-")) {
				t.Errorf("an output shows %q, and explain does not know it", part)
			}
		}
	}
}

// explained reports whether explain knows a word.
func explained(word string) bool {
	_, known := wordOf(word)
	_, row := rowNamed(word)
	return known || row || len(fieldsNamed(word)) > 0 || len(codesNamed(word)) > 0
}

// Every code of verdict.json, every exit status and the name of every row of the shipped drills is one that explain knows.
func TestExplainKnowsEveryCodeAndRow(t *testing.T) {
	t.Parallel()
	var asked []string
	for file, ofType := range map[string]string{"finding.go": "FindingCode", "missing.go": "MissingCode", "verdict.go": "Attribution", "void.go": "VoidCode"} {
		codes := constantsOf(t, "../../analysis/verdict/"+file, ofType)
		if len(codes) < 4 {
			t.Errorf("%d constants of %s: this test looks in the wrong place", len(codes), ofType)
		}
		asked = append(asked, codes...)
	}
	for file, prefix := range map[string]string{"../../analysis/verdict/run.go": "Status", "../../analysis/verdict/verdict.go": "Class", "../../experiments/fault/fault.go": "Class", "../../history/bodies.go": "Abort",
		"../../history/readings.go": "Gone"} {
		words := constants(t, file, "", prefix)
		if len(words) < 2 {
			t.Errorf("%d words of %s: this test looks in the wrong place", len(words), file)
		}
		asked = append(asked, words...)
	}
	asked = slices.Concat(asked, constantsOf(t, "../../analysis/verdict/verdict.go", "Verdict"), constantsOf(t, "../../history/reasons.go", "VoidReason"),
		constantsOf(t, "../../history/reasons.go", "Unsteady"), constantsOf(t, "../../history/readings.go", "UnreadReason"), fault.Kinds(), experiments.Words())
	for _, r := range lint.Rules() {
		asked = append(asked, r.Code)
	}
	for _, e := range verdict.Exits() {
		asked = append(asked, e.Name, strconv.Itoa(e.Code))
	}
	rows := 0
	for _, file := range append(globbed(t, "../../scenarios/*.yaml"), globbed(t, "../../experiments/testdata/*.yaml")...) {
		e, err := experiments.Load(file)
		must(t, err)
		for _, l := range append(e.Rows(), e.Expectations()...) {
			row := verdict.SLOResult{Measure: l.Name()}
			asked = append(asked, row.Name())
			rows++
		}
	}
	if rows < 50 {
		t.Errorf("%d rows", rows)
	}
	slices.Sort(asked)
	asked = append(asked, strings.Fields("L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 L11 L12 stale superseded repeated unattributed conflicting crash graceful evict force_delete drain cordon")...)
	for _, word := range slices.Compact(asked) {
		if !explained(word) {
			t.Errorf("an output may say %q, and explain does not know it", word)
		}
	}
	seen := map[string]bool{}
	for _, w := range words() {
		if seen[w.name] || w.kind == "" || len(w.meaning) < 10 {
			t.Errorf("%q is there twice, or not whole: %+v", w.name, w)
		}
		seen[w.name] = true
	}
	for _, word := range []string{"takeover.foo", "nothing.max", "99"} {
		if explained(word) {
			t.Errorf("explain pretends to know %q", word)
		}
	}
}

// constantsOf are the texts of the constants of a type.
func constantsOf(t *testing.T, file, ofType string) []string { return constants(t, file, ofType, "") }

// constants are the texts of those of a type, or, where none is named, of those whose names begin so.
func constants(t *testing.T, file, ofType, prefix string) (all []string) {
	t.Helper()
	ast.Inspect(parsed(t, file), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		x := spec.Values[0]
		typed, _ := spec.Type.(*ast.Ident)
		if call, is := x.(*ast.CallExpr); is && len(call.Args) == 1 {
			typed, _ = call.Fun.(*ast.Ident)
			x = call.Args[0]
		}
		if lit, is := x.(*ast.BasicLit); is && lit.Kind == token.STRING && (ofType == "" || typed != nil && typed.Name == ofType) {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}

// shownTerms are collected from the code that shows them.
func shownTerms(t *testing.T) []string {
	t.Helper()
	var terms []string
	add := func(x ast.Expr) {
		if lit, ok := x.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && strings.Trim(s, " #") != "" {
				terms = append(terms, strings.TrimSpace(s))
			}
		}
	}
	addAll := func(x ast.Expr) {
		if list, ok := x.(*ast.CompositeLit); ok {
			for _, e := range list.Elts {
				add(e)
			}
		}
	}
	see := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if id, ok := n.Type.(*ast.Ident); ok && id.Name == "item" && len(n.Elts) > 0 {
				add(n.Elts[0])
			}
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok && strings.EqualFold(id.Name, "columns") {
				addAll(n.Value)
			}
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.SelectorExpr:
				if f.Sel.Name == "item" && len(n.Args) == 2 {
					add(n.Args[0])
				}
			case *ast.Ident:
				if f.Name == "tableOf" {
					addAll(n.Args[1])
				}
			}
		}
		return true
	}
	for _, glob := range []string{"../../reports/*.go", "../../reports/timeline/*.go"} {
		for _, file := range globbed(t, glob) {
			ast.Inspect(parsed(t, file), see)
		}
	}
	terms = append(terms, constantsOf(t, "../../history/reasons.go", "VoidReason")...)
	terms = append(terms, constantsOf(t, "../../analysis/verdict/void.go", "VoidCode")...)
	ast.Inspect(parsed(t, "../../analysis/table.go"), func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			if lit, ok := kv.Key.(*ast.BasicLit); ok { // lock_debt.max is lock_debt to explain
				name, _, _ := strings.Cut(strings.Trim(lit.Value, `"`), ".")
				terms = append(terms, name)
			}
		}
		return true
	})
	for _, e := range verdict.Exits() {
		terms = append(terms, e.Name)
	}
	return terms
}

func globbed(t *testing.T, glob string) []string {
	t.Helper()
	files, err := filepath.Glob(glob)
	must(t, err)
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	data := read(t, file)
	f, err := parser.ParseFile(token.NewFileSet(), file, data, 0)
	must(t, err)
	return f
}

// docs/articles.md says for each point of the articles what stands for it: every scenario, profile, field, word, metric, alert and command
// in that column exists, commands that need no run and no server of the reader's work as they stand, each row says how its figures came
// about, and the tests that hold it are there.
func TestTheArticlesTableNamesWhatExists(t *testing.T) {
	t.Parallel()
	known, tests, inTable := shippedNames(t), allTests(t), heldByATable(t)
	quoted, how := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`^(live|rehearsed|sum|test|nothing yet)\b`)
	works := regexp.MustCompile(`^lockdrill (tune --p99|explain|plan) `)
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
			} else if works.MatchString(m[1]) {
				try(t, strings.Fields(m[1])[1:]...).ends(t, verdict.ExitPass)
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
			if of := inTable[m[1]]; of != nil && !slices.ContainsFunc(found, func(m []string) bool { return of(m[1]) }) {
				t.Errorf("%s goes through a table, and has nothing of what stands for %q", m[1], cells[0])
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

// heldByATable says of the tests that go through a table what of a row's names is in it: a row that has none of these is not held.
func heldByATable(t *testing.T) map[string]func(name string) bool {
	t.Helper()
	var subjects []struct {
		Scenario string
		Mutants  []any
	}
	must(t, yaml.Unmarshal(read(t, "../../scenarios/testdata/mutants.yaml"), &subjects))
	drills := map[string]bool{}
	for _, s := range subjects {
		drills[s.Scenario] = len(s.Mutants) > 0
	}
	fires := map[string]bool{}
	for _, m := range regexp.MustCompile(`fires: \[\]string\{([^}]*)\}`).FindAllStringSubmatch(string(read(t, "../../deploy/rules_test.go")), -1) {
		for alert := range strings.SplitSeq(m[1], ", ") {
			fires[strings.Trim(alert, `"`)] = true
		}
	}
	return map[string]func(string) bool{
		"TestNoScenarioIsGreenWithAMutantOfItsSubject":   func(name string) bool { return drills[name] },
		"TestAlertsFireAsTheySay":                        func(name string) bool { return fires[name] },
		"TestEveryAnimalIsFoundOutAndNoControlIsAccused": func(name string) bool { return name == "lockdrill selftest" },
		"TestScenariosRehearse":                          func(name string) bool { _, ok := scenarios.Get(name); return ok },
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
	_, page, _ := strings.Cut(string(read(t, "../../docs/articles.md")), "the articles name no metric; ")
	sorted := func(needs string) string { return strings.Join(slices.Sorted(strings.SplitSeq(needs, ", ")), ", ") }
	said, left := []string{}, []string{}
	for _, m := range regexp.MustCompile("`(Lock\\w+)` \\(([^)]+)\\)").FindAllStringSubmatch(page, -1) {
		said = append(said, m[1]+": "+sorted(strings.ReplaceAll(m[2], "`", "")))
	}
	for _, m := range regexp.MustCompile(`(\w+) is left out: the mapping has (.*)`).FindAllStringSubmatch(try(t, "export", "alerts", "--metrics", "cordum").stderr, -1) {
		left = append(left, m[1]+": "+sorted(strings.ReplaceAll(m[2], "no ", "")))
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
	must(t, err)
	var schema struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	must(t, json.Unmarshal(data, &schema))
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
