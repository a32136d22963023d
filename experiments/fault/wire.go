package fault

import (
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Wire is what a fault of the network does to what goes over the ways between replicas and the locks' store.
type Wire struct {
	Stream Stream
	Add    time.Duration // each message is late by Add, give or take Jitter
	Jitter time.Duration
	Rate   int           // kB/s; 0 = no limit
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

// words are what goes in that direction.
func (s Stream) words() string {
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

// onWays are the traits of any fault of the network.
func onWays(w Wire) Traits {
	return Traits{Class: ClassPause, Noun: "fault", GoesOn: "a fault of the network goes on until it is ended", OnTheWay: true, Cuts: w.Cut != "", Holds: w.Add + w.Jitter}
}

// noProxy says why replicas cannot be led through a proxy.
func noProxy(a Around) string {
	switch {
	case a.Observed && a.Pods:
		return "whether the traffic of somebody's pods passes a proxy cannot be seen from here: network_policy cuts a pod off"
	case a.Observed && !a.Routed:
		return "nobody leads observed replicas through a proxy of lockdrill's: name the one of yours that their traffic passes, as proxy: {mode: external, url: \"http://127.0.0.1:8474\", route: NAME}" + instead
	case a.Pods && !a.PodsProxy:
		return "pods do not reach a proxy inside the runner: proxy: {mode: external, url: ...}, a Toxiproxy that runner and pods reach"
	}
	return ""
}

// checkWay is check, of a fault of the network: a proxy that all replicas share cannot be slow for one of them.
func (a *Aim) checkWay(c Checker) {
	a.check(c, a.Whom(), false)
	if c.Around().Shared && (a.HolderOf != "" || a.Replica != "") {
		c.Check("", "strikes one replica, and the proxy of proxy.route is on the way of all of them: say all: true, or name one of each replica's own, as route: \"redis-{name}\"")
	}
}

// checkFine refuses what a Toxiproxy cannot do: it would do a whole millisecond, which nobody declared.
func checkFine(c Checker, field string, d time.Duration) {
	if took := vocab.Scaled(d, c.Around().TimeScale); d > 0 && took < time.Millisecond {
		c.Check(field, "%s, after time_scale, is under 1ms, the least that a Toxiproxy can do", figures.Spell(took))
	}
}

// onTheWay is what a fault of the network did, in the words of a story.
func onTheWay(s Spec, shot Shot) string {
	lasts := ""
	if shot.Lasts > 0 {
		without := shot
		without.Holding = false
		lasts = without.lasting()
	}
	return Words(s.Kind(), shot.Configured) + " between " + shot.Victim + shot.held() + " and the store" + lasts
}

const (
	slower   = "a round trip through the proxy is measured before and during it, and the replica's own calls show it"
	toxicOff = "the toxics of this fault are removed and the proxy is read back; where that hangs, the proxy is disabled and made again, or left to you if it is yours"
)
