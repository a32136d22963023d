package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/procstat"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// fakeHost is a made-up host: a /proc, a tree of cgroups and a clock.
type fakeHost struct {
	*testing.T
	root string
	now  int64
}

func newHost(t *testing.T) *fakeHost { return &fakeHost{t, t.TempDir(), int64(time.Hour)} }

func (h *fakeHost) write(text string, path ...string) string {
	h.Helper()
	name := filepath.Join(append([]string{h.root}, path...)...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		h.Fatal(err)
	}
	return name
}

// process runs a command; it was started age ago, by the real clock.
func (h *fakeHost) process(pid, parent int, age time.Duration, words ...string) {
	ticks := (time.Duration(monotime.Boot()) - age) / (10 * time.Millisecond)
	id := fmt.Sprint(pid)
	h.write(fmt.Sprintf("%d (a) b) S %d %d %d 0 -1 4194560 1 2 3 4 5 0 6 0 20 0 1 0 %d 1 2", pid, parent, pid, pid, ticks), "proc", id, "stat")
	h.write(strings.Join(words, "\x00")+"\x00", "proc", id, "cmdline")
	h.write(fmt.Sprintf("Name:\ta\nUid:\t%d\t%d\t0\t0\n", os.Geteuid(), os.Geteuid()), "proc", id, "status")
}

func (h *fakeHost) group(path string, pids ...int) {
	h.write(strings.Trim(fmt.Sprint(pids), "[]"), "cgroup", path, "cgroup.procs")
}

func (h *fakeHost) locator(p experiments.Processes) *locator {
	l := newLocator(&p, func() int64 { return h.now })
	l.proc, l.cgroups = procstat.At(filepath.Join(h.root, "proc")), filepath.Join(h.root, "cgroup")
	return l
}

// found is what a look shows, as "pid name".
func (h *fakeHost) found(l *locator) string {
	h.Helper()
	all, err := l.look(context.Background())
	if err != nil {
		h.Fatal(err)
	}
	var lines []string
	for _, f := range all {
		lines = append(lines, fmt.Sprint(f.PID, " ", f.words["name"]))
	}
	return strings.Join(lines, ", ")
}

func (h *fakeHost) expect(what string, l *locator, want string) {
	h.Helper()
	if got := h.found(l); got != want {
		h.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestProcessesAreFoundByTheirCommandLines(t *testing.T) {
	h := newHost(t)
	h.process(1, 0, time.Hour, "init")
	h.process(20, 1, time.Minute, "python3", "/srv/scheduler.py", "--name", "a", "--port", "91")
	h.process(21, 1, time.Minute, "vim", "scheduler.py")
	h.process(30, 1, time.Minute, "python3", "/srv/scheduler.py", "--name", "b", "--port", "92")
	h.process(31, 30, time.Second, "python3", "/srv/scheduler.py", "--name", "b", "--port", "92")
	l := h.locator(experiments.Processes{Match: `scheduler\.py --name (?P<name>\S+) --port (?P<port>\d+)`})
	h.expect("what it has just forked off is a part of it", l, "20 a, 30 b")
	all, err := l.look(context.Background())
	if err != nil || all[1].words["port"] != "92" {
		t.Errorf("%+v, %v", all, err)
	}
	h.process(31, 30, time.Second, "python3", "/srv/scheduler.py", "--name", "c", "--port", "93")
	h.expect("it is a program of its own once it says so", l, "20 a, 30 b, 31 c")
	h.process(40, 1, 0, "sh", "-c", "start")
	h.now += int64(50 * time.Millisecond)
	h.expect("a shell", l, "20 a, 30 b, 31 c")
	h.process(40, 1, 0, "python3", "scheduler.py", "--name", "d", "--port", "94")
	h.now += int64(50 * time.Millisecond)
	h.expect("the shell has become the program", l, "20 a, 30 b, 31 c, 40 d")
	h.process(21, 1, time.Minute, "python3", "scheduler.py", "--name", "e", "--port", "95")
	h.now += int64(youngFor + readAgain)
	h.expect("so has one that is old", l, "20 a, 21 e, 30 b, 31 c, 40 d")
	testkit.Must(t, os.RemoveAll(filepath.Join(h.root, "proc", "30")))
	h.process(20, 1, 0, "sh")
	h.now += int64(youngFor + readAgain)
	h.expect("one has ended, and another has its number", l, "21 e, 31 c, 40 d")
}

// A number in a file is that of the process that wrote it, or of whoever has it by now.
func TestAPidFileThatIsOlderThanItsProcessIsVoid(t *testing.T) {
	h := newHost(t)
	h.process(20, 1, time.Minute, "scheduler")
	h.process(30, 1, time.Minute, "somebody")
	h.process(40, 1, time.Minute, "scheduler")
	h.write("20\n", "run", "a.pid")
	old := h.write("30", "run", "b.pid")
	h.write("99", "run", "gone.pid")
	h.write("forty", "run", "d.pid")
	h.write("40", "run", "e.txt")
	testkit.Must(t, os.Chtimes(old, time.Time{}, time.Now().Add(-time.Hour)))
	l := h.locator(experiments.Processes{PIDFiles: filepath.Join(h.root, "run", "{name}.pid")})
	h.expect("pid files", l, "20 a")
	doubts := strings.Join(l.doubts, "\n")
	for _, want := range []string{`b\.pid is older than process 30`, `d\.pid holds no number`} {
		if !regexp.MustCompile(want).MatchString(doubts) {
			t.Errorf("nobody says %q in %q", want, doubts)
		}
	}
	testkit.Must(t, os.Chtimes(old, time.Time{}, time.Now()))
	h.expect("written by it", l, "20 a, 30 b")
}

func TestTheMainProcessOfAUnitIsItsReplica(t *testing.T) {
	h := newHost(t)
	h.process(20, 1, time.Minute, "scheduler")
	h.process(21, 20, time.Minute, "helper")
	h.process(22, 1, time.Second, "left over")
	h.process(30, 1, time.Minute, "scheduler")
	h.process(40, 1, time.Minute, "other")
	h.group("system.slice/system-scheduler.slice/scheduler@a.service", 22, 21, 20)
	h.group("system.slice/system-scheduler.slice/scheduler@b.service", 30)
	h.group("memory/system.slice/system-scheduler.slice/scheduler@b.service", 30) // of cgroup v1, beside the others
	h.group("system.slice/system-scheduler.slice/scheduler@c.service")
	h.group("system.slice/myscheduler@d.service", 40)
	unit := h.locator(experiments.Processes{Unit: "scheduler@{name}.service"})
	h.expect("units", unit, "20 a, 30 b")
	h.process(50, 1, 0, "scheduler")
	h.group("system.slice/system-scheduler.slice/scheduler@c.service", 50)
	h.expect("a unit that has a process again", unit, "20 a, 30 b, 50 c")
	h.process(60, 1, 0, "scheduler")
	h.group("user.slice/scheduler@e.service", 60)
	h.now += int64(listAgain + time.Millisecond)
	h.expect("a unit that is new", unit, "20 a, 30 b, 50 c, 60 e")
	h.expect("cgroups", h.locator(experiments.Processes{Cgroup: "/system-scheduler.slice/scheduler@{name}.service"}), "20 a, 30 b, 50 c")
}

func TestACommandListsTheReplicas(t *testing.T) {
	h := newHost(t)
	h.process(20, 1, time.Minute, "scheduler")
	h.process(30, 1, time.Minute, "scheduler")
	list := h.write("#!/bin/sh\ncat \"$(dirname \"$0\")/list\"\n", "list.sh")
	testkit.Must(t, os.Chmod(list, 0o755))
	h.write("20 a\n\n30 b\n99 gone\n", "list")
	l := h.locator(experiments.Processes{Command: []string{list}})
	h.expect("what it prints", l, "20 a, 30 b")
	h.write("30 b\n", "list")
	h.expect("it is not asked at each look", l, "20 a, 30 b")
	h.now += int64(listAgain + time.Millisecond)
	for deadline := time.Now().Add(10 * time.Second); h.found(l) != "30 b"; {
		if time.Now().After(deadline) {
			t.Fatal("it was never asked again")
		}
	}
	for text, want := range map[string]string{"name 20\n": "not \"pid name\"", "20 a b\n": "not \"pid name\"", "-1 a\n": "not \"pid name\""} {
		h.write(text, "list")
		if _, err := h.locator(experiments.Processes{Command: []string{list}}).look(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := h.locator(experiments.Processes{Command: []string{"false"}}).look(context.Background()); err == nil || !strings.Contains(err.Error(), "status 1") {
		t.Errorf("a command that fails: %v", err)
	}
}

func TestWhatMustNeverBeStruck(t *testing.T) {
	h := newHost(t)
	l := h.locator(experiments.Processes{Match: "."})
	h.process(20, 1, time.Minute, "scheduler")
	h.process(30, 1, time.Minute, "scheduler")
	h.write("Name:\ta\nUid:\t1\t54321\t0\t0\n", "proc", "30", "status")
	h.process(os.Getppid(), 7, time.Hour, "shell")
	h.process(7, 1, time.Hour, "session")
	h.process(40, os.Getpid(), time.Minute, "watchdog")
	why := func(pid int) string {
		p := l.read(pid)
		if p == nil {
			p = &proc{Process: procstat.Process{PID: pid}}
		}
		return l.untouchable(*p)
	}
	for pid, want := range map[int]string{
		20: "", 1: "process 1", os.Getpid(): "lockdrill's own", 40: "lockdrill's own", os.Getppid(): "has started lockdrill", 7: "has started lockdrill", 30: "of user 54321",
	} {
		if got := why(pid); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("process %d: %q, want %q", pid, got, want)
		}
	}
}

// Where there is no /proc, ps says what it says.
func TestProcessesAreFoundByPS(t *testing.T) {
	if _, err := exec.LookPath("ps"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: no ps on the PATH")
	}
	now := monotime.Now()
	table := &psTable{clock: func() int64 { return now }}
	pids, err := table.All()
	if err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Fatalf("%v, %v: without this process", pids, err)
	}
	p, err := table.Process(os.Getpid())
	if err != nil || p.Parent != os.Getppid() {
		t.Errorf("%+v, %v", p, err)
	}
	if real, err := procstat.New().Process(os.Getpid()); err == nil {
		if off := real.Began() - p.Began(); off < -2*time.Second || off > 2*time.Second { // procps counts from a boot that it knows to a second or so
			t.Errorf("it is said to have been started %s before it was", off)
		}
	}
	command, err := table.Command(os.Getpid())
	if err != nil || !strings.Contains(command, filepath.Base(os.Args[0])) {
		t.Errorf("its command line is %q, %v", command, err)
	}
	if uid, err := table.Owner(os.Getpid()); err != nil || uid != os.Geteuid() {
		t.Errorf("it is of user %d, %v", uid, err)
	}
	if _, err := table.Process(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that is none: %v", err)
	}
}
