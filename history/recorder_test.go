package history

import (
	"bytes"
	"sync"
	"testing"
)

// A disk that is slow holds up who waits for it, and not who only records; nothing is lost or out of order.
func TestASlowWriteHoldsUpNobodyWhoOnlyRecords(t *testing.T) {
	w := &slow{begun: make(chan struct{}), release: make(chan struct{})}
	r, err := NewRecorder(&w.buf, Header{Run: "r", Experiment: "x", Mode: Live, TimeScale: 1}, func() int64 { return 7 }, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.w = w
	event := func() Event {
		return Event{Kind: LookKind, Source: "probe:x", Lock: "l", Key: "k", Look: &Look{PTTL: -2}}
	}
	if err := r.RecordAll([]Event{event(), event()}); err != nil {
		t.Fatal(err)
	}
	flushed := make(chan struct{})
	go func() {
		r.Flush()
		close(flushed)
	}()
	<-w.begun
	for range 3 { // while that goes on
		if err := r.RecordAll([]Event{event()}); err != nil {
			t.Fatal(err)
		}
	}
	if !r.Waiting() {
		t.Error("nothing waits to be written")
	}
	close(w.release)
	if _, err := r.Record(event()); err != nil {
		t.Fatal(err)
	}
	<-flushed
	h, err := Read(&w.buf)
	if err != nil || len(h.Events) != 6 {
		t.Fatalf("%d events, %v", len(h.Events), err)
	}
	for i, e := range h.Events {
		if e.N != int64(i)+1 {
			t.Errorf("event %d is number %d", i+1, e.N)
		}
	}
}

// slow is a writer whose first write ends when it may.
type slow struct {
	buf            bytes.Buffer
	begun, release chan struct{}
	once           sync.Once
}

func (s *slow) Write(b []byte) (int, error) {
	s.once.Do(func() {
		close(s.begun)
		<-s.release
	})
	return s.buf.Write(b)
}
