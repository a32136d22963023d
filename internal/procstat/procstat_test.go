package procstat

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockdrill/lockdrill/internal/testkit"
)

// fake is a /proc in a folder.
type fake struct {
	t    *testing.T
	root string
}

func newFake(t *testing.T) *fake { return &fake{t, t.TempDir()} }

func (f *fake) write(text string, path ...string) {
	f.t.Helper()
	name := filepath.Join(append([]string{f.root}, path...)...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// process has used ticks itself and waited for children that used childTicks; its threads have waited for so many ms.
func (f *fake) process(pid, session, ticks, childTicks int, threads map[int]int) {
	id := fmt.Sprint(pid)
	f.write(fmt.Sprintf("%d (a (strange) name) S 1 %d %d 0 -1 4194560 1 2 3 4 %d 0 %d 0 20 0 1 0 555 1 2", pid, pid, session, ticks, childTicks), id, "stat")
	for tid, ms := range threads {
		f.write(fmt.Sprintf("77 %d 3\n", time.Duration(ms)*time.Millisecond), id, "task", fmt.Sprint(tid), "schedstat")
	}
}

func (f *fake) ends(pid int) {
	if err := os.RemoveAll(filepath.Join(f.root, fmt.Sprint(pid))); err != nil {
		f.t.Fatal(err)
	}
}

func TestBusyIsWhatWasNotIdle(t *testing.T) {
	f := newFake(t)
	f.write("cpu  100 20 30 9999 8888 4 5 6 70 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n", "stat")
	got, err := At(f.root).Busy()
	if want := 165 * tick; err != nil || got != want {
		t.Errorf("Busy = %v, %v; want %v: idle and iowait do not count, guest is in user", got, err, want)
	}
	for _, bad := range []string{"", "cpu 1 2\n", "intr 1 2 3 4 5 6 7 8 9\n", "cpu a 2 3 4 5 6 7 8 9\n"} {
		f.write(bad, "stat")
		if got, err := At(f.root).Busy(); err == nil {
			t.Errorf("Busy of %q = %v", bad, got)
		}
	}
}

func TestAProcessIsReadWhateverItsName(t *testing.T) {
	f := newFake(t)
	f.process(12, 7, 3, 4, map[int]int{12: 5, 13: 6})
	p := At(f.root)
	got, err := p.Process(12)
	if want := (Process{PID: 12, Session: 7, Used: 7 * tick, Parent: 1, Started: 555}); err != nil || got != want {
		t.Errorf("Process = %+v, %v; want %+v", got, err, want)
	}
	if ran, waited, err := p.Thread(12, 13); err != nil || ran != 77 || waited != 6*time.Millisecond {
		t.Errorf("Thread = %v, %v, %v", ran, waited, err)
	}
	f.write("12 (cut off", "12", "stat")
	if got, err := p.Process(12); err == nil {
		t.Errorf("Process of a torn line = %+v", got)
	}
	if _, err := p.Process(99); !os.IsNotExist(err) {
		t.Errorf("Process of none: %v", err)
	}
	if _, _, err := p.Self(); !os.IsNotExist(err) {
		t.Errorf("Self where there is none: %v", err)
	}
}

// What counts is what came between two looks: nothing at the first, all of whoever was born since.
func TestTreesCountFromLookToLook(t *testing.T) {
	f := newFake(t)
	f.process(10, 10, 100, 0, map[int]int{10: 500, 11: 0})
	trees := NewTrees(At(f.root))
	look := func(roots ...int) map[int]Spent {
		t.Helper()
		trees.Search(roots)
		return trees.Look(roots)
	}
	expect := func(what string, got, want Spent) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	expect("the first look", look(10)[10], Spent{})
	f.process(10, 10, 103, 0, map[int]int{10: 507, 11: 2, 12: 4})
	expect("three ticks, 7+2+4 ms", look(10)[10], Spent{3 * tick, 13 * time.Millisecond})
	f.process(20, 20, 2, 0, map[int]int{20: 9})
	expect("born since", look(10, 20)[20], Spent{2 * tick, 9 * time.Millisecond})
	f.process(21, 20, 5, 0, map[int]int{21: 1})
	expect("its child", look(10, 20)[20], Spent{5 * tick, time.Millisecond})
	f.ends(21)
	f.process(20, 20, 2, 6, map[int]int{20: 9})
	expect("the child has ended and was waited for: one tick more", look(10, 20)[20], Spent{Used: tick})
	f.ends(20)
	if got, there := look(10, 20)[20]; there {
		t.Errorf("an ended process has come to %+v", got)
	}
}

func TestThisProcessIsReadInTheRealProc(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux'")
	}
	p, pid := New(), os.Getpid()
	if _, err := p.Busy(); err != nil {
		t.Error(err)
	}
	// A container that was started from outside of its process namespace is in session 0.
	sid, err := unix.Getsid(0)
	testkit.Must(t, err)
	if s, err := p.Process(pid); err != nil || s.PID != pid || s.Session != sid {
		t.Errorf("Process = %+v, %v; the session is %d", s, err, sid)
	}
	if got, err := p.Session(pid); err != nil || got != sid {
		t.Errorf("Session = %d, %v; it is %d", got, err, sid)
	}
	if ran, _, err := p.Self(); err != nil || ran <= 0 {
		t.Errorf("Self = %v, %v", ran, err)
	}
	threads, err := p.Threads(pid)
	if err != nil || len(threads) == 0 {
		t.Fatalf("Threads = %v, %v", threads, err)
	}
	all, err := p.All()
	if err != nil || !strings.Contains(fmt.Sprint(all), fmt.Sprint(pid)) {
		t.Errorf("All = %v, %v: %d is not there", all, err, pid)
	}
}
