package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history/lint"
)

// everyday are heads of columns and labels of lines that mean what they mean in English.
var everyday = strings.Fields(`lock key from to at events what who when where detail run runs why next note time event of level folder report left none finding findings
	fault replica victim successor form kind operation ratio result reason measure side started target drill besides warnings warning remarks duplicate does now limit verdict
	labels changed median probes epochs during-the-faults after-the-last-fault exit-status all-figures run-again max_run calendar machine step outcome by`)

// Every word that an output shows as a label, a head of a column, a measure, a verdict or a reason is one that explain knows.
func TestExplainKnowsEveryWordOfTheOutputs(t *testing.T) {
	t.Parallel()
	terms := shownTerms(t)
	if len(terms) < 100 {
		t.Fatalf("%d terms: this test looks in the wrong place", len(terms))
	}
	for _, term := range append(terms, "tick gap", "duplicate terminal states", "blind", "void", "no_target", "scale", "steady state", "strained", "pooled") {
		for _, part := range strings.Split(term, ", ") {
			part = strings.TrimSuffix(part, " within") // of compare: base within, head within
			if _, ok := wordOf(part); !ok && !slices.Contains(everyday, strings.ReplaceAll(strings.ToLower(part), " ", "-")) {
				t.Errorf("an output shows %q, and explain does not know it", part)
			}
		}
	}
	if got := try(t, "explain", "tick", "gap"); !strings.HasPrefix(got.stdout, "tick_gap (measure): ") {
		t.Errorf("a phrase of two words: %+v", got)
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
		if err != nil {
			t.Fatal(err)
		}
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
	for _, word := range slices.Compact(asked) {
		if !explained(word) {
			t.Errorf("an output may say %q, and explain does not know it", word)
		}
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
			if id, ok := n.Key.(*ast.Ident); ok && id.Name == "Columns" {
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
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	data := read(t, file)
	f, err := parser.ParseFile(token.NewFileSet(), file, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
