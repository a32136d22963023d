package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/lockdrill/lockdrill"

// root of the repository, seen from this package.
const root = "../.."

// source is one Go file of the module.
type source struct {
	path  string // below the root, with slashes
	pkg   string // its folder, likewise
	test  bool
	lines int
	file  *ast.File
}

// walk calls visit for every file of the repository that a person wrote: no build results, no runs, nothing hidden but .ci,
// and no modules of their own.
func walk(t *testing.T, visit func(path string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if skipped(rel, path) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || rel == ".git" { // of a linked work tree: a file that names a path
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		visit(rel, data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func skipped(rel, path string) bool {
	switch {
	case rel == ".":
		return false
	case rel == "bin", filepath.Base(rel) == "runs" && rel != "internal/runs":
		return true
	case strings.HasPrefix(rel, ".") && rel != ".ci":
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}

// sources parses every Go file of the module, for every platform.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	fset := token.NewFileSet()
	walk(t, func(path string, data []byte) {
		if !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata/") {
			return
		}
		f, err := parser.ParseFile(fset, path, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v", err)
			return
		}
		all = append(all, source{
			path:  path,
			pkg:   filepath.ToSlash(filepath.Dir(path)),
			test:  strings.HasSuffix(path, "_test.go"),
			lines: bytes.Count(data, []byte("\n")),
			file:  f,
		})
	})
	if len(all) == 0 {
		t.Fatal("no source found: this test looks in the wrong place")
	}
	return all
}

// uses lists what a file uses of an imported package: "time.Sleep".
func (s *source) uses(pkgPath string) []string {
	local := ""
	for _, spec := range s.file.Imports {
		if strings.Trim(spec.Path.Value, `"`) != pkgPath {
			continue
		}
		local = pkgPath[strings.LastIndex(pkgPath, "/")+1:]
		if spec.Name != nil {
			local = spec.Name.Name
		}
	}
	if local == "" {
		return nil
	}
	var used []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				used = append(used, pkgPath+"."+sel.Sel.Name)
			}
		}
		return true
	})
	return used
}
