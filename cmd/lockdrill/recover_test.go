package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
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
	must(t, errors.Join(os.Mkdir(filepath.Join(runs, "p"), 0o755), syscall.Mkfifo(filepath.Join(runs, "p", undo.File), 0o600)))
	_ = testkit.LeftBy(t, filepath.Join(runs, "q"), old, undo.Record{Kind: "from the future"}).Close()
	must(t, syscall.Mkfifo(filepath.Join(runs, "q", historyFile), 0o600)) // nothing waits for a pipe
	answers(t, base, "", []answer{
		{"recover p", verdict.ExitRefused, []string{"undo.jsonl is not trusted: not a file: put the run's own back"}},
		{"recover --trust p", verdict.ExitRefused, []string{"not a file: put the run's own back"}},
		{"recover q", verdict.ExitDirty, []string{"from the future"}},
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

// A journal that says that everything is undone is held against the world: what bears the run's mark is ended, what does not is named.
func TestRecoverAsksTheWorldWhatIsUndone(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	_, own := testkit.Sleeper(t)
	foreign, paused := testkit.Sleeper(t)
	paused.Alone, paused.Mark = true, ""
	must(t, foreign.Process.Signal(syscall.SIGSTOP))
	shot := history.Event{Op: "stall#1", Fault: &history.Fault{ID: "stall", Victim: "r1"}}
	for dir, r := range map[string]undo.Record{
		"own":   {Kind: undo.StandReplica, Process: &own},
		"pause": {Kind: "pause", Shot: shot, Process: &paused},
		"hook":  {Kind: "hook", Shot: shot, Hook: &undo.Hook{Undo: []string{"false"}}},
		"api":   {Kind: undo.StandRoute, Route: &undo.ProxyRoute{API: "http://127.0.0.1:1", Proxy: "lockdrill-the-run-r1"}},
	} {
		j := testkit.LeftBy(t, filepath.Join(base, runsFolder, dir), undo.Header{Run: "the-run", Runner: testkit.Dead(t)}, r)
		write(t, filepath.Join(base, runsFolder, dir, experimentFile), []byte("proxy: {url: 'http://127.0.0.1:1'}\n"))
		must(t, errors.Join(j.Mark(1, undo.Undone, ""), j.Close()))
	}
	still := fmt.Sprintf("NOT UNDONE  pause stall#1 at r1 (process %d): it is still there: the process stands still", paused.PID)
	answers(t, base, "", []answer{
		{"recover own", verdict.ExitPass, []string{"runs/own: closed: nothing to undo"}},
		{"recover pause", verdict.ExitDirty, []string{still, fmt.Sprintf("by hand:  kill -CONT %d", paused.PID), "runs/pause: closed, and 1 change left; try again with: lockdrill recover runs/pause"}},
		{"recover hook", verdict.ExitPass, []string{"runs/hook: closed: nothing to undo"}},
		{"recover api", verdict.ExitPass, []string{"undone by its journal, and not asked after  way (proxy lockdrill-the-run-r1 at http://127.0.0.1:1): ", "connection refused", "closed: nothing to undo"}},
		{"recover --all", verdict.ExitPass, []string{"runs/pause: closed: nothing to undo"}},
	})
	if alive, err := own.Lives(); err != nil || alive {
		t.Errorf("the replica that the journal says is gone lives (%v)", err)
	}
	must(t, foreign.Process.Signal(syscall.SIGCONT))
	for end := time.Now().Add(10 * time.Second); tryIn(t, base, "recover", "pause").code != verdict.ExitPass; { // until the signal has been taken
		if time.Now().After(end) {
			t.Fatal("a process that goes on is still said to stand still")
		}
	}
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
