package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// paused runs the good drill with a pause instead of its kills, and calls during as soon as the victim stands still.
func paused(t *testing.T, lasts string, edits []string, during func(dir string, pid int, victim undo.Process)) drillOut {
	t.Helper()
	base := t.TempDir()
	dir := filepath.Join(base, "run")
	return runDrillIn(t, base, unrehearsed(edit(t, withFault(t, goodDrill, lasts, "pause: {holder_of: loop}"), edits...)), func(pid int) {
		awaitMark(t, dir, "pause", "injected", &bytes.Buffer{})
		c, err := undo.Read(filepath.Join(dir, undo.File))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.Entries {
			if e.Record.Kind == "pause" {
				during(dir, pid, *e.Record.Process)
			}
		}
	})
}

// A journal that is gone in the middle of a fault ends the run: what is in effect is undone from memory, and that is no verdict.
func TestLiveARunWithoutItsJournalEnds(t *testing.T) {
	needDrill(t)
	t.Parallel()
	for name, lose := range map[string]func(dir string) error{
		"journal removed": func(dir string) error { return os.Remove(filepath.Join(dir, undo.File)) },
		"folder removed":  os.RemoveAll,
		"journal emptied": func(dir string) error { return os.Truncate(filepath.Join(dir, undo.File), 0) },
		"journal replaced": func(dir string) error {
			file := filepath.Join(dir, undo.File)
			return os.Rename(writeFile(t, file+".new", "{}\n"), file)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var victim undo.Process
			o := paused(t, "40s", nil, func(dir string, _ int, v undo.Process) {
				victim = v
				if err := lose(dir); err != nil {
					t.Error(err)
				}
			})
			if o.code != verdict.ExitError || !strings.Contains(o.text, undo.ErrLost.Error()) || !strings.Contains(o.text, "undone from memory") {
				t.Errorf("exit %d, want %d\n%s", o.code, verdict.ExitError, o.text)
			}
			if none, err := victim.Signal(0); err != nil || !none {
				t.Errorf("the victim lives (%v)", err)
			}
			if _, err := os.Stat(o.dir); err == nil && (name == "journal removed" || name == "journal emptied") {
				if got := try(t, "recover", o.dir); got.code != verdict.ExitDirty {
					t.Errorf("recover: %+v", got)
				}
			}
		})
	}
}

// The end of a terminal ends a run in order; SIGQUIT breaks it off, with a status that is not that of a wrong flag, and its watchdog
// undoes everything.
func TestLiveSignalsThatEndARun(t *testing.T) {
	needDrill(t)
	t.Parallel()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // else a run that these tests start under nohup has it ignored, and goes on
	defer signal.Stop(hangups)
	for sig, want := range map[syscall.Signal]int{syscall.SIGHUP: verdict.ExitAborted, syscall.SIGQUIT: -1} {
		o := paused(t, "40s", nil, func(_ string, pid int, _ undo.Process) {
			for range 2 { // a terminal says it twice
				if err := syscall.Kill(pid, sig); err != nil {
					t.Error(err)
				}
			}
		})
		if o.code != want {
			t.Errorf("%s: exit %d, want %d\n%s", sig, o.code, want, o.text)
		}
		allGone(t, processes("watchdog", o.dir))
		nothingIsLeft(t, o.dir)
	}
}

// A folder that others may write to is refused before anything is touched; recover does nothing by the word of a journal in one.
func TestAFolderThatOthersMayWriteTo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	_, self := testkit.Sleeper(t)
	_ = testkit.LeftBy(t, dir, undo.Header{Run: "r", Runner: testkit.Dead(t)}, undo.Record{Kind: undo.StandReplica, Process: &self}).Close() // it is not undone
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := try(t, "recover", dir); got.code != verdict.ExitRefused || !strings.Contains(got.stderr, "everybody may write to the folder") || !strings.Contains(got.stderr, "--trust") {
		t.Errorf("recover: %+v", got)
	}
	if alive, err := self.Lives(); err != nil || !alive {
		t.Errorf("by the word of an untrusted journal a process was ended (%v)", err)
	}
	if got := try(t, "recover", dir, "--trust"); got.code != verdict.ExitPass || !strings.Contains(got.stderr, "--trust: ") {
		t.Errorf("recover --trust: %+v", got)
	}
	open := t.TempDir()
	file := writeFile(t, filepath.Join(open, "..", "drill.yaml"), goodDrill)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := try(t, "run", file, "--out", open); got.code != verdict.ExitRefused || !strings.Contains(got.stderr, "name a new folder in it with --out") {
		t.Errorf("run: %+v", got)
	}
	if entries, err := os.ReadDir(open); err != nil || len(entries) > 0 {
		t.Errorf("touched: %v, %v", entries, err)
	}
}

// What a forged record names is neither done nor recommended to a person.
func TestARefusedRecordIsNotRecommended(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	letters := filepath.Join(t.TempDir(), "lockdrill-letters")
	if err := os.Mkdir(letters, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(letters, "a"), "dear")
	_ = testkit.LeftBy(t, dir, undo.Header{Run: "r", Runner: testkit.Dead(t)}, undo.Record{Kind: undo.StandServer, Folder: letters}).Close()
	for range 2 {
		got := try(t, "recover", dir)
		if got.code != verdict.ExitDirty || !strings.Contains(got.stdout, "does not have the run's nonce") || strings.Contains(got.stdout, "by hand") {
			t.Errorf("%+v", got)
		}
	}
	if _, err := os.Stat(filepath.Join(letters, "a")); err != nil {
		t.Error(err)
	}
}

// A crash has a status of its own, also that of the first process of a container, which the kernel lets no signal end.
func TestACrashIsNoWrongFlag(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(built, "--version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if err != nil && os.Geteuid() != 0 && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, NOT TESTED: only root makes a first process: ", err)
	}
	if err != nil || !bytes.Contains(out, []byte("lockdrill")) {
		t.Errorf("as a first process: %v\n%s", err, out)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	cmd = exec.Command(built, "worker") // waits for its standard input
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	cmd.Stdin = read
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := write.WriteString(" "); err != nil {
		t.Fatal(err)
	}
	until(t, "the worker under the first process", func() bool { // it has read that
		left, err := unix.IoctlGetInt(int(read.Fd()), unix.TIOCINQ)
		return err == nil && left == 0
	})
	if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != verdict.ExitDirty {
		t.Errorf("exit %d, want %d\n%s", code, verdict.ExitDirty, text.String())
	}
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	write(t, path, []byte(text))
	return path
}
