package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

func TestRecoverSaysWhatItDid(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	runs := filepath.Join(base, runsFolder)
	_, self := testkit.Sleeper(t)
	gone := testkit.Dead(t)
	old := undo.Header{Run: "the-run", Runner: gone}
	folder := filepath.Join(base, "lockdrill-redis-x")
	must(t, os.Mkdir(folder, 0o700))
	testkit.Ours(t, folder)
	_ = testkit.LeftBy(t, filepath.Join(runs, "a"), old, undo.Record{Kind: undo.StandServer, Process: &self, Folder: folder}).Close() // it is not undone
	_ = testkit.LeftBy(t, filepath.Join(runs, "b"), old, undo.Record{Kind: "from the future", Route: &undo.ProxyRoute{API: "http://h:1", Proxy: "lockdrill-the-run-r1", Toxics: []string{"lockdrill-the-run-slow.1-up"}}}).Close()
	write(t, filepath.Join(runs, "b", experimentFile), []byte("proxy: {url: 'http://h:1'}\n"))
	must(t, testkit.LeftBy(t, filepath.Join(runs, "c"), old).Close())
	defer testkit.LeftBy(t, filepath.Join(runs, "d"), undo.Header{Run: "the-run", Runner: undo.Find(os.Getpid())}).Close()
	for name, text := range map[string]string{"e/undo.jsonl": "nonsense\n", "f/history.jsonl": `{"n":1,"kind":"run.end","note":{"what":"completed","ok":true}}`, "g/anything": "", "h/history.jsonl": `{"n":1,"kind":"run.phase"}`} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(runs, name)), 0o755))
		write(t, filepath.Join(runs, name), []byte(text))
	}
	answers(t, base, "", []answer{
		{"recover", verdict.ExitUsage, []string{"name either the folder of a run or --all"}},
		{"recover a --all", verdict.ExitUsage, []string{"name either the folder of a run or --all"}},
		{"recover nowhere", verdict.ExitUsage, []string{"nowhere: no such folder"}},
		{"recover a", verdict.ExitPass, []string{"undone", "redis-server (process", "runs/a: closed: everything is undone"}},
		{"recover runs/a", verdict.ExitPass, []string{"runs/a: closed: nothing to undo"}},
		{"recover b", verdict.ExitDirty, []string{"NOT UNDONE", "from the future", "by hand:  curl -X DELETE http://h:1/proxies/lockdrill-the-run-r1/toxics/lockdrill-the-run-slow.1-up", "try again with: lockdrill recover runs/b"}},
		{"recover c", verdict.ExitPass, []string{"nothing to undo"}},
		{"recover d", verdict.ExitRefused, []string{"the runner lives"}},
		{"recover e", verdict.ExitDirty, []string{"runs/e/undo.jsonl:1: ", "lockdrill recover runs/e"}},
		{"recover f", verdict.ExitPass, []string{"no journal: nothing to undo"}},
		{"recover h", verdict.ExitDirty, []string{"did not come to a clean end, and its undo.jsonl is gone"}},
		{"recover g", verdict.ExitUsage, []string{"not the folder of a run"}},
		{"recover --all", verdict.ExitDirty, []string{"runs/a: closed", "runs/b: NOT CLOSED", "runs/c: closed", "the runner lives", "undo.jsonl:1", "runs/h: the run did not come to a clean end"}},
	})
	tryIn(t, filepath.Join(runs, "a"), "recover", "").ends(t, verdict.ExitUsage, "name either the folder of a run or --all")
	tryIn(t, filepath.Join(runs, "f"), "judge", "").ends(t, verdict.ExitUsage, "no such folder")
	if alive, err := self.Lives(); err != nil || alive {
		t.Errorf("the process of the record lives (%v)", err)
	}
	isGone(t, folder)
	tryIn(t, t.TempDir(), "recover", "--all").ends(t, verdict.ExitPass)
	try(t, "watchdog", ".").ends(t, verdict.ExitUsage, "lockdrill recover")
}

// What a run could not undo is named, with the commands; where its watchdog has done it since, that is said instead.
func TestARunNamesWhatItLeaves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, self := testkit.Sleeper(t)
	j := testkit.LeftBy(t, dir, undo.Header{Run: "r"}, undo.Record{Kind: undo.StandReplica, Process: &self})
	must(t, j.Mark(1, undo.Dirty, errors.Join(errors.New("it does not die"), errors.New("##[error]late")).Error())) // one line, and no command to a CI
	if err := j.Close(); err == nil {
		t.Error("the journal was closed")
	}
	said := func() string {
		t.Helper()
		var text strings.Builder
		c, err := undo.Read(filepath.Join(dir, undo.File))
		printEnding(&text, &drill.Ending{Dir: dir, Journal: c, Lost: err})
		return text.String()
	}
	for _, want := range []string{"lockdrill recover " + dir, "NOT UNDONE  replica", ": it does not die; #\u200b#[error]late\n", "by hand:  kill -KILL"} {
		if got := said(); !strings.Contains(got, want) {
			t.Errorf("%q is not said:\n%s", want, got)
		}
	}
	must(t, drill.Watch(t.Context(), dir, strings.NewReader(""), drill.Watching{Report: func(undo.Report, error) {}}))
	if got := said(); !strings.Contains(got, "nothing is left") || strings.Contains(got, "NOT UNDONE") {
		t.Errorf("after the watchdog: %q", got)
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
