package archtest

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the documents for contributors name in code exists: files, and exported names as package.Name or package.Type.Method. A capital
// word in a path, as in fault/KIND.go, stands for a name to be chosen.
func TestDocumentsNameWhatExists(t *testing.T) {
	var (
		quoted   = regexp.MustCompile("`([^`\n]+)`")
		exported = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*(?:\.[A-Z]\w*)?)$`)
		file     = regexp.MustCompile(`^[\w.-]+(?:/[\w.-]+)+$`)
		chosen   = regexp.MustCompile(`[A-Z]{3,}`)
	)
	names, packages := exports(t)
	for _, doc := range []string{"docs/architecture.md", "CONTRIBUTING.md"} {
		found := 0
		for _, m := range quoted.FindAllStringSubmatch(read(t, doc), -1) {
			switch e := exported.FindStringSubmatch(m[1]); {
			case e != nil && packages[e[1]]:
				found++
				if !names[m[1]] {
					t.Errorf("%s names %s, which is not there", doc, m[1])
				}
			case file.MatchString(m[1]) && !chosen.MatchString(m[1]):
				found++
				if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && !strings.HasPrefix(m[1], "testing/") {
					t.Errorf("%s names %s, which is not there", doc, m[1])
				}
			}
		}
		if found < 10 {
			t.Errorf("%s: %d names of code were found in it: is the test looking?", doc, found)
		}
	}
}

// exports are the exported names of the module as package.Name and package.Type.Method, and the names of its packages.
func exports(t *testing.T) (names, packages map[string]bool) {
	t.Helper()
	names, packages = map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		pkg := path.Base(s.pkg)
		packages[pkg] = true
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				of := ""
				if d.Recv != nil {
					of = receiver(d.Recv.List[0].Type) + "."
				}
				names[pkg+"."+of+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						names[pkg+"."+ts.Name.Name] = true
					}
				}
			}
		}
	}
	return names, packages
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
