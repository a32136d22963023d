package probes

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
)

func TestPodLogsMatchLines(t *testing.T) {
	p, err := NewPodLogs(map[string]string{"panic": "^panic:", "lost": "(?i)lock not owned"}, func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") })
	if err != nil {
		t.Fatal(err)
	}
	if events := look(t, p, at(1), false); len(events) != 0 {
		t.Errorf("before any line: %+v", events)
	}
	p.Line("r1.1", []byte("all is well"), at(2))
	p.Line("r1.1", []byte("panic: Lock not owned by hunter2"), at(3))
	p.Cut("r2.1", history.Span{From: 4 * ms, To: 9 * ms})
	p.Line("r2.1", []byte("LOCK NOT OWNED "+strings.Repeat("ö", 500)), at(5))
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
	if text := []rune(events[3].Match.Text); len(text) != maxText {
		t.Errorf("%d characters of a long line", len(text))
	}
	if events := look(t, p, at(11), true); len(events) != 0 {
		t.Errorf("told again: %+v", events)
	}
	if _, err := NewPodLogs(map[string]string{"open": "("}, nil); err == nil || !strings.Contains(err.Error(), "pattern open") {
		t.Errorf("no expression: %v", err)
	}
}

// A look whose function is not called, as of a run that ends, loses nothing; lines that come meanwhile wait for the next one.
func TestPodLogsLoseNothing(t *testing.T) {
	p, err := NewPodLogs(map[string]string{"all": "."}, strings.Clone)
	if err != nil {
		t.Fatal(err)
	}
	p.Line("r1.1", []byte("one"), at(1))
	if _, err := p.Look(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	report, err := p.Look(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	p.Line("r1.1", []byte("two"), at(2))
	if events := report(at(3)); len(events) != 1 || events[0].Match.Text != "one" {
		t.Errorf("%+v", events)
	}
	if events := look(t, p, at(4), false); len(events) != 1 || events[0].Match.Text != "two" {
		t.Errorf("%+v", events)
	}
	for range maxMatches {
		p.Line("r1.1", []byte("more"), at(5))
	}
	if n := len(look(t, p, at(6), false)); n != maxMatches-2 {
		t.Errorf("%d kept", n)
	}
	if _, err := p.Look(t.Context(), true); err == nil {
		t.Error("lines that are not kept are no gap")
	}
}
