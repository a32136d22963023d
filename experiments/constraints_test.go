package experiments

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// refusals are the functions that take the words of a constraint, and which of their arguments these are.
var refusals = map[string]int{"Refuse": 2, "refuse": 2, "Check": 1, "Add": 2, "addAt": 3, "breaks": 1, "Matching": 1, "tell": 1}

// reasons are functions whose results are the words of constraints: methods that a row of a fault names are found by themselves.
var reasons = strings.Fields("outsideRedis neverRenewed standing proxyless unsupported because zeroLed missing " +
	"parseScalar parseString parseInt parseFloat ParseDuration parseRate ParseNode only untold")

// Each constraint is broken by at least one bad file: its words stand among the expected messages. No file is kept that is too big to be one:
// TestHugeFile makes it.
func TestEachConstraintHasABadFile(t *testing.T) {
	var told strings.Builder
	for _, pattern := range []string{"testdata/bad/*.txt", "testdata/gamedays/bad/*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			told.Write(data)
		}
	}
	messages := told.String()
	found := 0
	for _, folder := range []string{".", "fault", "../internal/vocab"} {
		for place, words := range constraintsIn(t, folder) {
			if found++; !strings.HasPrefix(words, "the file is over") && !regexp.MustCompile(words).MatchString(messages) {
				t.Errorf("%s: no bad file breaks this: %s", place, words)
			}
		}
	}
	t.Logf("%d constraints", found)
}

// constraintsIn are the words of the constraints of a package, as patterns, by their places.
func constraintsIn(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset, parsed := token.NewFileSet(), []*ast.File{}
	r := &reader{texts: map[string]ast.Expr{}, reasons: slices.Clone(reasons)}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		ast.Inspect(f, r.names)
	}
	all := map[string]string{}
	add := func(e ast.Expr) {
		if words := r.pattern(e); strings.Count(words, " ") > 0 {
			all[fset.Position(e.Pos()).String()] = words
		}
	}
	for _, f := range parsed {
		whole := strings.HasSuffix(fset.Position(f.Pos()).Filename, "formats.go")
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil && (whole || slices.Contains(r.reasons, n.Name.Name)) {
					returned(n.Body, add)
				}
			case *ast.KeyValueExpr:
				if key, is := n.Key.(*ast.Ident); is && whole && slices.Contains([]string{"says", "user", "query", "secret"}, key.Name) {
					add(n.Value)
				}
			case *ast.CallExpr:
				name := nameOfCall(n)
				if at, is := refusals[name]; is && at < len(n.Args) {
					add(n.Args[at])
				}
				if slices.Contains(r.reasons, name) {
					for _, arg := range n.Args {
						returned(arg, add)
					}
				}
			}
			return true
		})
	}
	return all
}

// returned shows what functions in a node return.
func returned(in ast.Node, show func(ast.Expr)) {
	ast.Inspect(in, func(n ast.Node) bool {
		if r, is := n.(*ast.ReturnStmt); is {
			for _, e := range r.Results {
				show(e)
			}
		}
		return true
	})
}

// reader knows the constants of a package, and the functions that say why.
type reader struct {
	texts   map[string]ast.Expr
	reasons []string
}

func (r *reader) names(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				r.texts[name.Name] = n.Values[i]
			}
		}
	case *ast.CallExpr:
		if nameOfCall(n) != "because" {
			break
		}
		for _, arg := range n.Args {
			if method, is := arg.(*ast.SelectorExpr); is {
				r.reasons = append(r.reasons, method.Sel.Name)
			}
		}
	}
	return true
}

func nameOfCall(n *ast.CallExpr) string {
	switch f := n.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

var verb = regexp.MustCompile(`%(?:\\\[\d\\\])?(?:\\\.\d)?[a-z]|\\\{[a-z_|0%]+\\\}`)

// pattern is a text with anything where values go, or "" of what is none.
func (r *reader) pattern(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if e.Kind != token.STRING || err != nil {
			return ""
		}
		return verb.ReplaceAllString(regexp.QuoteMeta(text), ".*")
	case *ast.BinaryExpr:
		left, right := r.pattern(e.X), r.pattern(e.Y)
		if left == "" {
			left = ".*"
		}
		if right == "" {
			right = ".*"
		}
		return left + right
	case *ast.Ident:
		if text := r.texts[e.Name]; text != nil {
			return r.pattern(text)
		}
	case *ast.CallExpr:
		if nameOfCall(e) == "Sprintf" {
			return r.pattern(e.Args[0])
		}
	}
	return ""
}
