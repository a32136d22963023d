package archtest

import (
	"slices"
	"strings"
	"testing"
)

func find(path string) *place {
	for i := range policy {
		if policy[i].path == path {
			return &policy[i]
		}
	}
	return nil
}

// reach is everything that a package may import of the project: the relation is transitive.
func reach(t *testing.T, path string, seen map[string]bool) map[string]bool {
	t.Helper()
	p := find(path)
	if p == nil {
		t.Fatalf("policy: %q stands below another package and has no row of its own", path)
	}
	for _, b := range p.below {
		if !seen[b] {
			seen[b] = true
			reach(t, b, seen)
		}
	}
	return seen
}

func TestPolicyIsAnOrder(t *testing.T) {
	for _, p := range policy {
		if reach(t, p.path, map[string]bool{})[p.path] {
			t.Errorf("%s stands below itself", p.path)
		}
		if p.why == "" {
			t.Errorf("%s has no reason: a ban that nobody can explain will be lifted", p.path)
		}
	}
}

func TestEveryPackageIsPlaced(t *testing.T) {
	exists := map[string]bool{}
	for _, s := range sources(t) {
		if !exists[s.pkg] && find(s.pkg) == nil {
			t.Errorf("package %s is not in the policy: give it a row in internal/archtest/policy_test.go with what lies below it, and why", s.pkg)
		}
		exists[s.pkg] = true
	}
	for _, p := range policy {
		if !exists[p.path] {
			t.Errorf("package %s is in the policy and does not exist", p.path)
		}
	}
}

// Test files may import more: they may stand on any package to make their point.
func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		p := find(s.pkg)
		if s.test || p == nil {
			continue
		}
		own := reach(t, p.path, map[string]bool{})
		for _, spec := range s.file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if reason := refused(p, own, path); reason != "" {
				t.Errorf("%s imports %s: %s (%s)", s.path, path, reason, p.why)
			}
		}
		for _, ban := range p.bans {
			pkg, _, isFunc := strings.Cut(ban, ".")
			if isFunc && slices.Contains(s.uses(pkg), ban) {
				t.Errorf("%s uses %s, which is banned in %s (%s)", s.path, ban, p.path, p.why)
			}
		}
	}
}

// What a drill stands on is put together in drill. The command line lies above all of it, and would drift back into it.
func TestTheCommandLineIsNothingElse(t *testing.T) {
	banned := []string{"github.com/redis/go-redis/v9", "k8s.io", module + "/internal/kube", module + "/drill/testbed", module + "/drill/runner", module + "/injectors"}
	for _, s := range sources(t) {
		if s.test || s.pkg != "cmd/lockdrill" {
			continue
		}
		for _, spec := range s.file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if slices.ContainsFunc(banned, func(ban string) bool { return within(path, ban) }) {
				t.Errorf("%s imports %s, which is for drill to put together", s.path, path)
			}
		}
	}
}

// refused says why a package may not import path, or "".
func refused(p *place, own map[string]bool, path string) string {
	rest, ours := strings.CutPrefix(path, module+"/")
	host, _, _ := strings.Cut(path, "/")
	switch {
	case ours && !own[rest]:
		return "it does not lie below " + p.path
	case ours:
		return ""
	case strings.Contains(host, "."):
		if !slices.ContainsFunc(p.libs, func(lib string) bool { return within(path, lib) }) {
			return "it is not among the libraries of " + p.path
		}
		return ""
	case slices.ContainsFunc(p.bans, func(ban string) bool { return within(path, ban) }):
		return "it is banned in " + p.path
	}
	return ""
}

// within reports whether path is root or lies below it.
func within(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// Nothing flows back from judgements into runs, and a report shows what was concluded: neither may come to lie above the judge, by
// whatever way.
func TestWhoDoesNotReachTheJudge(t *testing.T) {
	for _, path := range []string{"analysis/compare", "drill/conductor", "reports", "reports/timeline"} {
		if reach(t, path, map[string]bool{})["analysis"] {
			t.Errorf("%s reaches the judge: it needs values of analysis/verdict, or what analysis/forecast says", path)
		}
	}
}

// The test itself is tried on what it must refuse.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ pkg, path string }{
		{"history", "os"},
		{"history", module + "/lockcore"},
		{"analysis", "net/http"},
		{"analysis", "github.com/redis/go-redis/v9"},
		{"drill/runner", "github.com/redis/go-redis/v9"},
		{"reports", module + "/drill/runner"},
		{"injectors", module + "/probes"},
		{"probes", module + "/injectors"},
		{"lockcore/worker", module + "/lockcore/client"},
		{"lockcore/worker/embedded", module + "/experiments"},
		{"analysis", module + "/internal/monotime"},
	} {
		if refused(find(c.pkg), reach(t, c.pkg, map[string]bool{}), c.path) == "" {
			t.Errorf("%s may import %s", c.pkg, c.path)
		}
	}
}
