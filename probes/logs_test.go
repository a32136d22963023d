package probes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/stores/witness"
)

func TestLogsMatchLines(t *testing.T) {
	p, err := NewLogs(map[string]string{"panic": "^panic:", "lost": "(?i)lock not owned"}, func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") })
	testkit.Must(t, err)
	if events := look(t, p, at(1), false); len(events) != 0 {
		t.Errorf("before any line: %+v", events)
	}
	p.Line("r1.1", follow.Plain([]byte("all is well"), false, at(2)))
	p.Line("r1.1", follow.Plain([]byte("panic: Lock not owned by hunter2"), false, at(3)))
	p.Cut("r2.1", history.Span{From: 4 * ms, To: 9 * ms})
	p.Line("r2.1", follow.Plain([]byte("LOCK NOT OWNED "+strings.Repeat("ö", 500)), false, at(5)))
	events := look(t, p, at(10), false)
	if len(events) != 4 {
		t.Fatalf("%d events, want 4: %+v", len(events), events)
	}
	for i, want := range []history.Match{{Pattern: "lost", Text: "panic: Lock not owned by ***"}, {Pattern: "panic", Text: "panic: Lock not owned by ***"}} {
		if e := events[i]; *e.Match != want || e.Source != "r1.1" || e.Span != at(3) {
			t.Errorf("%+v %+v, want %+v", e, e.Match, want)
		}
	}
	if e := events[2]; e.Kind != history.GapKind || e.Coverage.Probe != LogsName || e.Coverage.Largest != 5*ms || !strings.Contains(e.Coverage.Why, "r2.1") {
		t.Errorf("a cut: %+v", e.Coverage)
	}
	if text := []rune(events[3].Match.Text); len(text) != witness.MaxText {
		t.Errorf("%d characters of a long line", len(text))
	}
	if events := look(t, p, at(11), true); len(events) != 0 {
		t.Errorf("told again: %+v", events)
	}
	if _, err := NewLogs(map[string]string{"open": "("}, nil); err == nil || !strings.Contains(err.Error(), "pattern open") {
		t.Errorf("no expression: %v", err)
	}
}

// A look whose function is not called, as of a run that ends, loses nothing; lines that come meanwhile wait for the next one.
func TestLogsLoseNothing(t *testing.T) {
	p, err := NewLogs(map[string]string{"all": "."}, strings.Clone)
	testkit.Must(t, err)
	p.Line("r1.1", follow.Plain([]byte("one"), false, at(1)))
	if _, err := p.Look(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	report, err := p.Look(t.Context(), false)
	testkit.Must(t, err)
	p.Line("r1.1", follow.Plain([]byte("two"), false, at(2)))
	if events := report(at(3)); len(events) != 1 || events[0].Match.Text != "one" {
		t.Errorf("%+v", events)
	}
	if events := look(t, p, at(4), false); len(events) != 1 || events[0].Match.Text != "two" {
		t.Errorf("%+v", events)
	}
	for range maxMatches {
		p.Line("r1.1", follow.Plain([]byte("more"), false, at(5)))
	}
	if n := len(look(t, p, at(6), false)); n != maxMatches-2 {
		t.Errorf("%d kept", n)
	}
	if _, err := p.Look(t.Context(), true); err == nil {
		t.Error("lines that are not kept are no gap")
	}
}

// Lines of files are told with their file, and with the life that writes to it, where no other can have written them.
func TestLogsReadFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	write := func(flags int, text string) {
		t.Helper()
		fd, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flags, 0o600)
		if err == nil {
			_, err = fd.WriteString(text)
		}
		testkit.Must(t, err)
		_ = fd.Close()
	}
	write(os.O_APPEND, "lost before the run\n")
	p, err := NewLogs(map[string]string{"lost": "lost"}, strings.Clone)
	testkit.Must(t, err)
	now, since := int64(0), int64(0)
	if err := p.Follow(LogFiles{
		Globs: []string{path}, Clock: func() int64 { now++; return now },
		Writer: func(string) (string, int64) { return "r1.1", since },
	}); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	write(os.O_APPEND, "all is well\nlost one\n")
	events := look(t, p, at(1), false)
	if len(events) != 1 || events[0].Source != "r1.1" || events[0].Match.File != path || events[0].From < 1 || events[0].To > now {
		t.Errorf("%+v", events)
	}
	since = now // another life took its place meanwhile
	write(os.O_APPEND, "lost two\n")
	if events = look(t, p, at(2), false); len(events) != 1 || events[0].Source != "probe:logs" || events[0].Match.File != path {
		t.Errorf("%+v", events)
	}
	write(os.O_TRUNC, "lost three\n")
	events = look(t, p, at(3), true)
	if len(events) != 2 || events[0].Kind != history.GapKind || !events[0].Coverage.Lost || !strings.Contains(events[0].Coverage.Why, "truncated") {
		t.Errorf("%+v", events)
	}
	for _, e := range events {
		e.N, e.At = 1, now
		if err := e.Check(); err != nil {
			t.Error(err)
		}
	}
	if err := p.Follow(LogFiles{Globs: []string{"["}, Clock: func() int64 { return 0 }}); err == nil {
		t.Error("no pattern, and no error")
	}
}
