package fault

import (
	"strings"
	"time"
)

// Wire is what a fault of the network does to what goes over the ways between replicas and the locks' store.
type Wire struct {
	Stream Stream
	Add    time.Duration // each message is late by Add, give or take Jitter
	Jitter time.Duration
	Rate   int           // kB/s; 0 = no limit
	Piece  int           // bytes that come together; 0 = all
	Apart  time.Duration // from one piece to the next
	Linger time.Duration // connections stay open for so long after one side has closed them
	Ends   int           // bytes after which a connection ends; 0 = it does not
	Cut    Cutting       // Hole, Reset or Down; "" = messages get through
}

// Wire is what it does to the ways between replicas and the locks' store; ok is false of a fault that needs no Toxiproxy.
func (f Fault) Wire() (w Wire, ok bool) {
	if f.row.wire == nil {
		return Wire{}, false
	}
	return f.row.wire(f.section), true
}

// Toxic is what Toxiproxy calls it, with its attributes; "" = the proxy is disabled. Toxiproxy counts whole milliseconds.
func (f Fault) Toxic() (called string, attributes map[string]any) {
	attributes = map[string]any{}
	section := reflectOf(f.section)
	for i := range section.NumField() {
		names, micro := strings.CutSuffix(section.Type().Field(i).Tag.Get("toxic"), " µs")
		v := section.Field(i).Interface()
		if d, is := v.(time.Duration); is {
			v = Whole(d).Milliseconds()
			if micro {
				v = d.Microseconds()
			}
		}
		for name := range strings.FieldsSeq(names) {
			attributes[name] = v
		}
	}
	return f.row.toxic, attributes
}

// Whole is a duration in whole milliseconds, at least one.
func Whole(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return max(d.Round(time.Millisecond), time.Millisecond)
}

// Stream is the direction of a fault of the network, seen from the replica: upstream carries requests, downstream replies.
type Stream string

const (
	StreamUp   Stream = "upstream"
	StreamDown Stream = "downstream"
	StreamBoth Stream = "both"
)

// spelled is the direction as a file has it, or what goes in it.
func (s Stream) spelled(way string) string {
	if way == "" {
		return string(s)
	}
	return map[Stream]string{StreamUp: "requests", StreamDown: "replies", StreamBoth: "requests and replies"}[s]
}

// On reports whether a fault of that stream changes one of the two directions.
func (s Stream) On(one Stream) bool {
	return s == StreamBoth || s == one || s == "" && one == StreamDown
}

// Outlasts reports that under the fault no call is answered within limit: a mild one keeps nobody away.
func (w Wire) Outlasts(limit time.Duration) bool {
	late := w.Add + w.Jitter
	if w.Rate > 0 {
		late = time.Second / time.Duration(w.Rate) // a call is less than a kB
	}
	if w.Piece > 0 {
		late = time.Duration(1000/w.Piece) * w.Apart
	}
	if w.Stream == StreamBoth {
		late *= 2
	}
	return w.Cut != "" || w.Linger == 0 && late >= limit
}

// Collide says why two faults can never be in effect together, or "": one toxic for each replica and stream, since adding or
// removing one flushes its neighbours.
func Collide(a, b Spec) string {
	x, some := Of(a).Wire()
	y, too := Of(b).Wire()
	if !some || !too || !sameReplica(a.Target(), b.Target()) {
		return ""
	}
	for _, s := range []Stream{StreamUp, StreamDown} {
		if x.Stream.On(s) && y.Stream.On(s) {
			return "two faults of the network on the " + string(s) + " of one replica disturb one another (latency with jitter is one fault)"
		}
	}
	return ""
}

// sameReplica reports whether two faults may strike one replica: who holds a lock is known only when the fault fires.
func sameReplica(a, b Aim) bool {
	return a.Replica == "" || b.Replica == "" || a.Replica == b.Replica
}
