package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/internal/toxitest"
)

// leftBy makes the folder of a run whose journal has the records; the journal is the runner's until it is closed.
func leftBy(t *testing.T, dir string, h undo.Header, records ...undo.Record) *undo.Journal {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	j, err := undo.Create(filepath.Join(dir, undo.File), h)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if _, err := j.Intend(r); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// dead is a runner that was killed.
func dead(t *testing.T) undo.Process {
	t.Helper()
	child, p := sleeper(t)
	_ = child.Process.Kill()
	_ = child.Wait()
	return p
}

// sleeper is a process in a group of its own.
func sleeper(t *testing.T) (*exec.Cmd, undo.Process) {
	t.Helper()
	child := exec.Command("sleep", "600")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	return child, undo.Find(child.Process.Pid)
}

func TestRecoverSaysWhatItDid(t *testing.T) {
	base := t.TempDir()
	runs := filepath.Join(base, runsFolder)
	_, self := sleeper(t)
	gone := dead(t)
	old := undo.Header{Run: "the-run", Runner: gone}
	folder := filepath.Join(base, "lockdrill-redis-x")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	_ = leftBy(t, filepath.Join(runs, "a"), old, undo.Record{Kind: undo.StandServer, Process: &self, Folder: folder}).Close() // it is not undone
	_ = leftBy(t, filepath.Join(runs, "b"), old, undo.Record{Kind: "from the future", Way: &undo.Way{API: "http://h:1", Proxy: "p", Toxics: []string{"t"}}}).Close()
	if err := leftBy(t, filepath.Join(runs, "c"), old).Close(); err != nil {
		t.Fatal(err)
	}
	defer leftBy(t, filepath.Join(runs, "d"), undo.Header{Run: "the-run", Runner: undo.Find(os.Getpid())}).Close()
	for name, text := range map[string]string{"e/undo.jsonl": "nonsense\n", "f/history.jsonl": "", "g/anything": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(runs, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(runs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"recover", verdict.ExitUsage, []string{"name either the folder of a run or --all"}},
		{"recover a --all", verdict.ExitUsage, []string{"name either the folder of a run or --all"}},
		{"recover nowhere", verdict.ExitUsage, []string{"nowhere: no such folder"}},
		{"recover a", verdict.ExitPass, []string{"undone", "redis-server (process", "runs/a: closed: everything is undone"}},
		{"recover runs/a", verdict.ExitPass, []string{"runs/a: closed: nothing to undo"}},
		{"recover b", verdict.ExitDirty, []string{"NOT UNDONE", "from the future", "by hand:  curl -X DELETE http://h:1/proxies/p/toxics/t", "try again with: lockdrill recover runs/b"}},
		{"recover c", verdict.ExitPass, []string{"nothing to undo"}},
		{"recover d", verdict.ExitRefused, []string{"the runner lives"}},
		{"recover e", verdict.ExitDirty, []string{"runs/e/undo.jsonl:1: ", "lockdrill recover runs/e"}},
		{"recover f", verdict.ExitPass, []string{"no journal: nothing to undo"}},
		{"recover g", verdict.ExitUsage, []string{"not the folder of a run"}},
		{"recover --all", verdict.ExitDirty, []string{"runs/a: closed", "runs/b: NOT CLOSED", "runs/c: closed", "the runner lives", "undo.jsonl:1"}},
	} {
		got := tryIn(t, base, strings.Fields(c.args)...)
		if got.code != c.code {
			t.Errorf("%s: exit %d, want %d", c.args, got.code, c.code)
		}
		for _, want := range c.want {
			if !strings.Contains(got.stdout+got.stderr, want) {
				t.Errorf("%s: %q is not said:\n%s%s", c.args, want, got.stdout, got.stderr)
			}
		}
	}
	if alive, err := self.Lives(); err != nil || alive {
		t.Errorf("the process of the record lives (%v)", err)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("the folder of the record is left")
	}
	if got := tryIn(t, t.TempDir(), "recover", "--all"); got.code != verdict.ExitPass {
		t.Errorf("recover --all without runs: %+v", got)
	}
	if got := try(t, "watchdog", "."); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "lockdrill recover") {
		t.Errorf("a watchdog by hand: %+v", got)
	}
}

// A target that another run has not given back is refused; where nothing is shared, one is told of runs that were killed.
func TestATargetIsGivenBackFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	shared := []string{"redis://10.0.0.1:6379"}
	gone, self := dead(t), undo.Find(os.Getpid())
	external := &experiments.Experiment{Name: "x", Redis: experiments.Redis{Mode: experiments.RedisExternal, URL: "rediss://10.0.0.1/3"}}
	local := &experiments.Experiment{Name: "x", Redis: experiments.Redis{Mode: experiments.RedisSpawn}}
	open := undo.Record{Kind: "pause"}
	for _, c := range []struct {
		name      string
		dir       string
		h         undo.Header
		e         *experiments.Experiment
		said      string // part of the refusal
		told      string // part of the warning
		undoFirst bool
	}{
		{name: "killed, beside the run", dir: "out/a", h: undo.Header{Targets: shared, Runner: gone, Opened: since}, e: external, said: "redis://10.0.0.1:6379 back since 2026-01-02T03:04:05Z; first: lockdrill recover out/a"},
		{name: "killed, in runs", dir: "runs/a", h: undo.Header{Targets: shared, Runner: gone, Opened: since}, e: external, said: "first: lockdrill recover runs/a"},
		{name: "at work", dir: "runs/a", h: undo.Header{Targets: shared, Runner: self, Opened: since}, e: external, said: "in use by the run in runs/a since 2026-01-02T03:04:05Z"},
		{name: "undone", dir: "runs/a", h: undo.Header{Targets: shared, Runner: gone}, e: external, undoFirst: true},
		{name: "another target", dir: "out/a", h: undo.Header{Targets: []string{"redis://10.0.0.2:6379"}, Runner: gone}, e: external},
		{name: "nothing shared", dir: "runs/a", h: undo.Header{Runner: gone}, e: local, told: "lockdrill recover runs/a"},
		{name: "nothing shared, at work", dir: "runs/a", h: undo.Header{Runner: self}, e: local},
	} {
		_ = os.RemoveAll("runs")
		_ = os.RemoveAll("out")
		j := leftBy(t, c.dir, c.h, open)
		if c.undoFirst {
			if err := j.Mark(1, undo.Undone, ""); err != nil {
				t.Fatal(err)
			}
		}
		_ = j.Close() // open records keep it open
		var text bytes.Buffer
		err := guardTargets(&text, c.e, "out")
		refused := new(exitError)
		if c.said != "" && (!errors.As(err, &refused) || refused.code != verdict.ExitRefused || !strings.Contains(err.Error(), c.said)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.said)
		}
		if c.said == "" && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !strings.Contains(text.String(), c.told) || c.told == "" && text.Len() > 0 {
			t.Errorf("%s: told %q, want %q", c.name, text.String(), c.told)
		}
	}
}

// A runner that hangs: what is past its time is ended although the runner lives; the rest is done when it is dead.
func TestTheWatchdogDoesNotWaitForARunnerThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child, self := sleeper(t)
	reaped := make(chan error, 1)
	go func() { reaped <- child.Wait() }()
	_, other := sleeper(t)
	late := undo.Record{Kind: undo.StandReplica, Process: &self, Until: time.Now().Add(-time.Second)}
	early := undo.Record{Kind: undo.StandReplica, Process: &other}
	j := leftBy(t, dir, undo.Header{Run: "r", Runner: undo.Find(os.Getpid()), Deadline: time.Now().Add(time.Hour)}, early, late)
	read, write := io.Pipe()
	var log bytes.Buffer
	over := make(chan error, 1)
	go func() { over <- watch(t.Context(), &log, dir, read) }()
	select {
	case <-reaped:
	case err := <-over:
		t.Fatalf("the watchdog has left: %v\n%s", err, &log)
	case <-time.After(20 * time.Second):
		t.Fatal("what is overdue is not ended")
	}
	if alive, err := other.Lives(); err != nil || !alive {
		t.Errorf("what is not overdue was ended (%v)", err)
	}
	_ = j.Close() // gives the lock back, as a death does: not all is undone
	_ = write.Close()
	if err := <-over; err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
	c, err := undo.Read(filepath.Join(dir, undo.File))
	if err != nil || !c.Closed {
		t.Errorf("%+v, %v\n%s", c, err, &log)
	}
	if alive, err := other.Lives(); err != nil || alive {
		t.Errorf("a replica of a dead runner lives (%v)", err)
	}
}

// A watchdog whose journal is closed or gone has no purpose any more, even if the runner goes on.
func TestTheWatchdogLeavesWithItsPurpose(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(dir string, j *undo.Journal) error{
		"closed": func(_ string, j *undo.Journal) error { return j.Close() },
		"gone":   func(dir string, _ *undo.Journal) error { return os.Remove(filepath.Join(dir, undo.File)) },
	} {
		dir := t.TempDir()
		j := leftBy(t, dir, undo.Header{Run: "r", Deadline: time.Now().Add(time.Hour)})
		read, write := io.Pipe()
		over := make(chan error, 1)
		var log bytes.Buffer
		go func() { over <- watch(t.Context(), &log, dir, read) }()
		if err := end(dir, j); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-over:
			if err != nil || log.Len() > 0 {
				t.Errorf("%s: %v, %s", name, err, &log)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the watchdog stays", name)
		}
		_ = write.Close()
	}
}

// What a run could not undo is named, with the commands; where its watchdog has done it since, that is said instead.
func TestARunNamesWhatItLeaves(t *testing.T) {
	dir := t.TempDir()
	_, self := sleeper(t)
	j := leftBy(t, dir, undo.Header{Run: "r"}, undo.Record{Kind: undo.StandReplica, Process: &self})
	if err := j.Mark(1, undo.Dirty, "it does not die"); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err == nil {
		t.Error("the journal was closed")
	}
	d := &drill{dir: dir}
	var text bytes.Buffer
	d.endJournal(&text)
	for _, want := range []string{"lockdrill recover " + dir, "NOT UNDONE  replica", "it does not die", "by hand:  kill -KILL"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not said:\n%s", want, text.String())
		}
	}
	if _, err := undo.Recover(t.Context(), filepath.Join(dir, undo.File), reverters(true, clusterFlags{}), byWatchdog); err != nil {
		t.Fatal(err)
	}
	text.Reset()
	d.endJournal(&text)
	if !strings.Contains(text.String(), "nothing is left") || strings.Contains(text.String(), "NOT UNDONE") {
		t.Errorf("after the watchdog: %q", text.String())
	}
}

// So is what a run leaves that does not come to a drill.
func TestARunThatGivesUpNamesWhatItLeaves(t *testing.T) {
	dir := t.TempDir()
	_, self := sleeper(t)
	d := &drill{dir: dir, e: &experiments.Experiment{Name: "e"}, journal: leftBy(t, dir, undo.Header{Run: "r"}, undo.Record{Kind: undo.StandReplica, Process: &self})}
	var text bytes.Buffer
	end := new(exitError)
	if err := d.giveUp(t.Context(), &text, errors.New("why")); !errors.As(err, &end) || end.code != verdict.ExitDirty {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"lockdrill recover " + dir, "NOT UNDONE  replica", "by hand:  kill -KILL"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not said:\n%s", want, text.String())
		}
	}
}

// A run that cannot give a target back ends dirty and names what is left; when the target is reachable again, recover gives it back,
// and until then a new run is refused.
func TestATargetThatCannotBeGivenBack(t *testing.T) {
	t.Parallel()
	needDrill(t)
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
		if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}, k.args...)
	if o.code != verdict.ExitDirty || !strings.Contains(o.text, "NOT UNDONE  keys") || !strings.Contains(o.text, "lockdrill recover "+o.dir) || !strings.Contains(o.text, "by hand:  redis-cli") {
		t.Errorf("exit %d, want %d\n%s", o.code, verdict.ExitDirty, o.text)
	}
	if log, err := os.ReadFile(filepath.Join(o.dir, watchdogLog)); err != nil || !strings.Contains(string(log), "given up") {
		t.Errorf("the watchdog's log: %q, %v", log, err)
	}
	file := filepath.Join(filepath.Dir(o.dir), "drill.yaml")
	if got := try(t, "recover", o.dir); got.code != verdict.ExitDirty {
		t.Errorf("recover while the target is shut: %+v", got)
	}
	if got := askedAs(t, addr, "hush", `CONFIG SET requirepass ""`); got != "+OK" {
		t.Fatalf("CONFIG SET: %s", got)
	}
	again := append([]string{"run", file, "--out", filepath.Join(filepath.Dir(o.dir), "again")}, k.args...)
	if got := try(t, again...); got.code != verdict.ExitRefused || !strings.Contains(got.stderr, "first: lockdrill recover "+o.dir) {
		t.Errorf("a new run before that: %+v", got)
	}
	if got := try(t, "recover", o.dir); got.code != verdict.ExitPass {
		t.Errorf("recover: %+v", got)
	}
	nothingIsLeft(t, o.dir)
	k.check(t, o.dir)
}

// The same through the binary: a runner that is stopped in the middle of a fault does not keep the fault alive.
func TestAStoppedRunnerKeepsNoFaultAlive(t *testing.T) {
	needDrill(t)
	if os.Getenv(drillsEnv) != "all" {
		t.Skipf("%s=all: a fault is overdue 20 s after its time", drillsEnv)
	}
	server := toxitest.Start(t)
	yaml := edit(t, networkDrill, "proxy: {mode: embedded}", fmt.Sprintf("proxy: {mode: external, url: %q}", server.URL))
	runDrill(t, yaml, func(pid int) {
		var dirs []string
		until(t, "the run's folder", func() bool {
			dirs, _ = filepath.Glob(filepath.Join(filepath.Dir(t.TempDir()), "*", "run"))
			return len(dirs) == 1
		})
		awaitMark(t, dirs[0], "latency", "injected", &bytes.Buffer{})
		defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if left := proxies(t, server.URL); !strings.Contains(left, `"latency":20`) {
			t.Errorf("the fault is not there to begin with: %s", left)
		}
		over := time.Now().Add(60 * time.Second)
		for strings.Contains(proxies(t, server.URL), `"latency":20`) {
			if time.Now().After(over) {
				t.Fatal("a runner that was stopped keeps its fault alive")
			}
			<-time.After(100 * time.Millisecond)
		}
		if left := proxies(t, server.URL); !strings.Contains(left, "lockdrill-") {
			t.Errorf("the way itself was taken from a runner that may go on: %s", left)
		}
	}, "--confirm", "network", "--environment", "local")
	until(t, "the watchdog's end", func() bool { return len(processes("watchdog", t.Name())) == 0 })
	if left := proxies(t, server.URL); strings.Contains(left, "lockdrill-") {
		t.Errorf("the server has %s", left)
	}
}

// Several errors of one change are a list on one line, and are no command to a CI.
func TestWhatIsLeftStandsOnOneLine(t *testing.T) {
	var b bytes.Buffer
	tellLeft(&b, undo.Record{}, errors.Join(errors.New("close: EOF"), errors.New("##[error]late")).Error())
	first, _, _ := strings.Cut(b.String(), "\n")
	if !strings.HasPrefix(first, "  NOT UNDONE  ") || !strings.HasSuffix(first, ": close: EOF; #\u200b#[error]late") {
		t.Errorf("%q", b.String())
	}
}

// A drill that breaks off ends with 1, and with 20 where its journal does not say that everything is undone; either is said.
func TestADrillThatBreaksOffSaysWhatIsLeft(t *testing.T) {
	broke := errors.New("run: write history: no space left on device")
	for left, want := range map[bool]int{false: verdict.ExitError, true: verdict.ExitDirty} {
		dir := filepath.Join(t.TempDir(), "run")
		j := leftBy(t, dir, undo.Header{Run: "r"})
		if left {
			if _, err := j.Intend(undo.Record{Kind: "pause", Process: &undo.Process{PID: 7}}); err != nil {
				t.Fatal(err)
			}
		}
		_ = j.Close()
		var said bytes.Buffer
		d := &drill{dir: dir, e: &experiments.Experiment{Name: "x"}}
		err := d.conclude(&said, broke)
		if codeOf(err) != want || !errors.Is(err, broke) || strings.Contains(err.Error(), "not everything") != left || strings.Contains(said.String(), "NOT UNDONE") != left {
			t.Errorf("left %t: %d, %v\n%s", left, codeOf(err), err, said.String())
		}
	}
}
