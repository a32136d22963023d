package stores

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/spawn"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// group starts a process that leads a group of two, and returns it with the number of the second.
func group(t *testing.T) (*exec.Cmd, int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	testkit.Must(t, err)
	second, err := strconv.Atoi(strings.TrimSpace(line))
	testkit.Must(t, err)
	return cmd, second
}

func TestEndStandKillsOnlyWhatWasWrittenDown(t *testing.T) {
	cmd, second := group(t)
	self := undo.Find(cmd.Process.Pid)
	if self.Started == "" {
		t.Skip("this system does not tell when a process was started")
	}
	folder := filepath.Join(t.TempDir(), "lockdrill-redis-x")
	testkit.Must(t, os.MkdirAll(filepath.Join(folder, "deep"), 0o700))
	other, reboot := self, self
	other.Started, reboot.Host = "1", "another-boot"
	for _, p := range []undo.Process{other, reboot} {
		if err := EndStand(t.Context(), undo.Record{Kind: undo.StandReplica, Process: &p}); err != nil {
			t.Errorf("a process that is gone counts as ended: %v", err)
		}
		if alive, err := self.Lives(); err != nil || !alive {
			t.Fatalf("a process that only has the same number was killed (%v)", err)
		}
	}
	if err := syscall.Kill(-self.PID, syscall.SIGSTOP); err != nil { // a stopped one is ended as well
		t.Fatal(err)
	}
	deputy := undo.Find(second)
	for range 2 {
		if err := EndStand(t.Context(), undo.Record{Kind: undo.StandServer, Process: &self, Folder: folder}); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []undo.Process{self, deputy} {
		if err := p.AwaitEnd(t.Context()); err != nil {
			t.Errorf("process %d: %v", p.PID, err)
		}
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

// A kill that is called back has killed: whoever starts the server again finds none that runs.
func TestAKillThatIsCalledBackIsWaitedFor(t *testing.T) {
	starts := spawn.New()
	defer starts.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		s := &Spawned{How: &Own{Spawner: starts}, Name: "s", Kind: "server"}
		testkit.Must(t, s.Run(exec.Command("sleep", "600")))
		if err := s.Kill(ctx); err != nil || s.Runs() {
			t.Fatalf("%v, it runs: %t", err, s.Runs())
		}
	}
}

func TestEndStandRemovesNoOtherFolder(t *testing.T) {
	for _, name := range []string{"precious", "not-lockdrill-redis"} {
		dir := filepath.Join(t.TempDir(), name)
		testkit.Must(t, os.Mkdir(dir, 0o700))
		if err := EndStand(t.Context(), undo.Record{Kind: undo.StandServer, Folder: dir}); err == nil {
			t.Error("removed without a word")
		}
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if err := EndStand(t.Context(), undo.Record{Kind: undo.StandServer, Folder: "lockdrill-relative"}); err == nil {
		t.Error("a folder that depends on where the process stands was accepted")
	}
}
