package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// firstProcess is lockdrill as the first process of a container: in a PID namespace of its own, which ends with it, with its own /proc.
func firstProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	enter := func(script string, args ...string) *exec.Cmd {
		cmd := exec.Command("sh", append([]string{"-c", "mount -t proc proc /proc && " + script, built}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		}
		return cmd
	}
	if out, err := enter("true").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this machine makes no PID namespace: %v\n%s", err, out)
		}
		t.Skipf("SKIPPED, NOT TESTED: this machine makes no PID namespace: %v\n%s", err, out)
	}
	return enter(`exec "$0" "$@"`, args...)
}

// The first process of a container takes the watchdog along when it ends: so it stays until everything is undone, however the run ended
// that left it, and whoever asks it to end meanwhile.
func TestLiveTheFirstProcessWaitsForTheWatchdog(t *testing.T) {
	t.Parallel()
	needDrill(t)
	for name, end := range map[string]func(t *testing.T, first int, said *saying){
		"the runner is killed": func(t *testing.T, first int, _ *saying) {
			children := childrenOf(first)
			if len(children) != 1 {
				t.Fatalf("children of the first process: %v", children)
			}
			if err := syscall.Kill(children[0], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		"the run is left at once": func(t *testing.T, first int, said *saying) {
			for _, answer := range []string{"interrupted: stopping", "left at once"} {
				if err := syscall.Kill(first, syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				until(t, answer, func() bool { return strings.Contains(said.String(), answer) })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook, fault := hookFolder(t)
			writeFile(t, filepath.Join(hook, "wait.sh"), "until [ -e go ]; do sleep 0.05; done\nexec ./hook.sh mend\n")
			fault = edit(t, fault, "undo: [./hook.sh, mend]", "undo: [sh, ./wait.sh]")
			base := t.TempDir()
			dir := filepath.Join(base, "run")
			file := writeFile(t, filepath.Join(base, "drill.yaml"), unrehearsed(withFault(t, goodDrill, "40s", fault)))
			cmd := firstProcess(t, append([]string{"run", file, "--out", dir}, consent...)...)
			var said saying
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			go func() {
				_ = cmd.Wait()
				said.end()
			}()
			awaitMark(t, dir, "hook", "injected", &said)
			end(t, cmd.Process.Pid, &said)
			until(t, "its word", func() bool {
				return said.Over() || strings.Contains(said.String(), "waiting up to 3m0s for the watchdog")
			})
			if err := syscall.Kill(cmd.Process.Pid, syscall.SIGTERM); err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			until(t, "the answer", func() bool { return said.Over() || strings.Contains(said.String(), "still waiting for the watchdog") })
			writeFile(t, filepath.Join(hook, "go"), "")
			until(t, "the end", said.Over)
			if code := cmd.ProcessState.ExitCode(); code != verdict.ExitDirty {
				t.Errorf("exit %d, want %d\n%s", code, verdict.ExitDirty, said.String())
			}
			if _, err := os.Stat(filepath.Join(hook, "on")); err == nil {
				t.Errorf("the hook was not undone\n%s", said.String())
			}
			nothingIsLeft(t, dir)
		})
	}
}
