package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// docs/your-service.md is what a newcomer types, and its second page what comes next: their files are written and their commands run, from top
// to bottom, in one shell.
func TestLiveThePageOnYourOwnServiceRunsFromTopToBottom(t *testing.T) {
	t.Parallel()
	for page, p := range map[string]struct{ prints, leaves []string }{
		"your-service.md": {[]string{"PASS  my-service  3 of 3 SLOs met", "FAIL  job  duplicate terminal states 0", "Replicas, as they stand now", "cordum:reconciler:default"},
			[]string{"junit.xml", "verdict", "runs/latest/report.html", "draft.lockdrill.yaml"}},
		"pause-longer-than-the-lease.md": {[]string{"PASS  pauses  5 of 5 SLOs met", "FAIL  job  duplicate terminal states 0"}, []string{"runs/latest/report.html"}},
	} {
		t.Run(page, func(t *testing.T) { runPage(t, page, p.prints, p.leaves) })
	}
}

// runPage runs the commands of a page.
func runPage(t *testing.T, page string, prints, leaves []string) {
	t.Helper()
	atLength(t, "drills of a service that runs")
	redistest.Need(t)
	witnesstest.Python(t)
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: redis-cli is not on the PATH")
	}
	dir := t.TempDir()
	for name, target := range map[string]string{"scenarios": "../../../scenarios", "go.mod": "../../../go.mod"} {
		full, err := filepath.Abs(target)
		must(t, err)
		must(t, os.Symlink(full, filepath.Join(dir, name)))
	}
	script, ends := pageScript(t, "../../../docs/"+page, dir)
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
		says(t, regexp.MustCompile(` {2,}`).ReplaceAllString(out.stdout, "  "), prints...)
	}
	for _, name := range leaves {
		isThere(t, filepath.Join(dir, name))
	}
}

// pageScript makes one script of a page's commands, and writes its files into a folder. Ports and folders are the test's own, and the
// binary is there already. A block may say which exit status its last command has. The second script is the page's last block.
func pageScript(t *testing.T, page, dir string) (script, last string) {
	t.Helper()
	sched := filepath.Join(dir, "sched")
	fill := strings.NewReplacer("6390", strconv.Itoa(testkit.FreePort(t)), "--port 9100", "--port "+strconv.Itoa(witnesstest.FreePorts(t, witnesstest.Replicas)), "/tmp/sched", sched,
		"go build -o bin/lockdrill ./cmd/lockdrill\n", "", "$PWD/bin:", filepath.Dir(built)+":")
	text := fill.Replace(string(read(t, page)))
	blocks := regexp.MustCompile("(?m)^(?:<!-- (file|exit): (\\S+) -->\n)?```(sh|yaml)\n((?s:.*?))^```$").FindAllStringSubmatch(text, -1)
	var b strings.Builder
	commands := 0
	for _, block := range blocks {
		mark, value, kind, body := block[1], block[2], block[3], block[4]
		switch {
		case kind == "yaml" && mark == "file":
			write(t, filepath.Join(dir, value), []byte(body))
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
	if commands < 5 {
		t.Fatalf("%s has %d blocks of commands", page, commands)
	}
	return b.String(), last
}

// Each recipe of the second page is a drill of its service: laid over the page's file, it is valid.
func TestRecipesOfThePause(t *testing.T) {
	t.Parallel()
	for name, file := range pauseRecipes(t) {
		data, err := yaml.Marshal(file)
		must(t, err)
		if _, err := experiments.Parse("recipe.yaml", data); err != nil {
			t.Errorf("%s\n%v", name, err)
		}
	}
}

// pauseRecipes are the recipes of the second page, by their headings, each laid over its file.
func pauseRecipes(t *testing.T) map[string]map[string]any {
	t.Helper()
	text := string(read(t, "../../../docs/pause-longer-than-the-lease.md"))
	file := regexp.MustCompile("(?s)<!-- file: \\S+ -->\n```yaml\n(.*?)```\n").FindStringSubmatch(text)
	var recipes [][]string
	for _, section := range strings.Split(text, "\n### ")[1:] {
		if r := regexp.MustCompile("(?s)^([^\n]+)\n.*?```yaml ignore\n(.*?)```\n").FindStringSubmatch(section); r != nil {
			recipes = append(recipes, r)
		}
	}
	if file == nil || len(recipes) != 6 {
		t.Fatalf("a file and six recipes, found %d", len(recipes))
	}
	all := map[string]map[string]any{}
	for _, r := range recipes {
		var base, over map[string]any
		must(t, errors.Join(yaml.Unmarshal([]byte(file[1]), &base), yaml.Unmarshal([]byte(r[2]), &over)))
		maps.Copy(base, over)
		all[r[1]] = base
	}
	return all
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
