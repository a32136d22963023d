package analysis

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// refusals is the last section of the ledger: what makes each guard of package drill, and it alone, refuse. It says which guard is in no
// twins there, in neither table of the documents, or has a name that is none of the constants.
func refusals(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "drill")
	guards, twins := constants(t, dir, "guardName", nil), map[string]bool{}
	eachFile(t, dir, false, func(path string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if name := nameOfGuard(n); name != "" {
				t.Errorf("%s: guard %s has no constant of type guardName", path, name)
			}
			return true
		})
	})
	eachFile(t, dir, true, func(_ string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == "eachGuard" {
				for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
					pair := e.(*ast.KeyValueExpr)
					name := unquoted(pair.Key)
					if c, ok := pair.Key.(*ast.Ident); ok {
						name = guards[c.Name]
					}
					twins[name] = true
				}
			}
			return true
		})
	})
	documented := map[string]bool{}
	for _, page := range []string{"guards.md", "kubernetes.md"} {
		text, err := os.ReadFile(filepath.Join("..", "docs", page))
		_, table, ok := strings.Cut(string(text), "| guard | refuses |\n|---|---|\n")
		if err != nil || !ok {
			t.Fatalf("%s has no table of guards (%v)", page, err)
		}
		table, _, _ = strings.Cut(table, "\n\n")
		for row := range strings.Lines(table) {
			for name := range strings.SplitSeq(strings.TrimSpace(strings.Split(row, "|")[1]), ", ") {
				if documented[name] = true; !slices.Contains(slices.Collect(maps.Values(guards)), name) {
					t.Errorf("docs/%s has a guard %s, which is none of drill's", page, name)
				}
			}
		}
	}
	said := "\n## Refusals\n\nA [guard](guards.md) refuses a run before anything is touched (13). `TestEachGuardRefusesAloneAndLetsItsTwinThrough` has two drills for each:\n" +
		"exactly this guard refuses the first, and none the second.\n\n"
	for _, name := range slices.Sorted(maps.Values(guards)) {
		if !twins[name] {
			t.Errorf("nothing makes the guard %s refuse: give it twins in eachGuard of drill", name)
		}
		if !documented[name] {
			t.Errorf("neither docs/guards.md nor docs/kubernetes.md says what the guard %s refuses", name)
		}
	}
	return said + strings.Join(slices.Sorted(maps.Values(guards)), ", ") + ".\n"
}

// nameOfGuard is a guard's name that stands as a text in the source: of a Guard, or of a question whose answer is one.
func nameOfGuard(n ast.Node) string {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	if of, ok := lit.Type.(*ast.Ident); ok && of.Name == "Guard" {
		for _, e := range lit.Elts {
			if pair := e.(*ast.KeyValueExpr); pair.Key.(*ast.Ident).Name == "Name" {
				return unquoted(pair.Value)
			}
		}
	}
	if len(lit.Elts) == 2 {
		if _, ok := lit.Elts[1].(*ast.FuncLit); ok {
			return unquoted(lit.Elts[0])
		}
	}
	return ""
}

// unquoted is the text of a literal; "" = it is none.
func unquoted(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value) // of a number: none
	return text
}
