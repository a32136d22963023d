package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lockdrill/lockdrill/internal/poll"
)

// CgroupOf names the cgroup for a process of the run that is known by this name, below the runner's own and one of the run: a path as
// /proc/PID/cgroup has it. "" = the runner's own cgroup is not delegated to it, or there is no cgroup v2.
func (j *Journal) CgroupOf(name string) string {
	own, err := os.ReadFile("/proc/self/cgroup")
	if j == nil || err != nil || strings.Contains(name, "/") {
		return ""
	}
	for line := range strings.Lines(string(own)) {
		p, unified := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::/")
		if !unified {
			continue
		}
		dir := cgroupDir("/" + p)
		if dir == "" || unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
			return ""
		}
		return path.Join("/", p, cgroupPrefix+j.nonce, name)
	}
	return ""
}

// MakeCgroup makes the cgroup that CgroupOf has named, and opens it for processes to be born in; its caller closes it. nil = that is
// not possible here, and nothing of it is left.
func MakeCgroup(name string) *os.File {
	if name == "" {
		return nil
	}
	dir := cgroupDir(name)
	var err error
	for range 3 { // the run's own goes with the last one in it, which may be now
		if err = os.MkdirAll(dir, 0o755); err == nil {
			break
		}
	}
	f, err := os.Open(dir)
	if err == nil { // a fork that cannot exec tells whether the kernel lets a process be born there
		attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}}
		if _, err = syscall.ForkExec(filepath.Join(dir, "no-program"), nil, attr); errors.Is(err, syscall.ENOENT) {
			return f
		}
		_ = f.Close()
	}
	_, _ = os.Remove(dir), os.Remove(filepath.Dir(dir))
	return nil
}

// EndCgroup kills all that is in a cgroup and below it, waits until nothing is, and removes it. One that is gone is no error; "" is none.
func EndCgroup(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	dir := cgroupDir(name)
	if dir == "" {
		return fmt.Errorf("end cgroup %s: no cgroup v2 is mounted here for writing", name)
	}
	for range poll.Every(ctx, goneEvery) {
		events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
		switch {
		case cgroupGone(err):
			_ = os.Remove(filepath.Dir(dir)) // the run's own: it stays as long as there is another in it
			return nil
		case err == nil && slices.Contains(strings.Split(string(events), "\n"), "populated 0"):
			err = removeCgroup(dir)
		case err == nil:
			err = killCgroup(dir)
		}
		if err != nil {
			return fmt.Errorf("end cgroup %s: %w", name, err)
		}
	}
	return fmt.Errorf("wait until cgroup %s is empty: %w", name, ctx.Err())
}

func killCgroup(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if !cgroupGone(err) {
		return err
	}
	return eachCgroup(dir, func(sub string) error { // before Linux 5.14, or the cgroup is gone by now
		procs, err := os.ReadFile(filepath.Join(sub, "cgroup.procs"))
		for number := range strings.FieldsSeq(string(procs)) {
			if pid, bad := strconv.Atoi(number); bad == nil && pid > 0 { // 0 = not seen from this PID namespace
				if failed := syscall.Kill(pid, syscall.SIGKILL); failed != nil && !errors.Is(failed, syscall.ESRCH) {
					err = errors.Join(err, fmt.Errorf("signal process %d: %w", pid, failed))
				}
			}
		}
		return err
	})
}

// removeCgroup removes a cgroup and those in it; one that has a process again, or is still being given up, stays for the next try.
func removeCgroup(dir string) error {
	return eachCgroup(dir, func(sub string) error {
		if err := syscall.Rmdir(sub); err != nil && !errors.Is(err, syscall.EBUSY) {
			return os.NewSyscallError("rmdir", err)
		}
		return nil
	})
}

// eachCgroup calls do for a cgroup and those in it, the inner ones first. What is gone by now is no error.
func eachCgroup(dir string, do func(string) error) error {
	var all []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, p)
		}
		if cgroupGone(err) {
			return nil
		}
		return err
	})
	for _, sub := range slices.Backward(all) {
		if failed := do(sub); !cgroupGone(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// cgroupGone: a file of a cgroup that was removed while it was open gives ENODEV.
func cgroupGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// cgroupDir is where a cgroup is found in the file system, if it exists; "" = no hierarchy with it is mounted for writing.
func cgroupDir(name string) string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return cgroupIn(string(mounts), name)
}

// cgroupIn reads lines of mountinfo: number, parent, device, root, mount point, options, ..., "-", type, ...
func cgroupIn(mounts, name string) string {
	for line := range strings.Lines(mounts) {
		mount, kind, _ := strings.Cut(line, " - ")
		f := strings.Fields(mount)
		if !strings.HasPrefix(kind, "cgroup2 ") || len(f) < 6 || !slices.Contains(strings.Split(f[5], ","), "rw") {
			continue
		}
		if rel, err := filepath.Rel(unescaped.Replace(f[3]), name); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(unescaped.Replace(f[4]), rel)
		}
	}
	return ""
}

// unescaped is what mountinfo writes as octal numbers.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
