package effects

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/follow"
)

func TestInstantsAreReadAsSourcesWriteThem(t *testing.T) {
	want := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, text := range []string{"2026-03-04T05:06:07Z", "2026-03-04T07:06:07+02:00", "2026-03-04 05:06:07+00:00", "2026-03-04 05:06:07.0Z", "2026-03-04 05:06:07+00",
		"1772600767", "1772600767.0", "1772600767000", "1772600767000000", "1772600767000000000"} {
		if got, err := instant(text); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v: %v", text, got, err)
		}
	}
	for _, text := range []string{"tomorrow", "2026-03-04 05:06:07", "20s", "NaN", "1e300", "12:00"} {
		if got, err := instant(text); !errors.Is(err, errNoInstant) {
			t.Errorf("%s is read as %v", text, got)
		}
	}
}

// An entry says from when on its job is owed, a second to both sides, since nobody knows how far the source's clock is off. Both columns
// are instants, of which the later counts; an empty one says nothing, and what is no instant is told and never passed over.
func TestAnEntrySaysWhenItsJobIsDue(t *testing.T) {
	lines, err := NewLines("")
	must(t, err)
	p := New(lines, Options{Name: "effects:jobs", Lock: "job", Prefix: "q:", Map: Map{Job: "job", State: "state", Due: "opts.due", NotBefore: "after"}})
	now := time.Now()
	ms := func(ahead time.Duration) string { return fmt.Sprint(now.Add(ahead).UnixMilli()) }
	for _, c := range []struct {
		fields string
		ahead  time.Duration // 0 = it says nothing
		wrong  bool
	}{
		{`"opts":{"due":` + ms(20*time.Second) + `}`, 20 * time.Second, false},
		{`"opts":{"due":"` + now.Add(20*time.Second).Format(time.RFC3339Nano) + `"},"after":` + ms(time.Minute), time.Minute, false},
		{`"opts":{"due":` + ms(time.Hour) + `},"after":` + ms(time.Minute), time.Hour, false},
		{`"opts":{"due":""}`, 0, false},
		{`"opts":{}`, 0, false},
		{`"opts":{"due":"soon"}`, 0, true},
	} {
		lines.take("f", "", follow.Plain([]byte(`{"job":"a","state":"added",`+c.fields+`}`), false, history.Span{From: 12, To: 13}))
		read, err := p.Look(t.Context(), false)
		must(t, err)
		at := int64(time.Hour)
		events := read(history.Span{From: at - 1, To: at})
		due := events[0].Entry.Due
		switch {
		case (due != nil) != (c.ahead > 0):
			t.Errorf("%s: due %v", c.fields, due)
		case due != nil && (due.From > at+int64(c.ahead-clockError) || due.To < at+int64(c.ahead-clockError) || due.To-due.From != int64(2*clockError)):
			t.Errorf("%s: due %v after %v", c.fields, due, time.Duration(at))
		}
		if told := len(events) == 2 && events[1].Unread != nil && strings.Contains(events[1].Unread.Detail, `"soon" in column opts.due is no instant`); told != c.wrong || len(events) > 2 {
			t.Errorf("%s: %v", c.fields, events)
		}
		for i := range events {
			events[i].N, events[i].At = 1, at
			must(t, events[i].Check())
		}
	}
	past := Map{Due: "due"}
	for _, text := range []string{"0", "1970-01-01T00:00:00Z"} {
		if due, wrong := past.due(Row{"due": text}, 5, now); wrong != "" || due == nil || *due != (history.Span{}) {
			t.Errorf("%s, long over: %v %s", text, due, wrong)
		}
	}
	if due, _ := past.due(Row{"due": "9999-12-31T00:00:00Z"}, 5, now); due == nil || due.From < int64(50*365*24*time.Hour) || due.To < due.From {
		t.Errorf("never: %v", due)
	}
	lines.take("f", "", follow.Plain([]byte(`{"job":"a","state":"added","after":"soon"}`), false, history.Span{From: 12, To: 13}))
	if _, err := p.Last(t.Context(), 5); !errors.Is(err, ErrSource) {
		t.Errorf("before a run: %v", err)
	}
}

// A trace context is taken where it is one, and passed over where it is none: it decides nothing.
func TestAnEntrySaysItsTrace(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	lines, err := NewLines("")
	must(t, err)
	p := New(lines, Options{Name: "effects:jobs", Lock: "job", Map: Map{Job: "job", State: "state", Traceparent: "headers.traceparent"}})
	for said, want := range map[string]string{trace: trace, "": "", "4bf92f35": "", trace + "\n": "", strings.ToUpper(trace): ""} {
		lines.take("f", "", follow.Plain([]byte(fmt.Sprintf(`{"job":"a","state":"added","headers":{"traceparent":%q}}`, said)), false, history.Span{From: 12, To: 13}))
		read, err := p.Look(t.Context(), false)
		must(t, err)
		if events := read(history.Span{From: 20, To: 21}); len(events) != 1 || events[0].Entry.Trace != want {
			t.Errorf("%q: %+v, want %q", said, events[0].Entry, want)
		}
	}
}
