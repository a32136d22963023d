package follow

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// scene follows files in a folder of its own, by a clock that each reading moves on.
type scene struct {
	t    *testing.T
	dir  string
	f    *Files
	now  int64
	got  []string
	at   []history.Span
	gaps []string
	lost int
}

func follow(t *testing.T, want func(string) bool, globs ...string) *scene {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir()}
	for i := range globs {
		globs[i] = filepath.Join(s.dir, globs[i])
	}
	s.f = New(Options{
		Globs: globs, Want: want, Clock: func() int64 { s.now++; return s.now },
		Line: func(path string, l Line) {
			text := string(l.Text)
			if l.Cut {
				text += " (cut)"
			}
			s.got, s.at = append(s.got, filepath.Base(path)+":"+text), append(s.at, l.At)
		},
		Gap: func(path string, at history.Span, why string, lost bool) {
			s.gaps = append(s.gaps, filepath.Base(path)+": "+why)
			if lost {
				s.lost++
			}
			if at.From > at.To {
				t.Errorf("a gap from %d to %d", at.From, at.To)
			}
		},
	})
	t.Cleanup(s.f.Close)
	return s
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) write(name, text string) {
	s.t.Helper()
	fd, err := os.OpenFile(s.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fd.WriteString(text)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	_ = fd.Close()
}

func (s *scene) rename(from, to string) {
	s.t.Helper()
	if err := os.Rename(s.path(from), s.path(to)); err != nil {
		s.t.Fatal(err)
	}
}

// pass reads, and holds what came against want.
func (s *scene) pass(want ...string) {
	s.t.Helper()
	s.got, s.at = nil, nil
	if err := s.f.Read(false); err != nil {
		s.t.Fatal(err)
	}
	if !slices.Equal(s.got, want) {
		s.t.Errorf("got %q, want %q", s.got, want)
	}
}

func (s *scene) noGap() {
	s.t.Helper()
	if len(s.gaps) > 0 {
		s.t.Errorf("gaps: %q", s.gaps)
	}
}

func TestFilesAreReadFromTheirEndOn(t *testing.T) {
	s := follow(t, nil, "*.log")
	s.write("a.log", "old\nhalf ")
	s.pass()
	before := s.now
	s.write("a.log", "line\r\nnext\nopen")
	s.write("b.log", "new file\n")
	s.write("c.txt", "does not match\n")
	s.pass("a.log:half line", "a.log:next", "b.log:new file")
	for i, at := range s.at {
		if at.From > before || at.To <= before || at.From < 1 {
			t.Errorf("line %d was written within %+v; the pass before it ended at %d", i, at, before)
		}
	}
	s.pass()
	opened := s.now
	s.write("a.log", " line\n")
	s.pass("a.log:open line")
	if at := s.at[0]; at.From >= opened {
		t.Errorf("the line began before the pass at %d: %+v", opened, at)
	}
	s.write("a.log", "never ended")
	s.pass()
	s.got = nil
	if err := s.f.Read(true); err != nil || !slices.Equal(s.got, []string{"a.log:never ended (cut)"}) {
		t.Errorf("final: %q, %v", s.got, err)
	}
	s.noGap()
}

func TestRenamedFilesAreReadToTheirEnd(t *testing.T) {
	s := follow(t, nil, "*.log*")
	s.write("a.log", "")
	s.write("a.log.1", "rotated long ago\n")
	s.pass()
	s.write("a.log", "one\n")
	s.rename("a.log", "a.log.2")
	s.write("a.log", "two\n")
	s.rename("a.log", "a.log.3") // two rotations between two passes
	s.write("a.log", "three\n")
	s.pass("a.log:one", "a.log:two", "a.log:three")
	s.write("a.log.2", "its writer still has it open\n")
	s.write("a.log", "four\n")
	s.pass("a.log:its writer still has it open", "a.log:four")
	s.noGap()
	for i := range 2 * keepOld {
		s.rename("a.log", fmt.Sprint("a.log.", i+10))
		s.write("a.log", fmt.Sprint(i, "\n"))
		s.pass(fmt.Sprint("a.log:", i))
	}
	s.noGap()
	if n := len(s.f.bus.paths[s.path("a.log")].files); n > keepOld+1 {
		t.Errorf("%d files are open", n)
	}
	testkit.Must(t, os.Remove(s.path("a.log")))
	s.pass()
	s.write("a.log", "five\n")
	s.pass("a.log:five")
	if len(s.gaps) != 1 || s.lost != 0 {
		t.Errorf("what was deleted may have had a successor that nobody saw: %q, %d lost", s.gaps, s.lost)
	}
}

// What was written between the last pass and the truncation is gone, whether the file is shorter by now or longer again.
func TestTruncatedFilesLeaveAGap(t *testing.T) {
	s := follow(t, nil, "a.log")
	s.write("a.log", strings.Repeat("x", 100)+"\n")
	s.pass()
	truncate := func(size int64) {
		t.Helper()
		testkit.Must(t, os.Truncate(s.path("a.log"), size))
	}
	for i, again := range []string{"short\n", strings.Repeat("y", 200) + "\n"} {
		s.write("a.log", "half a line")
		s.pass()
		truncate(0)
		s.write("a.log", again)
		s.pass("a.log:" + strings.TrimSuffix(again, "\n"))
		if s.lost != i+1 {
			t.Errorf("%q: %d lost", again, s.lost)
		}
	}
	// A writer that does not append goes on where it was, and leaves a hole.
	size := int64(201)
	truncate(0)
	fd, err := os.OpenFile(s.path("a.log"), os.O_WRONLY, 0)
	testkit.Must(t, err)
	defer fd.Close()
	if _, err := fd.WriteAt([]byte("after the hole\n"), size); err != nil {
		t.Fatal(err)
	}
	s.pass("a.log:after the hole")
	if s.lost != 3 {
		t.Errorf("%d lost", s.lost)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	s := follow(t, nil, "a.log")
	s.pass()
	long := strings.Repeat("x", 3*chunk)
	s.write("a.log", long)
	s.pass()
	s.write("a.log", long+"\nnext\n")
	s.pass("a.log:"+long+long, "a.log:next")
	s.write("a.log", strings.Repeat("x", Limit+1)+"\nnext\n")
	s.pass("a.log:"+strings.Repeat("x", Limit)+" (cut)", "a.log:next")
	s.noGap()
}

// What nobody wants is not opened; once it is wanted, what was written since the first pass counts, and only that.
func TestFilesMayBeWantedLater(t *testing.T) {
	want := map[string]bool{}
	s := follow(t, func(path string) bool { return want[filepath.Base(path)] }, "*.log")
	s.write("a.log", "old\n")
	s.pass()
	first := s.now
	s.write("a.log", "new\n")
	s.pass()
	s.write("b.log", "came later\n")
	s.pass()
	want["a.log"], want["b.log"] = true, true
	s.pass("a.log:new", "b.log:came later")
	if s.at[0].From > first {
		t.Errorf("it may have been written since %d: %+v", first, s.at[0])
	}
	if got := s.f.Found(); len(got) != 2 {
		t.Errorf("found %q", got)
	}
	s.noGap()
}

func TestUnreadableFilesAreNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		dir := t.TempDir() // root reads everything: a link that leads to itself cannot be opened by anybody
		loop := filepath.Join(dir, "a.log")
		testkit.Must(t, os.Symlink(loop, loop))
		f := New(Options{Globs: []string{loop}, Clock: func() int64 { return 0 }})
		if err := f.Read(false); err == nil || !strings.Contains(err.Error(), "a.log") {
			t.Errorf("at the start: %v", err)
		}
	}
	s := follow(t, nil, "a.log")
	s.pass()
	testkit.Must(t, os.Symlink(s.path("a.log"), s.path("a.log")))
	s.pass()
	s.pass()
	testkit.Must(t, os.Remove(s.path("a.log")))
	s.write("a.log", "there\n")
	s.pass("a.log:there")
	if len(s.gaps) != 1 || s.lost != 0 {
		t.Errorf("one stretch in which it could not be opened: %q", s.gaps)
	}
	folder := follow(t, nil, "*")
	testkit.Must(t, os.Mkdir(folder.path("sub"), 0o700))
	folder.pass()
	folder.noGap()
	if err := New(Options{Globs: []string{"[x"}, Clock: func() int64 { return 0 }}).Read(false); err == nil {
		t.Error("no pattern, and no error")
	}
}

// Files of any size cost the same memory: begun at their end, or read from their beginning.
func TestBigFilesCostLittleMemory(t *testing.T) {
	const gigabytes = 2 << 30
	s := follow(t, nil, "*.log")
	s.write("old.log", "old\n")
	testkit.Must(t, os.Truncate(s.path("old.log"), gigabytes))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.pass()
	s.write("old.log", "at its end\n")
	s.write("new.log", "")
	if err := os.Truncate(s.path("new.log"), 256<<20); err != nil { // one line, as far as a reader can know
		t.Fatal(err)
	}
	s.write("new.log", "\nread\n")
	s.pass("new.log:", "new.log:read", "old.log:at its end")
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
	s.noGap()
}

func TestGlobOfATemplate(t *testing.T) {
	for template, want := range map[string]string{
		"/var/log/sched/{name}.log": "/var/log/sched/*.log",
		"logs/{name}/{pid}":         "logs/*/*",
		"odd[1]*{name}":             `odd\[1]\**`,
		"open{name":                 "open{name",
	} {
		if got := Glob(template); got != want {
			t.Errorf("%s: %s, want %s", template, got, want)
		}
	}
}

// Who comes later to a file gets what is written from then on; who wants it later gets what it has got since he saw it first; and a file
// that is found by two names is each one's by his own.
func TestSeveralWantOneFile(t *testing.T) {
	s := follow(t, nil, "*.log")
	s.write("a.log", "old\n")
	s.pass()
	testkit.Must(t, os.Symlink(s.path("a.log"), s.path("other.txt")))
	var others []string
	wanted := false
	add := func(name, glob string, want func(string) bool) *Files {
		f := s.f.bus.Follow(Options{Globs: []string{s.path(glob)}, Want: want, Clock: s.f.o.Clock,
			Line: func(path string, l Line) {
				others = append(others, name+" "+filepath.Base(path)+":"+string(l.Text))
				if l.At.From > l.At.To {
					t.Errorf("%+v", l.At)
				}
			},
			Gap: func(string, history.Span, string, bool) {}})
		t.Cleanup(f.Close)
		return f
	}
	check := func(f *Files, want ...string) {
		t.Helper()
		others, s.got = nil, nil
		if err := f.Read(false); err != nil || !slices.Equal(others, want) {
			t.Errorf("%v, got %q, want %q", err, others, want)
		}
	}
	s.write("a.log", "one\n")
	later := add("later", "a.*", nil)
	check(later)
	if !slices.Equal(s.got, []string{"a.log:one"}) {
		t.Errorf("the first got %q", s.got)
	}
	link := add("link", "other.txt", nil)
	check(link)
	choosy := add("choosy", "a.log", func(string) bool { return wanted })
	check(choosy)
	s.write("a.log", "two\nthr")
	check(later, "later a.log:two", "link other.txt:two")
	if !slices.Equal(s.got, []string{"a.log:two"}) {
		t.Errorf("the first got %q", s.got)
	}
	wanted = true
	check(choosy, "choosy a.log:two")
	s.write("a.log", "ee\n")
	check(link, "later a.log:three", "link other.txt:three", "choosy a.log:three")
	s.f.Close()
	link.Close()
	s.write("a.log", "four\n")
	check(later, "later a.log:four", "choosy a.log:four")
	later.Close()
	choosy.Close()
	if n := len(s.f.bus.paths); n > 0 {
		t.Errorf("%d files are open that nobody wants", n)
	}
	s.noGap()
}
