package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	mostLines     = 450 // of a file: a noun that needs more is two nouns
	mostFiles     = 45  // of a package, tests not counted: beyond that nobody knows where to look
	mostMainLines = 20  // of cmd/lockdrill/main.go: everything else can be tested
)

func TestFileLengths(t *testing.T) {
	for _, s := range sources(t) {
		most := mostLines
		if s.path == "cmd/lockdrill/main.go" {
			most = mostMainLines
		}
		if s.lines > most {
			t.Errorf("%s has %d lines: at most %d", s.path, s.lines, most)
		}
	}
}

func TestFilesOfAPackage(t *testing.T) {
	files := map[string]int{}
	for _, s := range sources(t) {
		if !s.test {
			files[s.pkg]++
		}
	}
	for pkg, n := range files {
		if n > mostFiles {
			t.Errorf("package %s has %d files: at most %d, so it is two packages", pkg, n, mostFiles)
		}
	}
}

func TestPackageComments(t *testing.T) {
	said, packages := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		packages[s.pkg] = true
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command " + path.Base(s.pkg) + " "
		}
		switch doc := s.file.Doc.Text(); {
		case doc == "":
		case !strings.HasPrefix(doc, want):
			t.Errorf("%s: the package comment does not begin with %q", s.path, want)
		case said[s.pkg]:
			t.Errorf("%s: a second package comment", s.path)
		default:
			said[s.pkg] = true
		}
	}
	for pkg := range packages {
		if !said[pkg] {
			t.Errorf("package %s has no comment: what is it for, what not, what is its one invariant", pkg)
		}
	}
}

func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function: what it does happens to whoever imports it", s.path)
			}
		}
	}
}

// A test that sleeps is slow on a fast machine and wrong on a slow one. Inside a synctest bubble the clock is not real.
func TestNoSleepInTests(t *testing.T) {
	for _, s := range sources(t) {
		if s.test && len(s.uses("testing/synctest")) == 0 && slices.Contains(s.uses("time"), "time.Sleep") {
			t.Errorf("%s sleeps: wait for a channel, poll with a deadline, or use testing/synctest", s.path)
		}
	}
}

func TestNoTestHelpersInProduction(t *testing.T) {
	support := []string{"internal/testkit/bursttest", "internal/testkit/pointtest", "internal/testkit/storetest", "internal/browser", "internal/etcdtest", "internal/golden", "internal/kubetest", "internal/promtest", "internal/redistest", "internal/servertest", "internal/sqltest", "internal/testkit", "internal/toxitest", "internal/witnesstest"} // packages that are for tests as a whole
	for _, s := range sources(t) {
		if !s.test && !slices.Contains(support, s.pkg) && len(s.uses("testing")) > 0 {
			t.Errorf("%s imports testing and is no test", s.path)
		}
	}
}

func TestPackageNames(t *testing.T) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "base"}
	for _, s := range sources(t) {
		if slices.Contains(empty, path.Base(s.pkg)) {
			t.Errorf("package %s: a name that says nothing collects everything", s.pkg)
		}
	}
}
