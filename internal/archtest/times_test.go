package archtest

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What make test-times prints: the package that costs most first, its slowest test, the sum; and what failed, which is its status.
func TestTimesOfTests(t *testing.T) {
	const fast = `{"Action":"pass","Package":"github.com/lockdrill/lockdrill/fast","Test":"TestA","Elapsed":0.1}
{"Action":"skip","Package":"github.com/lockdrill/lockdrill/fast","Test":"TestB","Elapsed":0}
{"Action":"pass","Package":"github.com/lockdrill/lockdrill/fast","Elapsed":0.2}
`
	const slow = `{"Action":"output","Package":"github.com/lockdrill/lockdrill/slow","Test":"TestD","Output":"    want \"x\"\n"}
{"Action":"pass","Package":"github.com/lockdrill/lockdrill/slow","Test":"TestC/part","Elapsed":9}
{"Action":"pass","Package":"github.com/lockdrill/lockdrill/slow","Test":"TestC","Elapsed":3}
{"Action":"OUTCOME","Package":"github.com/lockdrill/lockdrill/slow","Test":"TestD","Elapsed":1}
{"Action":"OUTCOME","Package":"github.com/lockdrill/lockdrill/slow","Elapsed":12.5}
`
	for outcome, failed := range map[string]bool{"pass": false, "fail": true} {
		cmd := exec.Command(filepath.Join(root, ".ci", "test-times"))
		cmd.Stdin = strings.NewReader(fast + strings.ReplaceAll(slow, "OUTCOME", outcome))
		out, err := cmd.Output()
		var rows []string
		for line := range strings.Lines(string(out)) {
			rows = append(rows, strings.Join(strings.Fields(line), " "))
		}
		table := "seconds tests skipped slowest test package|12.5 2 0 3.0 TestC slow|0.2 2 1 0.1 TestA fast|12.7 4 all"
		if got := strings.Join(rows, "|"); !strings.HasPrefix(got, table) || strings.Contains(got, `want "x"`) != failed {
			t.Errorf("%s: it prints\n%s", outcome, out)
		}
		if errors.As(err, new(*exec.ExitError)) != failed {
			t.Errorf("%s: %v", outcome, err)
		}
	}
}
