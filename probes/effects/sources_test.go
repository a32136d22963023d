package effects

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
)

// api answers with what has the greatest seq above after, or with all there is.
type api struct {
	items   []map[string]any
	wrapped bool
	pageOf  int
	asked   string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked = r.Header.Get("Authorization")
	after := r.URL.Query().Get("after")
	out := []map[string]any{}
	for _, x := range a.items {
		if seq, _ := x["seq"].(string); seq > after && (a.pageOf == 0 || len(out) < a.pageOf) {
			out = append(out, x)
		}
	}
	if a.wrapped {
		_ = json.NewEncoder(w).Encode(map[string]any{"items": out})
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}

func TestHTTPAnswersAreRead(t *testing.T) {
	for _, wrapped := range []bool{false, true} {
		a := &api{items: []map[string]any{{"seq": "1", "id": "before"}}, wrapped: wrapped}
		s := httptest.NewServer(a)
		r := NewHTTP(HTTP{URL: s.URL, Token: "hunter2"})
		read(t, r, "id", false)
		a.items = append(a.items, map[string]any{"seq": "2", "id": "a"}, map[string]any{"seq": "3", "id": "b"})
		if got, b := read(t, r, "id", false); got != "a b" || b.Lost != "" || !b.Entries[0].Unordered || a.asked != "Bearer hunter2" {
			t.Errorf("got %q, lost %q", got, b.Lost)
		}
		a.items = []map[string]any{{"seq": "9", "id": "z"}} // a window that has moved on
		if _, b := read(t, r, "id", false); b.Lost == "" {
			t.Error("what a window may have left out is not missed")
		}
		s.Close()
	}
}

func TestHTTPPagesAreReadBehindACursor(t *testing.T) {
	a := &api{items: []map[string]any{{"seq": "10", "id": "before"}, {"seq": "11", "id": "before"}}, pageOf: 1}
	s := httptest.NewServer(a)
	defer s.Close()
	r := NewHTTP(HTTP{URL: s.URL, Param: "after", Cursor: "seq"})
	read(t, r, "id", false)
	a.items = append(a.items, map[string]any{"seq": "20", "id": "a"}, map[string]any{"seq": "30", "id": "b"})
	if got, b := read(t, r, "id", false); got != "a b" || b.Lost != "" {
		t.Errorf("got %q, lost %q", got, b.Lost)
	}
	a.items = append(a.items[:3:3], map[string]any{"seq": "25", "id": "late"}, a.items[3], map[string]any{"seq": "40", "id": "c"})
	got, b := read(t, r, "id", true)
	if got != "late c" || !b.Entries[0].Late {
		t.Errorf("the final read gives %q: %v", got, b.Entries)
	}
}

func TestWhatHTTPCannotBe(t *testing.T) {
	for body, want := range map[string]string{`{"jobs": []}`: "array items", `[1]`: "no object", `[{"id": "x"}]`: "no field seq", `[{"seq": "1"}]`: "ends with it again"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		_, err := NewHTTP(HTTP{URL: s.URL + "/?key=hunter2", Param: "after", Cursor: "seq"}).Read(t.Context(), false)
		s.Close()
		if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := NewHTTP(HTTP{URL: "http://127.0.0.1:1/?key=hunter2"}).Read(t.Context(), false); err == nil || strings.Contains(err.Error(), "hunter2") || errors.Is(err, ErrSource) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestLinesOfACommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	must(t, os.WriteFile(path, []byte("job=a state=RUNNING\nnoise\n"), 0o600))
	r, err := NewCommand([]string{"cat", path}, `job=(?P<job>\S+) state=(?P<state>\S+)`)
	must(t, err)
	read(t, r, "job", false)
	must(t, os.WriteFile(path, []byte("job=a state=RUNNING\nnoise\njob=a state=DONE\njob=a state=DONE\n"), 0o600))
	if got, b := read(t, r, "state", false); got != "DONE DONE" || b.Lost != "" {
		t.Errorf("got %q, lost %q", got, b.Lost)
	}
	if got, _ := read(t, r, "state", true); got != "" {
		t.Errorf("again: %q", got)
	}
	must(t, os.Remove(path))
	if _, err := r.Read(t.Context(), false); err == nil || !strings.Contains(err.Error(), "ended with status 1") {
		t.Errorf("a command that fails: %v", err)
	}
}

func TestLinesOfFilesThatAreRotated(t *testing.T) {
	dir := t.TempDir()
	path, now := filepath.Join(dir, "ends.log"), int64(0)
	write := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		must(t, err)
		_, err = f.WriteString(text)
		must(t, errors.Join(err, f.Close()))
	}
	write(`{"job":"before","state":"DONE"}` + "\n")
	r, err := NewFiles(Files{Globs: []string{filepath.Join(dir, "*.log")}, Clock: func() int64 { now++; return now }})
	must(t, err)
	defer r.Close()
	if last, err := r.Last(t.Context(), 5); err != nil || len(last) != 1 || last[0]["job"] != "before" {
		t.Errorf("last: %v, %v", last, err)
	}
	read(t, r, "job", false)
	write(`{"job":"a","state":"DONE","n":12345678901234567890,"none":null}` + "\nnoise\n")
	must(t, os.Rename(path, path+".1"))
	write(`{"job":"b","state":"DONE"}` + "\n")
	got, b := read(t, r, "job", false)
	more, _ := read(t, r, "job", true)
	if got+" "+more != "a b " && got+" "+more != "a b" && got != "a b" || b.Lost != "" {
		t.Errorf("got %q and %q, lost %q", got, more, b.Lost)
	}
	if row := b.Entries[0].Row; row["n"] != "12345678901234567890" || b.Entries[0].At == nil {
		t.Errorf("the first is %v", b.Entries[0])
	} else if _, there := row["none"]; there {
		t.Error("null is a value")
	}
}

// A log goes on over restarts: what was perhaps written before a life began is nobody's that is known.
func TestALineFromBeforeALifeIsNotItsOwn(t *testing.T) {
	path, now, since := filepath.Join(t.TempDir(), "a.log"), int64(0), int64(0)
	write := func(job string) { must(t, os.WriteFile(path, []byte(`{"job":"`+job+`"}`+"\n"), 0o600)) }
	write("first")
	r, err := NewFiles(Files{Globs: []string{path}, Clock: func() int64 { now++; return now }, Writer: func(string) (string, int64) { return "r1.2", since }})
	must(t, err)
	defer r.Close()
	_, _ = read(t, r, "job", false)
	for _, c := range []struct {
		since int64
		want  string
	}{{now, "r1.2"}, {now + 2, ""}} {
		since = c.since
		must(t, os.Remove(path))
		write("next")
		if _, b := read(t, r, "job", false); len(b.Entries) != 1 || b.Entries[0].Writer != c.want {
			t.Errorf("since %d: %+v", c.since, b.Entries)
		}
	}
}

func TestEntriesAreMappedIntoTheHistory(t *testing.T) {
	lines, err := NewLines("")
	must(t, err)
	var told []string
	p := New(lines, Options{
		Name: "effects:jobs", Lock: "job", Prefix: "sched:",
		Map:    Map{Job: "meta.job", State: "state", Terminal: []string{"DONE"}, Op: "op", Fence: "fence", Replica: "who", Token: "token", Key: "key"},
		Lives:  func(named string) string { return map[string]string{"w-1": "r1.2"}[named] },
		Expect: func(_, key string) { told = append(told, key) },
	})
	look := func(final bool, from, to int64) []history.Event {
		events, err := p.Look(t.Context(), final)
		must(t, err)
		return events(history.Span{From: from, To: to})
	}
	look(false, 10, 11)
	lines.take("f", "", follow.Plain([]byte(`{"meta":{"job":"j1"},"state":"RUNNING","who":"w-1","token":"secret","fence":7,"op":"o1"}`), false, history.Span{From: 12, To: 13}))
	lines.take("f", "", follow.Plain([]byte(`{"meta":{"job":"j1"},"state":"DONE","who":"w-9","key":"other"}`), false, history.Span{From: 12, To: 13}))
	events := look(false, 20, 21)
	if len(events) != 2 || strings.Join(told, " ") != "sched:j1 other" {
		t.Fatalf("%v, told of %v", events, told)
	}
	for i := range events {
		events[i].N, events[i].At = 1, 1
		must(t, events[i].Check())
		if line, err := json.Marshal(events[i]); err != nil || strings.Contains(string(line), "secret") {
			t.Errorf("%s %v", line, err)
		}
	}
	a, b := events[0], events[1]
	if a.Key != "sched:j1" || a.Fence != 7 || a.Op != "o1" || len(a.Epoch) != 12 || a.Entry.Writer != "r1.2" || a.Entry.Terminal || a.Entry.Subject != "j1" || a.Entry.Pos != 1 {
		t.Errorf("the first is %+v %+v", a, a.Entry)
	}
	if b.Key != "other" || b.Epoch != "" || b.Op != "" || b.Entry.Writer != "" || !b.Entry.Terminal || b.Entry.Pos != 2 {
		t.Errorf("the second is %+v %+v", b, b.Entry)
	}
	lines.take("f", "", follow.Plain([]byte(`{"state":"DONE"}`), false, history.Span{From: 22, To: 23}))
	if events := look(false, 30, 31); len(events) != 1 || events[0].Incarnation == nil || events[0].From != 20 {
		t.Errorf("an entry without its job gives %v", events)
	}
	if _, err := p.Look(t.Context(), true); err == nil || !strings.Contains(err.Error(), "no column meta.job: it has state") {
		t.Errorf("then: %v", err)
	}
}

func TestAColumnThatNoEntryHas(t *testing.T) {
	p := New(nil, Options{Name: "effects:jobs", Lock: "job", Map: Map{Job: "job", State: "status"}})
	if err := p.Check([]Row{{"job": "a", "state": "x"}}); !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "no entry has the column status that map names: there are job, state") {
		t.Error(err)
	}
	if err := p.Check(nil); err != nil {
		t.Error(err)
	}
}

// A line that begins as an object and is none, or that nobody read to its end, may be an entry: it is counted, with the time of its kind.
func TestWhatCouldNotBeReadIsCounted(t *testing.T) {
	object, err := NewLines("")
	must(t, err)
	pattern, err := NewLines(`job=(?P<job>\S+) state=(?P<state>\S+)`)
	must(t, err)
	for _, c := range []struct {
		name   string
		lines  *Lines
		text   string
		cut    bool
		unread history.UnreadReason
		rows   int
	}{
		{"an object", object, `{"job":"j1","state":"DONE"}`, false, "", 1},
		{"half an object", object, `{"job":"j1","sta`, false, history.Unparsable, 0},
		{"an object with another in it", object, `{"job":"j1","st{"level":"debug"}`, false, history.Unparsable, 0},
		{"an object whose end never came", object, `{"job":"j1","sta`, true, history.CutOff, 0},
		{"a whole one whose end of line never came", object, `{"job":"j1","state":"DONE"}`, true, "", 1},
		{"another's words", object, `starting {"job"`, false, "", 0},
		{"another's braces", object, `{'job': 'j1'}`, false, "", 0},
		{"docker's envelope around half an object", object, `{"log":"{\"job\":\"j1\",\"sta\n","stream":"stdout","time":"2026-01-01T00:00:01Z"}`, false, history.Unparsable, 0},
		{"a match", pattern, `job=j1 state=DONE`, false, "", 1},
		{"no match", pattern, `job=j1`, false, "", 0},
		{"no match in what was read", pattern, `job=j1 sta`, true, history.CutOff, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var joined follow.Lines
			joined.Add([]byte(c.text), c.cut, history.Span{From: 3, To: 5}, func(l follow.Line) { c.lines.take("f", "", l) })
			b, err := c.lines.Read(t.Context(), false)
			must(t, err)
			var unread history.UnreadReason
			for _, u := range b.Unread {
				unread = u.Reason
				if u.Count != 1 || u.At != (history.Span{From: 3, To: 5}) {
					t.Errorf("%+v", u)
				}
			}
			if unread != c.unread || len(b.Entries) != c.rows {
				t.Errorf("unread %q, %d entries; want %q, %d", unread, len(b.Entries), c.unread, c.rows)
			}
		})
	}
	p := New(object, Options{Name: "effects:ends", Lock: "job", Sparse: true})
	object.take("f", "", follow.Plain([]byte(`{"job":`), false, history.Span{From: 3, To: 5}))
	object.take("f", "", follow.Plain([]byte(`{"job":`), false, history.Span{From: 7, To: 9}))
	events, err := p.Look(t.Context(), true)
	must(t, err)
	if all := events(history.Span{From: 8, To: 10}); len(all) != 1 || all[0].Span != (history.Span{From: 3, To: 9}) || *all[0].Unread != (history.Unread{Source: "effects:ends", Count: 2, Reason: history.Unparsable, Detail: "a line begins as a JSON object and is none"}) {
		t.Errorf("%+v", all)
	}
}
