package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/sweep"
	"github.com/lockdrill/lockdrill/drill/undo"
)

// Each step is a run with a folder, and says which.
func TestLiveSweep(t *testing.T) {
	besideDrills(t)
	work := folder(t, "short.yaml", unrehearsed(edit(t, goodDrill, "count: 2, every: settled", "count: 1", goodSLO, shortSLO)))
	got := tryIn(t, work, "run", "short.yaml", "--sweep", "replicas=2..3,steps=2,finer=0", "-f", "json")
	var s sweep.Document
	unmarshal(t, got.stdout, &s)
	if got.code != verdict.ExitPass || !s.Live || s.Seeds != 0 || len(s.Steps) != 2 || s.Holds == nil || *s.Holds != 3 || s.Breaks != nil {
		t.Fatalf("%d, %+v", got.code, s)
	}
	for _, step := range s.Steps {
		if isThere(t, filepath.Join(work, step.Run, verdictFile)); step.Outcome != sweep.Held {
			t.Errorf("%+v", step)
		}
	}
}

// Nobody reads what a drill prints, as behind `| head`: it goes on to its end, and its status and its files say how that was.
func TestLiveOutputThatNobodyReads(t *testing.T) {
	besideDrills(t)
	unread, out, err := os.Pipe()
	must(t, err)
	defer out.Close()
	must(t, unread.Close())
	base := folder(t, "drill.yaml", unrehearsed(goodDrill), "bad.yaml", "kind: Experiment\n")
	dir, result, junit := filepath.Join(base, "run"), filepath.Join(base, "result"), filepath.Join(base, "junit.xml")
	for _, c := range []struct {
		args string
		want int
	}{
		{"run drill.yaml --out " + dir + " --result-file " + result + " --junit " + junit, verdict.ExitPass},
		{"judge " + dir + " -f json", verdict.ExitPass},
		{"judge " + dir, verdict.ExitPass},
		{"recover " + dir, verdict.ExitPass},
		{"run bad.yaml", verdict.ExitUsage},
	} {
		cmd := lockdrill(strings.Fields(c.args)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = base, out, out
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.want {
			t.Errorf("%s: %s, want exit status %d", c.args, cmd.ProcessState, c.want)
		}
	}
	if word := string(read(t, result)); word != "pass" {
		t.Errorf("result file: %q", word)
	}
	if data := string(read(t, junit)); strings.Contains(data, "<error") {
		t.Errorf("JUnit:\n%s", data)
	}
	c, err := undo.Read(filepath.Join(dir, undo.File))
	if err != nil || !c.Closed {
		t.Errorf("journal: closed %v, %v", c.Closed, err)
	}
	if j := judgementIn(t, dir); j.ExitCode != verdict.ExitPass {
		t.Errorf("verdict: %+v", j)
	}
}

// A run that cannot give a target back ends dirty and names what is left; when the target is reachable again, recover gives it back,
// and until then a new run is refused.
func TestLiveATargetThatCannotBeGivenBack(t *testing.T) {
	besideDrills(t)
	k := atSomebodys(t, "30s", "pause: {holder_of: loop}")
	_, addr, _ := strings.Cut(k.yaml, `url: "redis://`)
	addr, _, _ = strings.Cut(addr, `"`)
	o := runDrill(t, k.yaml, func(pid int) {
		path := historyOf(t)
		until(t, "the fault", func() bool {
			data, _ := os.ReadFile(path())
			return strings.Contains(string(data), `"kind":"fault.applied"`)
		})
		asked(t, addr, "CONFIG SET requirepass hush")
		if got := askedAs(t, addr, "hush", "CLIENT KILL TYPE normal"); !strings.HasPrefix(got, ":") { // nobody is connected any more
			t.Fatalf("CLIENT KILL: %s", got)
		}
		must(t, syscall.Kill(pid, syscall.SIGINT))
	}, k.args...)
	if o.code != verdict.ExitDirty || !strings.Contains(o.text, "NOT UNDONE  keys") || !strings.Contains(o.text, "lockdrill recover "+o.dir) || !strings.Contains(o.text, "by hand:  redis-cli") {
		t.Errorf("exit %d, want %d\n%s", o.code, verdict.ExitDirty, o.text)
	}
	if log, err := os.ReadFile(filepath.Join(o.dir, drill.WatchdogLog)); err != nil || !strings.Contains(string(log), "given up") {
		t.Errorf("the watchdog's log: %q, %v", log, err)
	}
	file := filepath.Join(filepath.Dir(o.dir), "drill.yaml")
	try(t, "recover", o.dir).ends(t, verdict.ExitDirty)
	if got := askedAs(t, addr, "hush", `CONFIG SET requirepass ""`); got != "+OK" {
		t.Fatalf("CONFIG SET: %s", got)
	}
	again := append([]string{"run", file, "--out", filepath.Join(filepath.Dir(o.dir), "again")}, k.args...)
	try(t, again...).ends(t, verdict.ExitRefused, "first: lockdrill recover "+o.dir)
	try(t, "recover", o.dir).ends(t, verdict.ExitPass)
	nothingIsLeft(t, o.dir)
	k.check(t, o.dir)
}
