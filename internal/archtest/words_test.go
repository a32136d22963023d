package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// spoken are files that may look into words, each with its reason: they are words of others, or nothing is decided by them.
var spoken = map[string]string{
	"analysis/advicetest/advicetest.go": "tests of what advice says",
	"analysis/reach.go":                 "abortText: whether the sentence of an abort begins with its word already",
	"cmd/lockdrill/run.go":              "errors of cobra have no types",
	"stores/redis/rights.go":            "answers of Redis and of its Sentinels",
	"injectors/bursts.go":               "a fixed phrase of the worker protocol, with a figure",
	"stores/redis/kind.go":              "an answer of the store",
	"internal/kube/exec.go":             "an answer of the API server",
	"internal/kubetest/podrunner.go":    "an answer of the API server",
	"internal/kube/waiting.go":          "the cluster's own codes: ErrImagePull, ImagePullBackOff, InvalidImageName",
	"internal/linestream/linestream.go": "an answer of Redis",
	"proxies/tap/decode.go":             "errors of encoding/json for unknown fields have no type",
	"lockcore/redisstore/redisstore.go": "answers of Redis",
	"lockcore/redisstore/once.go":       "an answer of Redis",
	"probes/effects/stream.go":          "answers of Redis",
	"stores/redis/keyspace_canary.go":   "answers of Redis",
	"stores/redis/lockkeys.go":          "answers of Redis",
}

// Whoever decides by the words of a sentence decides otherwise once somebody has improved the sentence. Reasons have codes.
func TestNothingIsDecidedByWords(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || within(s.pkg, "reports") {
			continue
		}
		for _, what := range searched(s.file) {
			if used[s.path] = true; spoken[s.path] == "" {
				t.Errorf("%s searches words in %s: give the reason a code, and ask for that", s.path, what)
			}
		}
	}
	for path := range spoken {
		if !used[path] {
			t.Errorf("%s does not look into words any more: take it out of the list", path)
		}
	}
}

// searched lists the sentences in which a file searches: fields and variables that hold reasons, and texts of errors.
func searched(file *ast.File) []string {
	searches := []string{"Contains", "HasPrefix", "HasSuffix", "Index", "EqualFold", "Cut", "CutPrefix", "CutSuffix"}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(searches, f.Sel.Name) {
			return true
		}
		if pkg, ok := f.X.(*ast.Ident); ok && pkg.Name == "strings" {
			if what := sentence(call.Args[0]); what != "" {
				found = append(found, what)
			}
		}
		return true
	})
	return found
}

// sentence names the reason or the error that an expression holds the words of; "" = it holds none.
func sentence(x ast.Expr) string {
	reasons := []string{"why", "whys", "reason", "reasons", "next", "detail", "note", "lack", "missing", "void"}
	isReason := func(name string) bool { return slices.Contains(reasons, strings.ToLower(name)) }
	switch x := x.(type) {
	case *ast.Ident:
		if isReason(x.Name) {
			return x.Name
		}
	case *ast.SelectorExpr:
		if isReason(x.Sel.Name) {
			return x.Sel.Name
		}
	case *ast.IndexExpr:
		return sentence(x.X)
	case *ast.CallExpr:
		if f, ok := x.Fun.(*ast.SelectorExpr); ok {
			if f.Sel.Name == "Error" && len(x.Args) == 0 {
				return "the text of an error"
			}
			if isReason(f.Sel.Name) {
				return f.Sel.Name
			}
		}
		for _, arg := range x.Args { // strings.Join(whys, ...), strings.ToLower(err.Error())
			if what := sentence(arg); what != "" {
				return what
			}
		}
	}
	return ""
}

// The guard itself is tried on what it must find.
func TestSearched(t *testing.T) {
	for src, want := range map[string]bool{
		`strings.Contains(s.Why, "moved")`:                           true,
		`strings.HasPrefix(strings.ToLower(err.Error()), "refused")`: true,
		`strings.Contains(strings.Join(whys, " "), "no_target")`:     true,
		`strings.Contains(whys[0], "no_target")`:                     true,
		`strings.Contains(path, "/")`:                                false,
		`strings.Join(whys, "; ")`:                                   false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nvar _ = "+src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(searched(file)) > 0; got != want {
			t.Errorf("%s: found %v", src, got)
		}
	}
}

// riddles are sentences, and patterns of them, that readers had to decode. Each has a plainer form by now.
var riddles = []string{
	"breaks <=", "none of n broke", "run lacks", "were confirmed and gave a trial", "inside what is possible", "it takes luck", "no luck needed",
	"a late breach would have shown", "owed jobs are done", "blind for", "no look within max_gap", "independent faults (", "at its worst key",
	"replicas run lockdrill's lock core", "that it may not meet", "call is answered at once", "calls are answered at once", "whoever is first",
	"as above (run lacks)", "the sum does not apply", "it holds by luck", "it cannot hold",
}

// No sentence of the code comes back to a form that had to be decoded.
func TestNoSentenceIsARiddle(t *testing.T) {
	n := 0
	for _, s := range sources(t) {
		if s.test || s.pkg == "internal/archtest" {
			continue
		}
		ast.Inspect(s.file, func(x ast.Node) bool {
			lit, ok := x.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			n++
			for _, riddle := range riddles {
				if strings.Contains(lit.Value, riddle) {
					t.Errorf("%s says %q: put it plainly", s.path, riddle)
				}
			}
			return true
		})
	}
	if n < 5000 {
		t.Errorf("%d strings found: this test looks in the wrong place", n)
	}
}
