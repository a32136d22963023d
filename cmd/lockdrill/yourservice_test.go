package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// docs/your-service.md is what a newcomer types: its files are written and its commands run, from top to bottom, in one shell.
func TestLiveThePageOnYourOwnServiceRunsFromTopToBottom(t *testing.T) {
	if testing.Short() {
		t.Skip("three drills of a service that runs")
	}
	redistest.Need(t)
	witnesstest.Python(t)
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: redis-cli is not on the PATH")
	}
	t.Parallel()
	dir := t.TempDir()
	for name, target := range map[string]string{"scenarios": "../../scenarios", "go.mod": "../../go.mod"} {
		full, err := filepath.Abs(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(full, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	script, ends := pageScript(t, "../../docs/your-service.md", dir)
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = 10 * time.Second // what goes on in the background has its output
	t.Cleanup(func() {               // where a step failed, what the page started goes on
		_ = exec.Command("bash", "-c", ends).Run()
	})
	if out := finish(t, dir, cmd); out.code != 0 {
		if strings.Contains(out.stdout, fmt.Sprintf("exit status %d, not 0", verdict.ExitInconclusive)) {
			skipIfTooLate(t, verdict.ExitInconclusive, filepath.Join(dir, "runs", "latest"))
		}
		t.Fatalf("exit status %d\n%s\n%s", out.code, out.stdout, out.stderr)
	} else {
		for _, want := range []string{"PASS  my-service  3 of 3 SLOs met", "FAIL  job  duplicate terminal states 0", "Replicas, as they stand now"} {
			if !strings.Contains(regexp.MustCompile(` {2,}`).ReplaceAllString(out.stdout, "  "), want) {
				t.Errorf("it does not print %q:\n%s", want, out.stdout)
			}
		}
	}
	for _, name := range []string{"junit.xml", "verdict", "runs/latest/report.html"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// pageScript makes one script of a page's commands, and writes its files into a folder. Ports and folders are the test's own, and the
// binary is there already. A block may say which exit status its last command has. The second script is the page's last block.
func pageScript(t *testing.T, page, dir string) (script, last string) {
	t.Helper()
	sched := filepath.Join(dir, "sched")
	fill := strings.NewReplacer("6390", strconv.Itoa(freePort(t)), "--port 9100", "--port "+strconv.Itoa(witnesstest.FreePorts(t, witnesstest.Replicas)), "/tmp/sched", sched,
		"go build -o bin/lockdrill ./cmd/lockdrill\n", "", "$PWD/bin:", filepath.Dir(built)+":")
	text := fill.Replace(string(read(t, page)))
	blocks := regexp.MustCompile("(?m)^(?:<!-- (file|exit): (\\S+) -->\n)?```(sh|yaml)\n((?s:.*?))^```$").FindAllStringSubmatch(text, -1)
	var b strings.Builder
	commands := 0
	for _, block := range blocks {
		mark, value, kind, body := block[1], block[2], block[3], block[4]
		switch {
		case kind == "yaml" && mark == "file":
			if err := os.WriteFile(filepath.Join(dir, value), []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
		case kind == "yaml":
			t.Errorf("a file without a name: %s", body)
		default:
			want := "0"
			if mark == "exit" {
				want = value
			}
			commands++
			lines := strings.Split(strings.TrimSpace(body), "\n")
			for _, line := range lines[:len(lines)-1] {
				b.WriteString(line + "\n")
			}
			fmt.Fprintf(&b, "%s\nended=$?; [ $ended = %s ] || { echo \"exit status $ended, not %s, of: \"%s; exit 1; }\n", lines[len(lines)-1], want, want, quoted(lines[len(lines)-1]))
			last = body
		}
	}
	if commands < 8 {
		t.Fatalf("%s has %d blocks of commands", page, commands)
	}
	return b.String(), last
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
