package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/undo"
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
		must(t, err)
		for _, e := range c.Entries {
			if e.Record.Kind == "pause" {
				during(dir, pid, *e.Record.Process)
			}
		}
	})
}

// A journal that is gone in the middle of a fault ends the run: what is in effect is undone from memory, and that is no verdict. Other ways to
// lose it are undo's TestAJournalThatIsCutIsLost and drill's TestTheWatchdogUndoesAJournalWithoutAName.
func TestLiveARunWithoutItsJournalEnds(t *testing.T) {
	besideDrills(t)
	for name, lose := range map[string]func(dir string) error{
		"journal removed": func(dir string) error { return os.Remove(filepath.Join(dir, undo.File)) },
		"folder removed":  os.RemoveAll,
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
			if _, err := os.Stat(o.dir); err == nil {
				try(t, "recover", o.dir).ends(t, verdict.ExitDirty)
			}
		})
	}
}

// The end of a terminal ends a run in order; SIGQUIT breaks it off, with a status that is not that of a wrong flag, and its watchdog
// undoes everything.
func TestLiveSignalsThatEndARun(t *testing.T) {
	besideDrills(t)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // else a run that these tests start under nohup has it ignored, and goes on
	defer signal.Stop(hangups)
	for sig, want := range map[syscall.Signal]int{syscall.SIGHUP: verdict.ExitAborted, syscall.SIGQUIT: -1} {
		o := paused(t, "40s", nil, func(_ string, pid int, _ undo.Process) {
			for range 2 { // a terminal says it twice
				must(t, syscall.Kill(pid, sig))
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
	must(t, os.Chmod(dir, 0o777))
	try(t, "recover", dir).ends(t, verdict.ExitRefused, "everybody may write to the folder", "--trust")
	if alive, err := self.Lives(); err != nil || !alive {
		t.Errorf("by the word of an untrusted journal a process was ended (%v)", err)
	}
	try(t, "recover", dir, "--trust").ends(t, verdict.ExitPass, "--trust: ")
	open := t.TempDir()
	file := writeFile(t, filepath.Join(open, "..", "drill.yaml"), goodDrill)
	must(t, os.Chmod(open, 0o777))
	try(t, "run", file, "--out", open).ends(t, verdict.ExitRefused, "name a new folder in it with --out")
	onlyFile(t, open)
}

// What a forged record names is neither done nor recommended to a person.
func TestARefusedRecordIsNotRecommended(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	letters := filepath.Join(t.TempDir(), "lockdrill-letters")
	must(t, os.Mkdir(letters, 0o700))
	writeFile(t, filepath.Join(letters, "a"), "dear")
	_ = testkit.LeftBy(t, dir, undo.Header{Run: "r", Runner: testkit.Dead(t)}, undo.Record{Kind: undo.StandServer, Folder: letters}).Close()
	for range 2 {
		got := try(t, "recover", dir)
		if got.code != verdict.ExitDirty || !strings.Contains(got.stdout, "does not have the run's nonce") || strings.Contains(got.stdout, "by hand") {
			t.Errorf("%+v", got)
		}
	}
	isThere(t, filepath.Join(letters, "a"))
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
	must(t, err)
	defer write.Close()
	cmd = exec.Command(built, "worker") // waits for its standard input
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	cmd.Stdin = read
	var text bytes.Buffer
	cmd.Stderr = &text
	must(t, cmd.Start())
	if _, err := write.WriteString(" "); err != nil {
		t.Fatal(err)
	}
	until(t, "the worker under the first process", func() bool { // it has read that
		left, err := unix.IoctlGetInt(int(read.Fd()), unix.TIOCINQ)
		return err == nil && left == 0
	})
	must(t, cmd.Process.Signal(syscall.SIGQUIT))
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
	besideDrills(t)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // else a run that these tests start under nohup has it ignored, and goes on
	t.Cleanup(func() { signal.Stop(hangups) })
	holder, inside := ownTerminal(t)
	base := t.TempDir()
	dir, file := filepath.Join(base, "run"), writeFile(t, filepath.Join(base, "drill.yaml"), unrehearsed(withFault(t, goodDrill, "30s", "pause: {holder_of: loop}")))
	cmd := lockdrill("run", file, "--out", dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	must(t, cmd.Start())
	var said bytes.Buffer
	for piece := make([]byte, 4096); !strings.Contains(said.String(), "SIGSTOP"); {
		n, err := holder.Read(piece)
		if said.Write(piece[:n]); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
	}
	must(t, holder.Close())
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != verdict.ExitAborted {
		t.Errorf("exit %d, want %d", code, verdict.ExitAborted)
	}
	nothingIsLeft(t, dir)
}

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
	besideDrills(t)
	for name, end := range map[string]func(t *testing.T, first int, said *saying){
		"the runner is killed": func(t *testing.T, first int, _ *saying) {
			children := childrenOf(first)
			if len(children) != 1 {
				t.Fatalf("children of the first process: %v", children)
			}
			must(t, syscall.Kill(children[0], syscall.SIGKILL))
		},
		"the run is left at once": func(t *testing.T, first int, said *saying) {
			for _, answer := range []string{"interrupted: stopping", "left at once"} {
				must(t, syscall.Kill(first, syscall.SIGTERM))
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
			must(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			go func() {
				_ = cmd.Wait()
				said.End()
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
			isGone(t, filepath.Join(hook, "on"))
			nothingIsLeft(t, dir)
		})
	}
}

// A kubeconfig that only a journal names, and that would run a program or send a file, is neither used nor recommended: kubectl would do by
// hand what was refused. So it is with every record that names one, whatever else keeps it from being undone.
func TestAnUnprovenKubeconfigIsNotRecommended(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ran := filepath.Join(base, "ran")
	users := map[string]string{
		"an exec plugin": "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [" + ran + "], interactiveMode: Never}",
		"":               "token: t",
	}
	kubeconfig := func(name, user string) string {
		return writeFile(t, filepath.Join(base, name), "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n"+
			"contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {"+user+"}}]\n")
	}
	own := kubeconfig("own", "token: t")
	n := 0
	for what, user := range users {
		n++
		config := kubeconfig(fmt.Sprint("config", n), user)
		cluster := &undo.Cluster{Kubeconfig: config, Server: "https://127.0.0.1:2", Namespace: "n", Run: "r", Objects: []undo.Object{{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}}
		records := []undo.Record{
			{Kind: undo.StandPods, Cluster: cluster},
			{Kind: undo.StandPods, Cluster: &undo.Cluster{Kubeconfig: config, Server: cluster.Server, Namespace: "n", Run: "r", Leases: "lockdrill.r."}},
			{Kind: "network_policy", Cluster: cluster, Cut: &undo.Cut{Policy: "p", Pod: "p", UID: "u"}},
			{Kind: "node", Cluster: cluster, Node: &undo.Node{Name: "n", UID: "u"}},
			{Kind: "from the future", Cluster: cluster},
		}
		dir := filepath.Join(base, fmt.Sprint("run", n))
		_ = testkit.LeftBy(t, dir, undo.Header{Run: "r", Runner: testkit.Dead(t)}, records...).Close() // it is not undone
		elsewhere := filepath.Join(base, fmt.Sprint("elsewhere", n))
		_ = testkit.LeftBy(t, elsewhere, undo.Header{Run: "r", Runner: testkit.Dead(t), Hostname: "another"}, undo.Record{Kind: undo.StandPods, Cluster: cluster, Process: &undo.Process{PID: 1}}).Close()

		told := func(by, said string, count int) {
			t.Helper()
			refused, byHand := strings.Count(said, "refused: kubeconfig settings: "+config+" has "+what+", and only a journal names it"), strings.Count(said, "kubectl --kubeconfig "+config)
			if what != "" && (refused != count || byHand > 0) || what == "" && (refused > 0 || byHand < count) {
				t.Errorf("%q, %s: %d refused, %d recommended, of %d\n%s", what, by, refused, byHand, count, said)
			}
		}
		got := try(t, "recover", dir)
		told("recover", got.stdout, len(records))
		if got.code != verdict.ExitDirty {
			t.Errorf("%q: %+v", what, got)
		}
		told("recover elsewhere", try(t, "recover", elsewhere).stdout, 1)
		if what == "an exec plugin" {
			told("the watchdog", watchdogOf(t, elsewhere), 3) // as often as it tries
		}
		if said := try(t, "recover", dir, "--kubeconfig", own).stdout; strings.Contains(said, config) || strings.Count(said, "kubectl --kubeconfig "+own) < len(records) {
			t.Errorf("%q, with a kubeconfig of the caller's:\n%s", what, said)
		}
	}
	if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the plugin was run (%v)", err)
	}
}

// watchdogOf is what the watchdog of a run says whose runner is dead.
func watchdogOf(t *testing.T, dir string) string {
	t.Helper()
	read, write, err := os.Pipe()
	must(t, err)
	defer read.Close()
	must(t, write.Close())
	cmd := lockdrill("watchdog", dir)
	cmd.ExtraFiles = []*os.File{read}
	got := finish(t, t.TempDir(), cmd)
	if got.code != verdict.ExitDirty {
		t.Errorf("%s: %+v", drill.WatchdogLog, got)
	}
	return got.stderr
}
