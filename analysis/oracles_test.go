package analysis

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/golden"
	"github.com/lockdrill/lockdrill/lockcore/mutants"
)

// oracle is what shows that one answer can be given: locks that are wrong on purpose, recorded cases, and tests that name it.
type oracle struct{ mutants, cases, tests []string }

func (o *oracle) none() bool { return len(o.mutants)+len(o.cases)+len(o.tests) == 0 }

// oracles are those of each answer of one kind, by its code.
type oracles map[string]*oracle

func (o oracles) of(code string) *oracle {
	if o[code] == nil {
		o[code] = &oracle{}
	}
	return o[code]
}

// constants are the names and values of a package's constants of one type, as its source has them. A value may be that of a constant of
// package history.
func constants(t *testing.T, dir, typed string, of map[string]string) map[string]string {
	t.Helper()
	found := map[string]string{}
	value := func(e ast.Expr) string {
		if c, ok := e.(*ast.CallExpr); ok {
			e = c.Args[0]
		}
		switch e := e.(type) {
		case *ast.BasicLit:
			return strings.Trim(e.Value, `"`)
		case *ast.SelectorExpr:
			return of[e.Sel.Name]
		}
		return ""
	}
	isOf := func(v *ast.ValueSpec, i int) bool {
		if of, ok := v.Type.(*ast.Ident); ok {
			return of.Name == typed
		}
		c, ok := v.Values[i].(*ast.CallExpr)
		if !ok {
			return false
		}
		fn, ok := c.Fun.(*ast.Ident)
		return ok && fn.Name == typed
	}
	eachFile(t, dir, false, func(_ string, f *ast.File) {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i >= len(v.Values) || !isOf(v, i) {
						continue
					}
					if found[name.Name] = value(v.Values[i]); found[name.Name] == "" {
						t.Errorf("%s: the value of %s is not to be read", dir, name.Name)
					}
				}
			}
		}
	})
	if len(found) == 0 {
		t.Fatalf("%s has no constants of type %s", dir, typed)
	}
	return found
}

// eachFile parses the Go files of a folder: its tests, or the others.
func eachFile(t *testing.T, dir string, tests bool, do func(path string, f *ast.File)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") != tests {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		do(p, f)
	}
}

// oraclesFile says for each answer which tests fail where the judge never gives it, as make oracles found out.
var oraclesFile = filepath.Join("testdata", "oracles.txt")

// noticedBy reads oraclesFile: KIND CODE: TESTS. Each of the tests has to exist.
func noticedBy(t *testing.T) map[string][]string {
	t.Helper()
	exist := map[string]bool{}
	eachFile(t, ".", true, func(_ string, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				exist[fn.Name.Name] = true
			}
		}
	})
	for name := range cases {
		exist["TestRecordedHistories/"+name] = true
	}
	data, err := os.ReadFile(oraclesFile)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		at := strings.LastIndex(line, ": ") // a sentence may have a colon as well
		if at < 0 {
			continue
		}
		answer := line[:at]
		for _, test := range strings.Fields(line[at+1:]) {
			if !exist[test] {
				t.Errorf("%s: %s is noticed by %s, which is gone: make oracles", oraclesFile, answer, test)
			}
			found[answer] = append(found[answer], test)
		}
	}
	return found
}

// judgedOracles judges every recorded case, and says which rows it turns red, which findings it makes, and which evidence it lacks.
func judgedOracles(t *testing.T) (rows, findings, lacks, voids oracles) {
	t.Helper()
	rows, findings, lacks, voids = oracles{}, oracles{}, oracles{}, oracles{}
	table := measures()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		e, h := load(t, name)
		j := Judge(e, h)
		add := func(o oracles, code string) {
			if of := o.of(code); !slices.Contains(of.cases, name) {
				of.cases = append(of.cases, name)
			}
		}
		missing := func(ms []verdict.Missing) {
			for _, m := range ms {
				add(lacks, string(m.Code))
			}
		}
		missing(j.Missing)
		for i := range j.SLOs {
			r := &j.SLOs[i]
			missing(r.Missing)
			if r.Verdict == verdict.Fail && r.Question != nil {
				add(rows, redRow(table, r.Question.Figure()))
			}
		}
		for _, f := range j.Findings {
			add(findings, string(f.Code))
		}
		for _, shot := range NewJudger(e).whole(h).Shots {
			if why := shot.WhyVoid; why.Code != "" {
				add(voids, string(why.Code))
			}
			for _, trial := range shot.Trials {
				if trial.Void.Code != "" {
					add(voids, string(trial.Void.Code))
				}
			}
		}
	}
	return rows, findings, lacks, voids
}

// parts are the measures of which each part is counted in a way of its own: it has a row of its own in the ledger.
var parts = map[string][]string{"abandonment": {verdict.Missed, verdict.Late, verdict.Needless}, "lock_debt": {"max", "total", "effective", "waiter_seconds"}}

// rowNames are the rows of the ledger: those of the table, and their parts.
func rowNames(table map[string]*measure) (names []string) {
	for name := range table {
		if parts[name] == nil {
			names = append(names, name)
		}
		for _, part := range parts[name] {
			names = append(names, name+"."+part)
		}
	}
	slices.Sort(names)
	return names
}

// redRow is the row of the ledger that a mutant's Red names: takeover.max is one of takeover.
func redRow(table map[string]*measure, name string) string {
	measure, rest, _ := strings.Cut(name, ".")
	if table[name] != nil || slices.Contains(parts[measure], rest) {
		return name
	}
	if _, part, ok := strings.Cut(rest, "."); ok && table[measure+"."+part] != nil { // alert.NAME.fired
		return measure + "." + part
	}
	return measure
}

// uncoded are the findings that have no code, each by the longest stretch of its sentence that stands in the source: what is handed to find,
// contradict or Finding, said by a variable of that function, or returned by unlike.
func uncoded(t *testing.T) (all []string) {
	t.Helper()
	add := func(x ast.Node) {
		longest := ""
		ast.Inspect(x, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				for stretch := range strings.SplitSeq(verbs.ReplaceAllString(unquoted(e), "%"), "%") {
					if stretch = strings.Trim(stretch, ",: "); len(stretch) > len(longest) {
						longest = stretch
					}
				}
			}
			return true
		})
		if longest != "" {
			all = append(all, longest)
		}
	}
	for _, dir := range []string{".", "facts"} {
		eachFile(t, dir, false, func(_ string, f *ast.File) {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				said := map[string]bool{} // variables whose texts are findings
				ast.Inspect(fn, func(n ast.Node) bool {
					if r, ok := n.(*ast.ReturnStmt); ok && fn.Name.Name == "unlike" {
						add(r)
					}
					if x := saying(n); x != nil {
						add(x)
						if v, ok := x.(*ast.Ident); ok {
							said[v.Name] = true
						}
					}
					return true
				})
				ast.Inspect(fn, func(n ast.Node) bool {
					if a, ok := n.(*ast.AssignStmt); ok {
						if v, ok := a.Lhs[0].(*ast.Ident); ok && said[v.Name] {
							add(a.Rhs[0])
						}
					}
					return true
				})
			}
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var verbs = regexp.MustCompile(`%[0-9.]*[a-zA-Z]`)

// saying is what n, which may be a finding without a code, says; nil = it is none.
func saying(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		fn, ok := n.Fun.(*ast.SelectorExpr)
		switch {
		case !ok:
		case fn.Sel.Name == "find" || fn.Sel.Name == "contradict":
			return n.Args[0]
		case fn.Sel.Name == "Finding" && unquoted(n.Args[0]) == "":
			if _, is := n.Args[0].(*ast.BasicLit); is {
				return n.Args[1]
			}
		}
	case *ast.CompositeLit:
		if of, ok := n.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Finding" && len(n.Elts) > 0 {
			if first, ok := n.Elts[0].(*ast.KeyValueExpr); ok && first.Key.(*ast.Ident).Name == "What" {
				return first.Value
			}
		}
	}
	return nil
}

// answerKind is one kind of answer beside the rows: its codes by the names of their constants.
type answerKind struct {
	key, title, about string
	codes             map[string]string
}

func answerKinds(t *testing.T) []answerKind {
	t.Helper()
	reasons := constants(t, filepath.Join("..", "history"), "VoidReason", nil)
	return []answerKind{
		{"finding", "Findings", "A finding is a contradiction between what is claimed and what is seen.", constants(t, "verdict", "FindingCode", nil)},
		{"void", "Voids", "A shot, or one trial of it, that is void counts for nothing.", constants(t, "verdict", "VoidCode", reasons)},
		{"lack", "Missing evidence", "Without this a question is not reached, and its row is inconclusive.", constants(t, "verdict", "MissingCode", nil)},
	}
}

// docs/oracles.md says of each answer of the judge, and of each guard, what proves that it can be given. It is what the tree has: a mutant, a recorded case or
// a test that goes in silence is a difference, and no answer may be left that nothing proves.
func TestTheLedgerOfOracles(t *testing.T) {
	rows, findings, lacks, voids := judgedOracles(t)
	table := measures()
	for _, m := range mutants.All() {
		for _, s := range m.Shows {
			for _, red := range strings.Fields(s.Red) {
				of, code := rows, redRow(table, red)
				if found, ok := strings.CutPrefix(red, "finding:"); ok {
					of, code = findings, found
				}
				o := of.of(code)
				if !slices.Contains(o.mutants, m.Name) {
					o.mutants = append(o.mutants, m.Name)
				}
			}
		}
	}
	names := rowNames(table)
	for name := range rows {
		if !slices.Contains(names, name) {
			t.Errorf("a mutant or a case turns %s red, which is no row of the table", name)
		}
	}
	of, noticed := map[string]oracles{"finding": findings, "void": voids, "lack": lacks}, noticedBy(t)
	var b strings.Builder
	patches, err := filepath.Glob(filepath.Join("..", "drill", "rehearsal", "testdata", "mutants", "*.mutant"))
	if err != nil {
		t.Fatal(err)
	}
	bad, err := filepath.Glob(filepath.Join("..", "experiments", "testdata", "bad", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for page, said := range map[string]string{"docs/testing.md": "puts %d deliberate mistakes", "Makefile": "mutants: ## %d deliberate mistakes"} {
		text, err := os.ReadFile(filepath.Join("..", page))
		if said = fmt.Sprintf(said, len(patches)); err != nil || !strings.Contains(string(text), said) {
			t.Errorf("%s does not say %q (%v)", page, said, err)
		}
	}
	fmt.Fprintf(&b, ledgerHead, len(mutants.All()), len(cases), len(patches), len(bad))
	b.WriteString("\n## Measures\n\nA row of the table is turned red by a lock that is wrong on purpose, or by a recorded case.\n\n|measure|wrong locks|recorded cases|noticed by|\n|---|---|---|---|\n")
	open := map[string]bool{}
	for _, name := range names {
		o := rows.of(name)
		o.tests = noticed["measure "+name]
		fmt.Fprintf(&b, "|`%s`|%s|%s|%s|\n", name, listed(o.mutants), listed(o.cases), listed(o.tests))
		open["measure "+name] = o.none()
	}
	for _, k := range answerKinds(t) {
		wrong := slices.ContainsFunc(slices.Collect(maps.Values(of[k.key])), func(o *oracle) bool { return len(o.mutants) > 0 })
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", k.title, k.about)
		if wrong {
			b.WriteString("|code|wrong locks|recorded cases|noticed by|\n|---|---|---|---|\n")
		} else {
			b.WriteString("|code|recorded cases|noticed by|\n|---|---|---|\n")
		}
		for _, code := range slices.Compact(slices.Sorted(maps.Values(k.codes))) {
			o := of[k.key].of(code)
			o.tests = noticed[k.key+" "+code]
			if fmt.Fprintf(&b, "|`%s`|", code); wrong {
				b.WriteString(listed(o.mutants) + "|")
			}
			fmt.Fprintf(&b, "%s|%s|\n", listed(o.cases), listed(o.tests))
			open[k.key+" "+code] = o.none()
		}
		if k.key == "finding" {
			b.WriteString("\nThose that have no code, by what they say:\n\n|says|noticed by|\n|---|---|\n")
			for _, said := range uncoded(t) {
				tests := noticed["sentence "+said]
				fmt.Fprintf(&b, "|%s|%s|\n", said, listed(tests))
				open["sentence "+said] = len(tests) == 0
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(open)) {
		if open[name] {
			t.Errorf("nothing proves %s: record a case, or write a test that notices when it is never given, and run make oracles", name)
		}
	}
	b.WriteString(refusals(t))
	golden.Compare(t, filepath.Join("..", "docs", "oracles.md"), b.String(), *update)
}

// listed names what proves an answer: the first, and how many more.
func listed(names []string) string {
	const shown = 1
	if len(names) == 0 {
		return ""
	}
	var parts []string
	for _, n := range names[:min(shown, len(names))] {
		parts = append(parts, "`"+n+"`")
	}
	if more := len(names) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("+%d", more))
	}
	return strings.Join(parts, ", ")
}

const ledgerHead = `# What proves that an answer can be given

After this page you can say of each answer of the judge, and of each refusal, what would make it appear, and find the place.

A test writes this page (` + "`go test ./analysis -run Ledger -update`" + `) from %d locks and workers that are [wrong on purpose](selftest.md),
%d [recorded cases](testing.md#fixtures), %d [mistakes in our own code](testing.md#mutants) and %d files that ` + "`validate`" + ` refuses. One that goes is a difference here.
"Noticed by" are tests that fail when the judge never gives the answer: ` + "`make oracles`" + ` drops each in turn and finds out.
`
