package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// Where kinds are listed: their table, and those of their injectors and simulations.
var listsKinds = []string{"injectors/kinds.go", "drill/rehearsal/faults.go"}

// The own type of a kind is known where it is made and where it is simulated.
var knowsTypes = []string{"injectors", "drill/rehearsal"}

// Nobody outside asks which kind a fault is: what differs is asked of fault.Of.
func TestKindsAreKnownToFaultOnly(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.pkg == "experiments/fault" {
			continue
		}
		for _, why := range decidesByKind(s.file, slices.Contains(listsKinds, s.path), slices.Contains(knowsTypes, s.pkg)) {
			t.Errorf("%s %s: make it a trait, or a text, of its row in experiments/fault", s.path, why)
		}
	}
}

// decidesByKind says where a file decides by the kind of a fault.
func decidesByKind(file *ast.File, lists, types bool) (found []string) {
	note := func(why string) { found = append(found, why) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				if word := kindWord(n.X, n.Y) + kindWord(n.Y, n.X); word != "" {
					note("compares a kind with " + word)
				}
			}
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					if n.Tag != nil && kindWord(e, n.Tag) != "" {
						note("switches on the kind " + kindWord(e, n.Tag))
					}
				}
			}
		case *ast.TypeSwitchStmt:
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					if specType(e) != "" {
						note("switches on the type of a fault, " + specType(e))
					}
				}
			}
		case *ast.TypeAssertExpr:
			if n.Type != nil && specType(n.Type) != "" && !types {
				note("takes a fault for a " + specType(n.Type))
			}
		case *ast.CompositeLit:
			if words := keysOf(n); len(words) > 2 && !lists {
				note("lists kinds: " + strings.Join(words, ", "))
			}
		}
		return true
	})
	return found
}

// kindWord is the kind that a literal names, where it is held against something that is called a kind.
func kindWord(literal, against ast.Expr) string {
	word, ok := literalOf(literal)
	if !ok || !slices.Contains(fault.Kinds(), word) {
		return ""
	}
	if call, ok := against.(*ast.CallExpr); ok {
		against = call.Fun
	}
	name := ""
	switch a := against.(type) {
	case *ast.Ident:
		name = a.Name
	case *ast.SelectorExpr:
		name = a.Sel.Name
	}
	if strings.EqualFold(name, "kind") {
		return word
	}
	return ""
}

// keysOf are the kinds that are keys of a literal map.
func keysOf(lit *ast.CompositeLit) (words []string) {
	if _, ok := lit.Type.(*ast.MapType); !ok {
		return nil
	}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if word, ok := literalOf(kv.Key); ok && slices.Contains(fault.Kinds(), word) {
				words = append(words, word)
			}
		}
	}
	return words
}

func literalOf(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	word, err := strconv.Unquote(lit.Value)
	return word, err == nil
}

// specType is the name of the type of a kind that e points at, or "".
func specType(e ast.Expr) string {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return ""
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "fault" {
		return ""
	}
	for _, kind := range fault.Kinds() {
		if reflect.TypeOf(fault.New(kind)).Elem().Name() == sel.Sel.Name {
			return "fault." + sel.Sel.Name
		}
	}
	return ""
}

// The test itself is tried on what it must refuse, and on what it must not.
func TestDecidesByKind(t *testing.T) {
	for text, want := range map[string]int{
		`if f.Kind == "kill" {}`:                                   1,
		`if "pause" != f.Kind() {}`:                                1,
		`switch kind { case "store", "clock": }`:                   2,
		`switch f.Spec.(type) { case *fault.Kill: }`:               1,
		`_ = f.Spec.(*fault.Store)`:                                1,
		`_ = map[string]int{"kill": 1, "pause": 2, "store": 3}`:    1,
		`if s.form == "pause" {}`:                                  0,
		`switch e.Kind { case history.FaultVoid: }`:                0,
		`_ = f.Spec.(fault.Aimed)`:                                 0,
		`_ = map[string]string{"store": "the store", "now": "at"}`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc x() { "+text+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := decidesByKind(file, false, false); len(got) != want {
			t.Errorf("%s: %v, want %d", text, got, want)
		}
	}
}
