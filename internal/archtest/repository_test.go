package archtest

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
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

// A link between documents leads to a file, and to a heading or a mark that is in it.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	walk(t, func(path string, data []byte) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			to := path
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(path), m[1])
			}
			page, err := os.ReadFile(filepath.Join(root, to))
			if info, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			} else if info.IsDir() {
				continue
			}
			if m[2] != "" && (err != nil || !anchors(string(page))[m[2]]) {
				t.Errorf("%s links to %s#%s, which is no heading there", path, m[1], m[2])
			}
		}
	})
}

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	marked  = regexp.MustCompile(`<a id="([^"]+)"`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	unsaid  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are what can be linked to in a page: its headings, as a forge spells them, and its marks.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := unsaid.ReplaceAllString(strings.ToLower(linked.ReplaceAllString(m[1], "$1")), "")
		all[strings.ReplaceAll(strings.TrimSpace(text), " ", "-")] = true
	}
	for _, m := range marked.FindAllStringSubmatch(page, -1) {
		all[m[1]] = true
	}
	return all
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

// e2e-kube runs as root on somebody's machine: it says what is missing, and installs nothing.
func TestE2eInstallsNothing(t *testing.T) {
	_, recipe, _ := strings.Cut(read(t, "Makefile"), "\ne2e-kube:")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	asks := 0
	for line := range strings.Lines(recipe) {
		if strings.Contains(line, ".ci/need") {
			asks++
			if !strings.Contains(line, ".ci/need --ask ") {
				t.Errorf("e2e-kube installs what is missing: %s", line)
			}
		}
		if strings.Contains(line, "apt-get") {
			t.Errorf("e2e-kube installs packages: %s", line)
		}
	}
	if asks == 0 {
		t.Error("e2e-kube asks for nothing")
	}

	bin := t.TempDir() // before all else in the path: what installs, and what becomes root to do so
	called := filepath.Join(bin, "called")
	for _, name := range []string{"apt-get", "sudo", "tee"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho \"$0 $*\" >>"+called+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{"no-such-program", "/no/such/file"} {
		need := exec.Command(filepath.Join(root, ".ci/need"), "--ask", what, "one-package", "another")
		need.Env = append(os.Environ(), "CI=true", "PATH="+bin+":"+os.Getenv("PATH"))
		said, err := need.CombinedOutput()
		if want := what + " not found: install it (Debian: apt-get install one-package another), and try again; nothing was installed or built\n"; need.ProcessState.ExitCode() != 1 || string(said) != want {
			t.Errorf("%v, %s\nwant status 1, %s", err, said, want)
		}
	}
	if did, err := os.ReadFile(called); err == nil {
		t.Errorf("asking has installed: %s", did)
	}
}
