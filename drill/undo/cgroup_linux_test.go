package undo

import (
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
	"time"
)

// delegated gives the test a cgroup v2 below its own, and says loudly where that cannot be.
func delegated(t *testing.T) *Journal {
	t.Helper()
	j, _ := create(t, Header{Run: "r"})
	if j.CgroupOf("x") == "" && os.Getuid() == 0 {
		dir := t.TempDir()
		err := syscall.Mount("none", dir, "cgroup2", 0, "")
		if err != nil && os.Getenv("CI") == "true" {
			t.Fatal("root cannot mount a cgroup v2: ", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	}
	if j.CgroupOf("x") == "" {
		t.Skip("NOT TESTED: no cgroup v2 is delegated to this process, and it cannot mount one")
	}
	return j
}

// bornIn starts a shell in a new cgroup whose child has a cleared environment and a session of its own, and returns the child when the shell is dead.
func bornIn(t *testing.T, name string) (leader Process, child int) {
	t.Helper()
	dir := MakeCgroup(name)
	if dir == nil {
		t.Fatalf("no cgroup %s", name)
	}
	defer dir.Close()
	t.Cleanup(func() { _ = EndCgroup(context.Background(), name) })
	cmd := exec.Command("sh", "-c", "env -i setsid sh -c 'echo $$; exec sleep 1000 >&-' & read never")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := &strings.Builder{} // Wait ends when the child has closed its output
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leader = Find(cmd.Process.Pid)
	_ = in.Close()
	_ = cmd.Wait()
	if child, err = strconv.Atoi(strings.TrimSpace(out.String())); err != nil || !runs(child) {
		t.Fatalf("no child: %v", err)
	}
	return leader, child
}

func cgroupExists(name string) bool {
	_, err := os.Stat(cgroupDir(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// What a dead replica has started and neither group, session nor environment tell of is ended by its cgroup.
func TestACgroupIsEndedWithAllThatIsInIt(t *testing.T) {
	j := delegated(t)
	name := j.CgroupOf("r1.1")
	leader, child := bornIn(t, name)
	if none, err := leader.Signal(0); !none || err != nil {
		t.Fatalf("it is found without its cgroup: %v", err) // then this test shows nothing
	}
	if err := os.Mkdir(filepath.Join(cgroupDir(name), "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 2 { // again is no error
		if err := EndCgroup(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if runs(child) || cgroupExists(name) || cgroupExists(filepath.Dir(name)) {
		t.Errorf("left: process %t, cgroup %t, the run's %t", runs(child), cgroupExists(name), cgroupExists(filepath.Dir(name)))
	}
}

// A record that names another's cgroup is refused before its reverter is called.
func TestARecordOfAnothersCgroupIsRefused(t *testing.T) {
	j := delegated(t)
	foreign := strings.Replace(j.CgroupOf("r1.1"), j.nonce, "another", 1)
	_, child := bornIn(t, foreign)
	own := filepath.Dir(j.CgroupOf("r1.1"))
	for _, name := range []string{foreign, "/", "/system.slice", own, own + "/../" + filepath.Base(filepath.Dir(foreign)) + "/r1.1", own[1:] + "/r1.1", own + "/a/b", own + "/.."} {
		if _, err := j.Intend(Record{Kind: StandReplica, Cgroup: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.file.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := recoverAt(t.Context(), j.path, map[string]Reverter{StandReplica: func(ctx context.Context, r Record) error {
		t.Errorf("%s: it would be ended", r.Cgroup)
		return nil
	}}, "recover")
	if err != nil || len(report.Left()) != 8 {
		t.Errorf("%d left, %v", len(report.Left()), err)
	}
	var refused *RefusedError
	for _, o := range report.Left() {
		if !errors.As(o.Err, &refused) {
			t.Errorf("%s: %v", o.Record.Cgroup, o.Err)
		}
	}
	if !runs(child) {
		t.Error("the process was ended")
	}
}

// A cgroup is found where its hierarchy is mounted for writing, whatever is shown of it there.
func TestACgroupIsFoundByTheMounts(t *testing.T) {
	const (
		v1   = "37 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
		ro   = "38 31 0:38 / /sys/fs/cgroup ro,relatime shared:4 - cgroup2 cgroup2 rw\n"
		all  = "39 31 0:38 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		part = `40 31 0:38 /user.slice/a /mnt/my\040own rw - cgroup2 none rw` + "\n"
	)
	for _, c := range []struct{ mounts, name, want string }{
		{"", "/a", ""}, {v1, "/a", ""}, {v1 + ro, "/a", ""}, {v1 + ro + all, "/a", "/sys/fs/cgroup/a"},
		{part, "/user.slice/a/b", "/mnt/my own/b"}, {part, "/user.slice/ab", ""}, {part + all, "/user.slice/ab", "/sys/fs/cgroup/user.slice/ab"},
	} {
		if got := cgroupIn(c.mounts, c.name); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
