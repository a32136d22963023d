package archtest

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A path of somebody's machine in a file is of no use to anybody else.
func TestNoPathsOfAMachine(t *testing.T) {
	machine := regexp.MustCompile(`(?:^|[\s"'=(:,` + "`" + `])(/(?:work|root|home|Users)/[\w.-]+)`)
	walk(t, func(path string, data []byte) {
		if path == "go.sum" || bytes.IndexByte(data, 0) >= 0 {
			return
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 16<<20)
		for n := 1; lines.Scan(); n++ {
			if m := machine.FindStringSubmatch(lines.Text()); m != nil {
				t.Errorf("%s:%d: %s is a path of one machine", path, n, m[1])
			}
		}
		if err := lines.Err(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	})
}

// Every module that the project asks for itself has its reason in docs/dependencies.md, and nothing else has.
func TestDependenciesHaveReasons(t *testing.T) {
	direct := map[string]bool{}
	for line := range strings.Lines(read(t, "go.mod")) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "require ")
		path, version, ok := strings.Cut(line, " ")
		if ok && strings.HasPrefix(version, "v") && !strings.HasSuffix(version, "// indirect") {
			direct[path] = true
		}
		if tool, ok := strings.CutPrefix(line, "tool "); ok {
			direct[tool] = true
		}
	}
	reasons := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .{20,} \\|").FindAllStringSubmatch(read(t, "docs/dependencies.md"), -1) {
		reasons[m[1]] = true
	}
	for path := range direct {
		if !reasons[path] {
			t.Errorf("go.mod asks for %s; docs/dependencies.md does not say why", path)
		}
	}
	for path := range reasons {
		if !direct[path] {
			t.Errorf("docs/dependencies.md gives a reason for %s, which go.mod does not ask for", path)
		}
	}
}

// A link between documents leads to a file.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	walk(t, func(path string, data []byte) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
	})
}

// A percentage is written in one form, in documents as in all output.
func TestPercentagesHaveNoBlank(t *testing.T) {
	blank := regexp.MustCompile(`\d[ \x{a0}\x{202f}]%`)
	walk(t, func(path string, data []byte) {
		if strings.HasSuffix(path, ".md") && blank.Match(data) {
			t.Errorf("%s has %q: without the blank", path, blank.Find(data))
		}
	})
}
