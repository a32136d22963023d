package history

import (
	"maps"
	"slices"
	"strings"
)

// Some events are numbered, stream by stream: those of which the absence of one could make something look better than it was. A stream
// is what one probe shows, or the lives of one store.
//
// Entries of our own ledger are none of these: their writers say them too.

// Stream names the stream in which e is numbered; "" = none. What coverage events call a probe, its samples, beliefs, effects and unread
// records belong to as well, and its looks at keys, so that each second of coverage vouches for all that it has told before.
func (e *Event) Stream() string {
	switch {
	case e.Coverage != nil:
		return e.Coverage.Probe
	case e.Entry != nil && e.Entry.Foreign:
		return strings.TrimPrefix(e.Source, "probe:")
	case e.Look != nil: // without one, a value that came back looks like one that was extended
		return strings.TrimPrefix(e.Source, "probe:")
	case e.Sample != nil && e.Sample.Metric == AlertsFiring:
		return "alerts"
	case e.Sample != nil:
		return "metric:" + e.Sample.Metric
	case e.Incarnation != nil:
		return "store:" + e.Incarnation.Store
	case e.Unread != nil:
		return e.Unread.Source
	case e.Belief != nil:
		return BeliefProbe(e.Lock)
	}
	return ""
}

// StoreOf is the store whose lives are the stream.
func StoreOf(stream string) (store string, ok bool) { return strings.CutPrefix(stream, "store:") }

// Numbers are the streams of a history with the last event of each, while it is written or read.
type Numbers map[string]numberedLast

type numberedLast struct {
	seq  int64
	from int64 // what comes next tells of nothing before it: where the last coverage began, or the last life
}

// Give numbers e, if it is of a stream, and has the end of a run say how far each came.
func (n Numbers) Give(e *Event) {
	if e.Kind == RunEnd && e.Note != nil {
		note := *e.Note
		note.Last = make(map[string]int64, len(n))
		for stream, last := range n {
			note.Last[stream] = last.seq
		}
		e.Note = &note
		return
	}
	e.Seq = 0
	if stream := e.Stream(); stream != "" {
		e.Seq = n[stream].seq + 1
		n[stream] = numberedLast{seq: e.Seq}
	}
}

// Hole is where events of a stream are missing. Span is when what they said happened, as far as that follows from what is there.
type Hole struct {
	Stream string
	Count  int64
	Span   Span
}

// See takes in the next event of a history of schema 3 or later, and shows the holes that it tells of.
func (n Numbers) See(e *Event, hole func(Hole)) {
	if e.Kind == RunEnd {
		for _, stream := range slices.Sorted(maps.Keys(e.Note.Last)) {
			if missing := e.Note.Last[stream] - n[stream].seq; missing > 0 {
				hole(Hole{stream, missing, n[stream].until(e)})
			}
		}
		return
	}
	if e.Seq == 0 {
		return
	}
	stream := e.Stream()
	last := n[stream]
	if missing := e.Seq - last.seq - 1; missing > 0 {
		hole(Hole{stream, missing, last.until(e)})
	}
	last.seq = max(last.seq, e.Seq)
	if e.Coverage != nil || e.Incarnation != nil {
		last.from = max(last.from, e.From)
	}
	n[stream] = last
}

// until is when what is missing between the last event of a stream and e happened.
func (l numberedLast) until(e *Event) Span { return Span{l.from, max(l.from, e.To, e.At)} }
