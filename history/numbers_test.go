package history

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// numbered is a small history with events of four streams, as a recorder writes it.
func numbered(t *testing.T) *History {
	t.Helper()
	var buf bytes.Buffer
	r, err := NewRecorder(&buf, header, counter(), nil)
	if err != nil {
		t.Fatal(err)
	}
	cover := func(probe string, at int64) Event {
		return Event{Kind: CoverageKind, Source: "probe:" + probe, Span: Span{at, at + 10}, Coverage: &Coverage{Probe: probe}}
	}
	life := func(n int) Event {
		return Event{Kind: StoreIncarnation, Source: "runner", Span: At(int64(n) * 7), Incarnation: &Incarnation{Store: "locks", RunID: "x", Life: n, Why: "start"}}
	}
	sample := func(at int64) Event {
		return Event{Kind: SampleKind, Source: "probe:metrics", Span: At(at), Sample: &Sample{Metric: "m", Target: "r1.1"}}
	}
	unread := Event{Kind: UnreadKind, Source: "probe:effects:jobs", Span: Span{4, 6}, Unread: &Unread{Source: "effects:jobs", Count: 2, Reason: CutOff}}
	for _, e := range []Event{
		life(1), cover("lock_keys", 0), sample(3), unread, cover("metric:m", 0), cover("lock_keys", 10), life(2), sample(12), note("x"),
		{Kind: RunEnd, Source: "runner", Span: At(30), Note: &Note{What: "completed", OK: true}},
	} {
		if _, err := r.Record(e); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func holes(events []Event) (all []Hole) {
	n := Numbers{}
	for i := range events {
		n.See(&events[i], func(h Hole) { all = append(all, h) })
	}
	return all
}

// Whatever numbered event is missing, the numbers of its stream tell, also those of the last one and of the only one.
func TestAMissingEventIsSeenByItsNumber(t *testing.T) {
	h := numbered(t)
	if got := holes(h.Events); got != nil {
		t.Errorf("holes in a whole history: %+v", got)
	}
	for i, e := range h.Events {
		less := slices.Delete(slices.Clone(h.Events), i, i+1)
		got := holes(less)
		switch stream := e.Stream(); {
		case stream == "" && got != nil:
			t.Errorf("without event %d, %s: %+v", e.N, e.Kind, got)
		case stream != "" && (len(got) != 1 || got[0].Stream != stream || got[0].Count != 1 || got[0].Span.From > e.From || got[0].Span.To < e.From):
			t.Errorf("without event %d of %s at %v: %+v", e.N, stream, e.Span, got)
		}
	}
	end := h.Events[len(h.Events)-1].Note
	if want := map[string]int64{"store:locks": 2, "lock_keys": 2, "metric:m": 3, "effects:jobs": 1}; !reflect.DeepEqual(end.Last, want) {
		t.Errorf("the end says %v, want %v", end.Last, want)
	}
}

// A recorder that refuses an event leaves the hole of its number: what was to be said is missing.
func TestARefusedEventLeavesAHole(t *testing.T) {
	var buf bytes.Buffer
	r, err := NewRecorder(&buf, header, counter(), nil)
	if err != nil {
		t.Fatal(err)
	}
	events := []Event{
		{Kind: CoverageKind, Source: "p", Coverage: &Coverage{Probe: "ledger"}},
		{Kind: CoverageKind, Source: "p", Span: Span{9, 3}, Coverage: &Coverage{Probe: "ledger"}}, // inverted
		{Kind: CoverageKind, Source: "p", Coverage: &Coverage{Probe: "ledger"}},
	}
	if err := r.RecordAll(events); err == nil {
		t.Fatal("an inverted bracket was recorded")
	}
	r.Flush()
	h, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if got := holes(h.Events); len(got) != 1 || got[0].Stream != "ledger" || got[0].Count != 1 {
		t.Errorf("%+v", got)
	}
}

// Kinds and numbers belong to schemas: a number in an old history, or none in a new one, is damage.
func TestAKindIsReadUnderItsSchemaAlone(t *testing.T) {
	const head = `{"schema":%d,"tool":"","run":"r","experiment":"x","digest":"","seed":0,"mode":"live","time_scale":1,"started":""}` + "\n"
	for _, c := range []struct {
		schema     int
		line, want string
	}{
		{1, `{"n":1,"kind":"machine.late","from":1,"to":1,"at":1,"source":"runner","late":{"stall":5}}`, "there is no such kind in schema 1: it came with 2"},
		{2, `{"n":1,"kind":"machine.late","from":1,"to":1,"at":1,"source":"runner","late":{"stall":5}}`, ""},
		{2, `{"n":1,"kind":"unread","from":1,"to":1,"at":1,"source":"p","seq":1,"unread":{"source":"logs","count":1,"reason":"cut"}}`, "it came with 3"},
		{3, `{"n":1,"kind":"unread","from":1,"to":1,"at":1,"source":"p","seq":1,"unread":{"source":"logs","count":1,"reason":"cut"}}`, ""},
		{2, `{"n":1,"kind":"coverage","from":1,"to":1,"at":1,"source":"p","coverage":{"probe":"logs"}}`, ""},
		{2, `{"n":1,"kind":"coverage","from":1,"to":1,"at":1,"source":"p","seq":1,"coverage":{"probe":"logs"}}`, "seq 1 does not fit schema 2"},
		{3, `{"n":1,"kind":"coverage","from":1,"to":1,"at":1,"source":"p","coverage":{"probe":"logs"}}`, "seq 0 does not fit schema 3"},
		{3, `{"n":1,"kind":"run.cleanup","from":1,"to":1,"at":1,"source":"p","seq":1,"note":{"what":"x","ok":true}}`, "seq 1 does not belong here"},
	} {
		_, err := Read(strings.NewReader(fmt.Sprintf(head, c.schema) + c.line + "\n"))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("schema %d, %s: %v, want %q", c.schema, c.line, err, c.want)
		}
	}
}

// NaN and the infinities are what they are, written and read again.
func TestEveryNumberIsReadBack(t *testing.T) {
	for _, x := range []float64{0, -1, 0.1, 1e300, -math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1)} {
		e := Event{N: 1, Kind: SampleKind, Source: "p", Seq: 1, Sample: &Sample{Metric: "m", Target: "t", Values: []Value{{Value: Number(x)}}}}
		line, err := MarshalEvent(&e)
		if err != nil {
			t.Fatal(err)
		}
		var got Event
		if err := new(Parser).Parse(line, &got); err != nil || !got.Sample.Same(*e.Sample) {
			t.Errorf("%v: %s read as %+v, %v", x, line, got.Sample, err)
		}
	}
	for _, text := range []string{`"Inf"`, `"nan"`, `"1"`, `true`} {
		var v Value
		if err := new(Number).UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s was read as %v", text, v.Value)
		}
	}
}

func TestWhatMakesNoSenseOfReadingsIsRefused(t *testing.T) {
	sample := func(s Sample) Event {
		s.Metric, s.Target = "m", "t"
		return Event{Kind: SampleKind, Source: "p", Sample: &s}
	}
	unread := func(u Unread) Event { return Event{Kind: UnreadKind, Source: "p", Unread: &u} }
	belief := func(lock string, b Belief) Event { return Event{Kind: BeliefKind, Source: "p", Lock: lock, Belief: &b} }
	for _, good := range []Event{
		sample(Sample{Gone: GoneRefused, Why: "HTTP 401"}), sample(Sample{Values: []Value{{}}, Partial: "one of two stores is away"}),
		unread(Unread{Source: "logs", Count: 1, Reason: Unparsable}),
		belief("l", Belief{Incarnation: "r1.1", Holds: true, By: "metric"}), belief("l", Belief{Named: "a", Gone: GoneTimeout, By: "http"}),
	} {
		if err := good.Check(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []Event{
		sample(Sample{Gone: GoneRefused, Values: []Value{{}}}), sample(Sample{Gone: GoneRefused, Partial: "x"}), sample(Sample{Why: "x"}),
		unread(Unread{Count: 1, Reason: CutOff}), unread(Unread{Source: "logs", Reason: CutOff}), unread(Unread{Source: "logs", Count: 1, Reason: "bored"}),
		belief("", Belief{Named: "a", By: "log"}), belief("l", Belief{By: "log"}), belief("l", Belief{Named: "a"}),
		belief("l", Belief{Named: "a", By: "log", Holds: true, Gone: GoneTimeout}),
	} {
		if err := bad.Check(); err == nil {
			t.Errorf("%+v %+v %+v: no error", bad.Sample, bad.Unread, bad.Belief)
		}
	}
}
