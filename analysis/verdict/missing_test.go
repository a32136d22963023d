package verdict

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// Every code has its sentences, and each of their places a parameter at most.
func TestEveryMissingCodeHasSentences(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "missing.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if said := words[MissingCode(code)]; said.why == "" || said.next == "" {
			t.Errorf("%s: %+v", code, said)
		}
		n++
		return true
	})
	if n < 40 {
		t.Errorf("%d codes found: this test looks in the wrong place", n)
	}
}

func TestLackingFillsItsSentences(t *testing.T) {
	m := Lacking(MissingMoreTrials, "1 of 3 kills missed it", "p95", 93, 59, "promise a max")
	if m.Code != MissingMoreTrials || m.Why != "1 of 3 kills missed it; p95 at 95% confidence then needs 93, and 59 if none misses." || m.Next != "promise a max" {
		t.Errorf("%+v", m)
	}
	for _, m := range []Missing{Lacking(MissingEnd), Lacking(MissingEvents, "job"), Lacking(MissingSteadyState, ": r1 is not ready", "see r1.stderr")} {
		if strings.Contains(fmt.Sprint(m), "%!") {
			t.Errorf("%+v", m)
		}
	}
}
