package history

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var header = Header{Run: "r", Experiment: "x", Mode: Live, TimeScale: 1, Started: "2026-01-02T03:04:05Z"}

func note(what string) Event {
	return Event{Kind: RunCleanup, Source: "runner", Note: &Note{What: what, OK: true}}
}

func counter() func() int64 {
	var n atomic.Int64
	return func() int64 { return n.Add(1) }
}

func TestRecordedIsReadBack(t *testing.T) {
	var buf bytes.Buffer
	r, err := NewRecorder(&buf, header, counter(), nil)
	if err != nil {
		t.Fatal(err)
	}
	claim := Event{
		Kind: AcquireReturn, Span: Span{5, 9}, Source: "r1.1", Clock: ClockShared, Lock: "job", Key: "k", Epoch: "e1", Fence: 7,
		Op: "a1", Outcome: OK, Call: &Call{TTL: 100, Result: ResultGranted, Attempt: 1},
	}
	want := []Event{}
	for _, e := range []Event{note("a"), claim, note("b")} {
		got, err := r.Record(e)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, got)
	}
	h, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if h.Header.Schema != SchemaVersion || h.Header.Run != "r" || h.Torn != "" {
		t.Errorf("header %+v, torn %q", h.Header, h.Torn)
	}
	if !reflect.DeepEqual(h.Events, want) {
		t.Errorf("read %+v\nwant %+v", h.Events, want)
	}
}

// Many goroutines record at once: numbers have no hole, and the recording stamps never go back.
func TestOrderAndTimeAreStampedTogether(t *testing.T) {
	var buf bytes.Buffer
	r, err := NewRecorder(&buf, header, counter(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if _, err := r.RecordNow(note("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Events) != 1600 {
		t.Fatalf("%d events, want 1600", len(h.Events))
	}
	last := int64(0)
	for _, e := range h.Events {
		if e.At <= last || e.From > e.At {
			t.Fatalf("event %d: at %d after %d, from %d", e.N, e.At, last, e.From)
		}
		last = e.At
	}
}

func TestTornLastLineIsToleratedAndSaid(t *testing.T) {
	var buf bytes.Buffer
	r, _ := NewRecorder(&buf, header, counter(), nil)
	for range 3 {
		if _, err := r.RecordNow(note("x")); err != nil {
			t.Fatal(err)
		}
	}
	whole := buf.Bytes()
	lines := bytes.SplitAfter(whole, []byte("\n"))
	head := len(lines[0])
	for cut := head; cut < len(whole); cut++ {
		h, err := Read(bytes.NewReader(whole[:cut]))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		complete := bytes.Count(whole[head:cut], []byte("\n"))
		ends := whole[cut-1] == '\n' || whole[cut] == '\n' // a whole line without its newline is still a line
		if whole[cut] == '\n' && whole[cut-1] != '\n' {
			complete++
		}
		if len(h.Events) != complete || (h.Torn == "") != ends {
			t.Fatalf("cut at %d: %d events (want %d), torn %q", cut, len(h.Events), complete, h.Torn)
		}
	}
}

func TestDamageElsewhereIsAnErrorWithItsLine(t *testing.T) {
	good := `{"schema":1,"tool":"","run":"r","experiment":"x","digest":"","seed":0,"mode":"live","time_scale":1,"started":""}` + "\n"
	event := func(n int) string {
		return fmt.Sprintf(`{"n":%d,"kind":"run.cleanup","from":1,"to":1,"at":1,"source":"runner","note":{"what":"x","ok":true}}`, n) + "\n"
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "line 1: the file is empty"},
		{"not JSON", "hello\n", "line 1: header"},
		{"torn header", `{"schema":1`, "line 1: header"},
		{"later schema", strings.Replace(good, `"schema":1`, `"schema":9`, 1), "line 1: header: schema 9: this version reads schemas 1 to 3"},
		{"no schema", strings.Replace(good, `"schema":1,`, ``, 1), "line 1: header: schema 0"},
		{"lost line", good + event(1) + event(3), "line 3: event number 3, want 2"},
		{"damage in the middle", good + event(1) + "{]\n" + event(3), "line 3: "},
		{"two documents in a line", good + strings.TrimSpace(event(1)) + " {}\n", "more than one document"},
		{"unknown field", good + strings.Replace(event(1), `"at"`, `"att"`, 1), `unknown field "att"`},
		{"unknown kind", good + strings.Replace(event(1), "run.cleanup", "run.cleanUp", 1), `kind "run.cleanUp" is not known`},
		{"foreign body", good + strings.Replace(event(1), "run.cleanup", "run.phase", 1), `body must be "phase"`},
	} {
		_, err := Read(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// Schema 2 added kinds and changed none, so what was recorded under schema 1 is read as it is. The recorded fixtures of this repository
// keep schema 1: their judgements are tests of the same.
func TestEverySchemaSoFarIsRead(t *testing.T) {
	for schema := 1; schema <= SchemaVersion; schema++ {
		text := fmt.Sprintf(`{"schema":%d,"tool":"","run":"r","experiment":"x","digest":"","seed":0,"mode":"live","time_scale":1,"started":""}
{"n":1,"kind":"run.cleanup","from":1,"to":1,"at":1,"source":"runner","note":{"what":"x","ok":true}}
`, schema)
		if h, err := Read(strings.NewReader(text)); err != nil || h.Header.Schema != schema || len(h.Events) != 1 {
			t.Errorf("schema %d: %+v, %v", schema, h, err)
		}
	}
	old, err := os.Open(filepath.Join("..", "scenarios", "testdata", "burst-standard", "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if h, err := Read(old); err != nil || h.Header.Schema != 1 || len(h.Events) == 0 {
		t.Errorf("a recorded history of schema 1: %v", err)
	}
}

func TestALateStretchIsRecordedAndReadBack(t *testing.T) {
	var buf bytes.Buffer
	r, err := NewRecorder(&buf, header, counter(), nil)
	if err != nil {
		t.Fatal(err)
	}
	late := Event{Kind: MachineLate, Span: Span{1, 2}, Source: "runner",
		Late: &Late{Stall: 9, Still: 2, Busy: 40, Ours: 10, Waits: map[string]int64{"r1.1": 7, WaitsStore: 0}}}
	want, err := r.Record(late)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Late){
		"still for longer than late": func(l *Late) { l.Still = 10 },
		"late by less than nothing":  func(l *Late) { l.Stall, l.Still = -1, -1 },
		"ours of more than all":      func(l *Late) { l.Ours = 41 },
		"a negative wait":            func(l *Late) { l.Waits = map[string]int64{"r1.1": -1} },
	} {
		bad, body := late, *late.Late
		spoil(&body)
		bad.Late = &body
		if _, err := r.Record(bad); err == nil {
			t.Errorf("%s: recorded", name)
		}
	}
	h, err := Read(&buf)
	if err != nil || len(h.Events) != 1 || !reflect.DeepEqual(h.Events[0], want) {
		t.Errorf("read %+v, %v; want %+v", h, err, want)
	}
}

func TestCheckRefusesSenselessCombinations(t *testing.T) {
	base := Event{Kind: RenewReturn, Source: "r1.1", Lock: "l", Key: "k", Epoch: "e", Op: "1", Outcome: OK, Call: &Call{Result: ResultRenewed}}
	if err := base.Check(); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for name, spoil := range map[string]func(*Event){
		"no source":            func(e *Event) { e.Source = "" },
		"inverted bracket":     func(e *Event) { e.From = 2; e.To = 1 },
		"no key":               func(e *Event) { e.Key = "" },
		"no epoch":             func(e *Event) { e.Epoch = "" },
		"no op":                func(e *Event) { e.Op = "" },
		"no outcome":           func(e *Event) { e.Outcome = "" },
		"strange outcome":      func(e *Event) { e.Outcome = "maybe" },
		"strange clock":        func(e *Event) { e.Clock = "sundial" },
		"no body":              func(e *Event) { e.Call = nil },
		"two bodies":           func(e *Event) { e.Work = &Work{} },
		"ok but not renewed":   func(e *Event) { e.Call = &Call{Result: ResultOther} },
		"outcome on an invoke": func(e *Event) { e.Kind = RenewInvoke },
		"granted but unknown":  func(e *Event) { e.Kind = AcquireReturn; e.Outcome = Unknown; e.Call = &Call{Result: ResultGranted} },
		"accepted but unknown": func(e *Event) { e.Kind, e.Call, e.Write, e.Outcome = WriteReturn, nil, &Write{Accepted: true}, Unknown },
		"entry without a place": func(e *Event) {
			e.Kind, e.Call, e.Outcome, e.Entry = LedgerEntry, nil, "", &Entry{Subject: "s", State: "done"}
		},
		"holder without epoch": func(e *Event) {
			e.Kind, e.Call, e.Outcome, e.Epoch, e.Look = LookKind, nil, "", "", &Look{Present: true}
		},
		"sample without a target": func(e *Event) {
			e.Kind, e.Call, e.Outcome, e.Sample = SampleKind, nil, "", &Sample{Metric: "m"}
		},
		"gone with values": func(e *Event) {
			e.Kind, e.Call, e.Outcome, e.Sample = SampleKind, nil, "", &Sample{Metric: "m", Target: "r1.1", Gone: GoneExited, Values: []Value{{}}}
		},
		"fault without a shot": func(e *Event) {
			e.Kind, e.Call, e.Outcome, e.Fault = FaultApplied, nil, "", &Fault{ID: "f", Kind: "kill"}
		},
	} {
		e := base
		spoil(&e)
		if e.Check() == nil {
			t.Errorf("%s: accepted: %+v", name, e)
		}
	}
}

// Every kind has a rule, and every body of Event is asked for by some kind: a new one cannot be forgotten.
func TestEveryBodyHasAKind(t *testing.T) {
	used := map[string]bool{}
	for kind, r := range rules {
		if r.body == "" {
			t.Errorf("%s has no body", kind)
		}
		used[r.body] = true
	}
	typ := reflect.TypeFor[Event]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Type.Kind() != reflect.Pointer {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !used[name] {
			t.Errorf("no kind has the body %q", name)
		}
		e := Event{}
		reflect.ValueOf(&e).Elem().Field(i).Set(reflect.New(f.Type.Elem()))
		if got := e.bodies(nil); len(got) != 1 || got[0] != name {
			t.Errorf("bodies does not see %q: %v", name, got)
		}
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestAfterAFailedWriteNothingIsRecorded(t *testing.T) {
	w := &failingWriter{left: 2} // the header and one event
	r, err := NewRecorder(w, header, counter(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.RecordNow(note("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RecordNow(note("b")); err == nil {
		t.Fatal("a failed write was not reported")
	}
	w.left = 10
	if _, err := r.RecordNow(note("c")); err == nil {
		t.Error("a history with a hole was continued")
	}
	if r.Err() == nil {
		t.Error("Err forgot")
	}
}

// A writer killed with -9 leaves a history that is readable up to its last line.
func TestKilledWriterLeavesAReadableHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HISTORY_HELPER="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for size := int64(0); size < 1<<16; {
		if time.Now().After(deadline) {
			t.Fatal("the helper wrote nothing")
		}
		if st, err := os.Stat(path); err == nil {
			size = st.Size()
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Events) < 100 {
		t.Errorf("only %d events", len(h.Events))
	}
}

// TestMain lets the test binary be the writer that TestKilledWriterLeavesAReadableHistory kills.
func TestMain(m *testing.M) {
	if path := os.Getenv("HISTORY_HELPER"); path != "" {
		fmt.Fprintln(os.Stderr, writeMuch(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func writeMuch(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	r, err := NewRecorder(f, header, counter(), nil)
	for range 10_000_000 {
		if err != nil {
			break
		}
		_, err = r.RecordNow(note("x"))
	}
	return err
}

// What Read would refuse as too long is not written: a history must not become unreadable by what a worker says.
func TestARecordThatIsTooLongIsRefused(t *testing.T) {
	var buf bytes.Buffer
	r, err := NewRecorder(&buf, header, counter(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.RecordNow(note(strings.Repeat("<", maxLine/2))); err == nil {
		t.Error("a line longer than Read takes was recorded")
	}
	if _, err := r.RecordNow(note("short")); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	if h, err := Read(&buf); err != nil || len(h.Events) != 1 {
		t.Errorf("%v, %v", h, err)
	}
}

// writes counts them.
type writes struct {
	bytes.Buffer
	n int
}

func (w *writes) Write(p []byte) (int, error) { w.n++; return w.Buffer.Write(p) }

// Events that came together are written together, each as if it had come alone; one that may not be recorded is left out.
func TestRecordAll(t *testing.T) {
	var w writes
	var tapped []string
	r, err := NewRecorder(&w, header, counter(), func(events []Event) {
		for _, e := range events {
			tapped = append(tapped, e.Note.What)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Record(note("a")); err != nil {
		t.Fatal(err)
	}
	wrong := note("wrong")
	wrong.Span = Span{From: 2, To: 1}
	before := w.n
	events := []Event{wrong, note("b"), wrong, note("c")}
	if err := r.RecordAll(events); err == nil {
		t.Error("RecordAll says nothing of an event that ends before it begins")
	}
	if err := r.RecordAll([]Event{wrong}); err == nil || r.RecordAll(nil) != nil || w.n != before {
		t.Errorf("RecordAll = %v, and %d writes before Flush, want none", err, w.n-before)
	}
	r.Flush()
	if r.Flush(); w.n != before+1 {
		t.Errorf("Flush made %d writes, want 1", w.n-before)
	}
	if err := r.RecordAll([]Event{note("d")}); err != nil {
		t.Error(err)
	}
	if e, err := r.Record(note("e")); err != nil || e.N != 5 || w.n != before+2 {
		t.Errorf("Record after it = number %d, %v, %d writes; want 5, and all in one", e.N, err, w.n-before)
	}
	h, err := Read(&w.Buffer)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, e := range h.Events {
		if got = append(got, e.Note.What); e.N != int64(i)+1 {
			t.Errorf("event %d has number %d", i, e.N)
		}
	}
	if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(got, want) || !slices.Equal(tapped, want) {
		t.Errorf("got %v, tapped %v, want %v", got, tapped, want)
	}
	if events[0].N != 2 || events[1].N != 3 {
		t.Errorf("the events that were recorded have numbers %d and %d", events[0].N, events[1].N)
	}
}
