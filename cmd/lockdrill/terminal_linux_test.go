package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// ownTerminal opens a terminal of its own: what holds it, and what runs in it.
func ownTerminal(t *testing.T) (holder, inside *os.File) {
	t.Helper()
	holder, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("NOT TESTED: no terminal can be made here: ", err)
	}
	number := 0
	if err = unix.IoctlSetPointerInt(int(holder.Fd()), unix.TIOCSPTLCK, 0); err == nil {
		number, err = unix.IoctlGetInt(int(holder.Fd()), unix.TIOCGPTN)
	}
	if err != nil {
		t.Skip("NOT TESTED: no terminal can be made here: ", err)
	}
	inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("NOT TESTED: no terminal can be made here: ", err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	return holder, inside
}

// Whoever closes the terminal of a run has interrupted it, and that is its status: that nobody reads its last words is no failure of its
// own.
func TestLiveAClosedTerminalInterruptsTheRun(t *testing.T) {
	needDrill(t)
	t.Parallel()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // else a run that these tests start under nohup has it ignored, and goes on
	t.Cleanup(func() { signal.Stop(hangups) })
	holder, inside := ownTerminal(t)
	base := t.TempDir()
	dir, file := filepath.Join(base, "run"), writeFile(t, filepath.Join(base, "drill.yaml"), unrehearsed(withFault(t, goodDrill, "30s", "pause: {holder_of: loop}")))
	cmd := lockdrill("run", file, "--out", dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for piece := make([]byte, 4096); !strings.Contains(said.String(), "SIGSTOP"); {
		n, err := holder.Read(piece)
		if said.Write(piece[:n]); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
	}
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != verdict.ExitAborted {
		t.Errorf("exit %d, want %d", code, verdict.ExitAborted)
	}
	nothingIsLeft(t, dir)
}
