package testkit

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/drill/undo"
)

// nonce is that of the runs that LeftBy makes.
const nonce = "nonce"

// LeftBy makes the folder of a run whose journal has the records; the journal is the runner's until it is closed.
func LeftBy(t testing.TB, dir string, h undo.Header, records ...undo.Record) *undo.Journal {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.Nonce = nonce
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

// Ours puts the mark of such a run into a folder.
func Ours(t testing.TB, folder string) {
	t.Helper()
	Write(t, filepath.Join(folder, undo.NonceFile), []byte(nonce))
}

// Sleeper is a process of such a run, in a group of its own.
func Sleeper(t testing.TB) (*exec.Cmd, undo.Process) {
	t.Helper()
	child, mark := exec.Command("sleep", "600"), nonce+"/"+rand.Text()
	child.Env = append(os.Environ(), undo.MarkEnv+"="+mark)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	p := undo.Find(child.Process.Pid)
	p.Mark = mark // just started, it may not show its environment yet
	return child, p
}

// Dead is a runner that was killed.
func Dead(t testing.TB) undo.Process {
	t.Helper()
	child, p := Sleeper(t)
	_ = child.Process.Kill()
	_ = child.Wait()
	return p
}
