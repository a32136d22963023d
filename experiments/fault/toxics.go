package fault

import (
	"cmp"
	"reflect"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// Faults of the ways between replicas and the store, by toxics of a Toxiproxy. A field's tag `toxic` is what Toxiproxy calls it there.

// Latency delays what goes through by Add, give or take Jitter: in each direction that Stream names (default downstream).
type Latency struct {
	Aim
	Add    time.Duration `rule:"positive" scale:"yes" toxic:"latency"` // delay
	Jitter time.Duration `rule:"positive" scale:"yes" toxic:"jitter"`  // give or take this
	Stream Stream        `rule:"words=upstream|downstream|both"`       // upstream: requests; downstream: replies
}

// Jitter delays by anything from nothing to twice By.
type Jitter struct {
	Aim
	By     time.Duration `rule:"required,positive" scale:"yes" toxic:"latency jitter"` // delays up to twice this
	Stream Stream        `rule:"words=upstream|downstream|both"`                       // upstream: requests; downstream: replies
}

// Bandwidth limits what goes through.
type Bandwidth struct {
	Aim
	Rate   int    `rule:"required,min=1,max=2e5" toxic:"rate"` // kB/s
	Stream Stream `rule:"words=upstream|downstream|both"`      // upstream: requests; downstream: replies
}

// Slices cuts what goes through into pieces of Size, each Delay after the one before.
type Slices struct {
	Aim
	Size   int           `rule:"required,min=1,max=10000" toxic:"average_size"`  // bytes of a piece
	Delay  time.Duration `rule:"required,positive" scale:"yes" toxic:"delay µs"` // between two pieces
	Stream Stream        `rule:"words=upstream|downstream|both"`                 // upstream: requests; downstream: replies
}

// LimitData ends a connection when Bytes have gone through.
type LimitData struct {
	Aim
	Bytes  int    `rule:"required,min=1000,max=1e6" toxic:"bytes"` // after which a connection ends
	Stream Stream `rule:"words=upstream|downstream|both"`          // upstream: requests; downstream: replies
}

// SlowClose keeps connections from closing for Delay.
type SlowClose struct {
	Aim
	Delay  time.Duration `rule:"required,positive" scale:"yes" toxic:"delay"` // so much later connections close
	Stream Stream        `rule:"words=upstream|downstream|both"`              // upstream: requests; downstream: replies
}

// Cut is a fault of the network without a magnitude: black_hole, reset or down, of both directions. Three kinds that differ in what
// becomes of connections, so they share all else.
type Cut struct {
	Aim
	How Cutting `file:"-"`
}

// Cutting is what becomes of connections; it is the kind's word as well.
type Cutting string

const (
	Hole  Cutting = "black_hole" // nothing gets through, connections stay open
	Reset Cutting = "reset"      // connections are reset
	Down  Cutting = "down"       // nobody listens
)

// toxic is the row of a fault by a toxic that Toxiproxy calls so; "" = the proxy is disabled. Durations are at least a millisecond: a
// Toxiproxy would do a whole one, which nobody declared.
func toxic[F any](section F, called, says string, words Form, wire func(*F) Wire, all ...Constraint) Kind {
	at := reflectOf(&section)
	stream := fieldNamed(at, "stream").IsValid()
	if stream {
		fieldNamed(at, "stream").SetString(string(StreamDown))
	}
	k := Kind{Word: any(&section).(Spec).Kind(), Says: says, By: Toxic, New: made(section), Aims: ways, Form: words, toxic: called}
	if stream {
		k.Formed = "stream"
	}
	k.Form.Way, k.Told = true, "{kind}[ {size}] between {victim}{held} and the store{then}"
	k.Undone = cmp.Or(words.Undone, "the toxics of this fault are removed and the proxy is read back; where that hangs, the proxy is disabled and made again, or left to you if it is yours")
	k.wire = func(f any) Wire {
		w := wire(f.(*F))
		if w.Stream = StreamBoth; stream {
			w.Stream = Stream(fieldNamed(reflectOf(f), "stream").String())
		}
		return w
	}
	k.Values = func(f any, _ Traits) Traits {
		w := wire(f.(*F))
		return Traits{Class: ClassPause, Noun: "fault", GoesOn: "a fault of the network goes on until it is ended", OnTheWay: true, Cuts: w.Cut != "", Drops: w.Ends > 0, Holds: w.Add + w.Jitter}
	}
	k.Unsupported = unsupported(func(_ *F, a Around) string { return proxyless(a) })
	k.Constraints = append(k.Constraints, breaks("", "strikes one replica, and the proxy of proxy.route is on the way of all of them: say all: true, or name one of each replica's own, as route: \"redis-{name}\"",
		func(f *F, c Checker) bool {
			a := any(f).(Aimed).AimAt()
			return c.Around().Shared && (a.HolderOf != "" || a.Replica != "")
		}))
	for i := range at.NumField() {
		if at.Field(i).Type() != reflect.TypeFor[time.Duration]() {
			continue
		}
		k.Constraints = append(k.Constraints, because(vocab.FieldName(at.Type().Field(i)), func(f *F, c Checker) string {
			d := time.Duration(reflectOf(f).Field(i).Int())
			if took := vocab.Scaled(d, c.Around().TimeScale); d > 0 && took < time.Millisecond {
				return figures.Spell(took) + ", after time_scale, is under 1ms, the least that a Toxiproxy can do"
			}
			return ""
		}))
	}
	k.Constraints = append(k.Constraints, all...)
	return k
}

func proxyless(a Around) string {
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

const (
	slower = "a round trip through the proxy is measured before and during it, and the replica's own calls show it"
	echoed = "the time that some data takes through the proxy is measured before and during it, and the replica is connected through it"
)

var toxics = []Kind{
	toxic(Latency{}, "latency", "requests, replies or both are delayed, give or take a jitter",
		Form{Size: "+{add|0}[ ± {jitter}] {stream}", Does: "{stream|goes} are delayed by {add|0}[, give or take {jitter}]", Seen: slower},
		func(l *Latency) Wire { return Wire{Add: l.Add, Jitter: l.Jitter} },
		breaks("", "delays nothing: needs add, jitter, or both", func(l *Latency, _ Checker) bool { return l.Add == 0 && l.Jitter == 0 })),
	toxic(Jitter{}, "latency", "they are delayed by anything up to twice as much as given",
		Form{Size: "± {by|0} {stream}", Does: "{stream|goes} are delayed by anything up to {twice}", Seen: slower, Shows: "the slowest round trip was"},
		func(j *Jitter) Wire { return Wire{Add: j.By, Jitter: j.By} }),
	toxic(Bandwidth{}, "bandwidth", "no more than so many kB a second get through",
		Form{Size: "{rate|0} kB/s {stream}", Does: "{stream|goes} pass at no more than {rate|0} kB/s", Seen: echoed, Shows: "an echo of some data took"},
		func(b *Bandwidth) Wire { return Wire{Rate: max(1, b.Rate)} }),
	toxic(Slices{}, "slicer", "what goes through comes in small pieces, one after the other",
		Form{Size: "{size|0} bytes every {delay|0} {stream}", Does: "{stream|goes} come in pieces of at most {size|0} bytes, {delay|0} apart", Shows: "an echo of some data took",
			Seen: echoed, Unplayed: "messages are simulated and their bytes are not: rehearse latency"},
		func(s *Slices) Wire { return Wire{Piece: max(1, s.Size), Apart: s.Delay} }),
	toxic(LimitData{}, "limit_data", "a connection ends after so many bytes, and the next one as well", Form{Size: "after {bytes|0} bytes {stream}", Does: "a connection ends when {bytes|0} bytes of {stream|goes} have gone through",
		Seen: echoed, Shows: "an echo of so much data took", Unplayed: "messages are simulated and their bytes are not: rehearse reset"}, func(l *LimitData) Wire { return Wire{Ends: l.Bytes} }),
	cutting(Hole, "timeout", "nothing gets through, and connections stay open: calls hang", Form{Does: "nothing gets through, and connections stay open", Seen: "a call through the proxy gets no answer, and the replica's own get none"}),
	cutting(Reset, "reset_peer", "connections are reset", Form{Does: "connections are reset", Seen: "a connection through the proxy is reset, and the replica's own are"}),
	toxic(SlowClose{}, "slow_close", "connections that one side has closed stay open for the other",
		Form{Size: "{delay|0} {stream}", Does: "connections stay open for {delay|0} after one side has closed them", Shows: "closing took",
			Seen:     "the close of a connection through the proxy is measured before and during it, and the replica is connected through it",
			Unplayed: "messages are simulated and connections are not: how long one takes to close changes no message"},
		func(s *SlowClose) Wire { return Wire{Linger: s.Delay} }),
	cutting(Down, "", "nobody listens where the replica reaches the store: connections are refused", Form{Does: "nobody listens where the replica reaches the store",
		Seen: "a connection to the proxy is refused, and the replica's own are gone", Undone: "the proxy is enabled again and read back; where that hangs, it is made again, or left to you if it is yours"}),
}

func cutting(how Cutting, called, says string, words Form) Kind {
	return toxic(Cut{How: how}, called, says, words, func(c *Cut) Wire { return Wire{Cut: c.How} })
}

func (*Latency) Kind() string   { return "latency" }
func (*Jitter) Kind() string    { return "jitter" }
func (*Bandwidth) Kind() string { return "bandwidth" }
func (*Slices) Kind() string    { return "slices" }
func (*LimitData) Kind() string { return "limit_data" }
func (*SlowClose) Kind() string { return "slow_close" }
func (c *Cut) Kind() string     { return string(c.How) }

func (j *Jitter) values() map[string]string {
	return map[string]string{"twice": figures.Spell(2 * j.By)}
}
