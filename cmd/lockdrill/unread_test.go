package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/undo"
)

// Nobody reads what a drill prints, as behind `| head`: it goes on to its end, and its status and its files say how that was.
func TestLiveOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	needDrill(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	dir, result, junit := filepath.Join(base, "run"), filepath.Join(base, "result"), filepath.Join(base, "junit.xml")
	good := filepath.Join(base, "drill.yaml")
	if err := os.WriteFile(good, []byte(unrehearsed(goodDrill)), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(base, "bad.yaml")
	if err := os.WriteFile(bad, []byte("kind: Experiment\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want int
	}{
		{"run " + good + " --out " + dir + " --result-file " + result + " --junit " + junit, verdict.ExitPass},
		{"judge " + dir + " -f json", verdict.ExitPass},
		{"judge " + dir, verdict.ExitPass},
		{"recover " + dir, verdict.ExitPass},
		{"run " + bad, verdict.ExitUsage},
	} {
		cmd := lockdrill(strings.Fields(c.args)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = base, write, write
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.want {
			t.Errorf("%s: %s, want exit status %d", c.args, cmd.ProcessState, c.want)
		}
	}
	if word, err := os.ReadFile(result); err != nil || string(word) != "pass" {
		t.Errorf("result file: %q, %v", word, err)
	}
	if data, err := os.ReadFile(junit); err != nil || strings.Contains(string(data), "<error") {
		t.Errorf("JUnit: %v\n%s", err, data)
	}
	c, err := undo.Read(filepath.Join(dir, undo.File))
	if err != nil || !c.Closed {
		t.Errorf("journal: closed %v, %v", c.Closed, err)
	}
	var j verdict.Judgement
	if data, err := os.ReadFile(filepath.Join(dir, verdictFile)); err != nil || json.Unmarshal(data, &j) != nil || j.ExitCode != verdict.ExitPass {
		t.Errorf("verdict: %v\n%s", err, data)
	}
}
