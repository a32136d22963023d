package fault

import (
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
	Cut    Cutting       // Hole, Reset or Down; "" = messages get through
}

// Network is a fault of the ways between replicas and the locks' store: it needs a Toxiproxy.
type Network interface {
	Spec
	Wire() Wire
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
	x, some := a.(Network)
	y, too := b.(Network)
	if !some || !too || !sameReplica(a.Target(), b.Target()) {
		return ""
	}
	for _, s := range []Stream{StreamUp, StreamDown} {
		if x.Wire().Stream.On(s) && y.Wire().Stream.On(s) {
			return "two faults of the network on the " + string(s) + " of one replica disturb one another (latency with jitter is one fault)"
		}
	}
	return ""
}

// sameReplica reports whether two faults may strike one replica: who holds a lock is known only when the fault fires.
func sameReplica(a, b Aim) bool {
	return a.Replica == "" || b.Replica == "" || a.Replica == b.Replica
}
